"""Random operations, services, indexes and schema changes on a table of a form, against a dict; every kind of query is
compared with it."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.choice import SEED
from tests.support.histories.forms import Form
from tests.support.histories.services import Services
from tests.support.histories.writes import Writes


class TableMachine(Writes, Services):
    """`past` has the states after the writes that the active timeline may have; the last one is the present."""


def check_tables(
    form: Form, *, examples: int, steps: int, count: Callable[[str, object], None] = lambda name, value: None
) -> None:
    """Runs the machine on so many tables of a form, with so many steps each at most; with each HUDI_PY_SEED, and for
    each form, on other ones. `count` is told how many there were."""
    done, refused = Counter[str](), Counter[str]()
    kind = type("Machine", (TableMachine,), {"form": form, "done": done, "refused": refused})
    machine = seed(zlib.crc32(f"{SEED} {form}".encode()))(kind)
    given = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if os.environ.get("HUDI_PY_SHRINK") else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    try:
        run_state_machine_as_test(machine, settings=given)
    finally:
        queries = ("some_rows", "without_metadata", "the_past", "changes", "a_range", "other_readers", "the_program")
        count("counted: tables of random histories", done["table"])
        count("counted: steps of random histories", done["step"])
        count("counted: comparisons of queries with a plain model", sum(done[name] for name in queries) + done["step"])
        count("counted: damages of files of random histories", done["damages"])
        count("counted: verified metadata tables of random histories", done["the_metadata_table"])
        count("counted: steps of random histories that were refused", refused.total())
