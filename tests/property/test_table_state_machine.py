"""Random operations, services, indexes and schema changes against a dict, in every form that a table may have."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from tests.support.choice import cases, covering
from tests.support.histories.forms import COMMIT_TIME, EVENT_TIME, INDEXES, Form
from tests.support.histories.machine import TableMachine, check_tables

pytestmark = pytest.mark.slow  # tests/property/test_write_state_machine.py is quick

LOGGED = ("", "op_key_only", "data_before", "data_before_after")
BASES = ("PARQUET", "ORC")
ALL = [
    *product(("cow",), (6, 8, 9), [*INDEXES][:-1], BASES, ("avro",), (True,), LOGGED, (False, True)),
    *product(("mor",), (6, 8, 9), INDEXES, BASES, ("avro", "parquet"), (True, False), LOGGED, (False, True)),
]
FORMS = [Form(*ALL[at]) for at in sorted(covering(ALL, "table forms"))]
"""They have every pair of values; with another seed, others."""
TABLES, STEPS = (32, 25) if os.environ.get("HUDI_PY_WHOLE") else (3, 15)
"""Of each form; `make nightly` has all forms. All forms together take more than 20,000 steps in the long run."""


@pytest.mark.parametrize("form", cases(FORMS, "table machine", 3), ids=str)
def test_every_query_agrees_after_each_step(form: Form, record_property: Callable[[str, object], None]) -> None:
    check_tables(form, examples=TABLES, steps=STEPS, count=record_property)


LACKING = [
    *(
        Form(kind, version, index, lacks="meta")
        for kind in ("cow", "mor")
        for version in (6, 8, 9)
        for index in ("SIMPLE", "GLOBAL_SIMPLE", "BUCKET", *(["HASHES"] if kind == "mor" else []))
    ),
    *(
        Form(kind, version, index, lacks="partitions")
        for kind in ("cow", "mor")
        for version in (6, 8, 9)
        for index in ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "RECORD", "BUCKET")
    ),
]


@pytest.mark.nightly
@pytest.mark.parametrize("form", cases(LACKING, "files lack columns", 2), ids=str)
def test_tables_whose_files_lack_columns(form: Form, record_property: Callable[[str, object], None]) -> None:
    check_tables(form, examples=TABLES, steps=STEPS, count=record_property)


MODES = [
    Form(kind, version, index, mode=mode, nested=nested)
    for kind, version, index, mode, nested in product(
        ("cow", "mor"), (6, 8, 9), INDEXES, (COMMIT_TIME, EVENT_TIME), (False, True)
    )
    if (kind, index) != ("cow", "HASHES")
]


@pytest.mark.slow
@pytest.mark.parametrize("form", cases(MODES, "late rows and copies", 2), ids=str)
def test_late_rows_copies_and_nested_partitions(form: Form, record_property: Callable[[str, object], None]) -> None:
    check_tables(form, examples=TABLES, steps=STEPS, count=record_property)


A, B = ("a", 1), ("b", 1)
HASHES = Form("mor", 8, "HASHES")
SEQUENCES: dict[str, tuple[Form, list[tuple[str, dict[str, Any]]]]] = {
    # without a commit on the active timeline, no reader counts those that were archived
    "all active commits are rolled back": (
        Form("cow", 6),
        [
            *[("upsert", {"keys": [A, B], "inline": False, "small": True, "text": "x"})] * 4,
            ("archive", {"kept": 2}),
            ("roll_back", {"count": 2}),
            ("roll_back", {"count": 1}),
            ("roll_back", {"count": 1}),
        ],
    ),
    # the clean removed file groups that have log files only
    "file groups of logs are cleaned": (
        HASHES,
        [
            ("upsert", {"keys": [A], "inline": False, "small": True, "text": "x"}),
            ("delete_partition", {"part": "a"}),
            ("clean", {"policy": "KEEP_LATEST_FILE_VERSIONS", "kept": 3}),
        ],
    ),
    # what the earlier clean removed is not in the metadata of the last one
    "cleans by commits and by versions": (
        Form("cow", 6),
        [
            *[("upsert", {"keys": [A, B], "inline": False, "small": True, "text": "x"})] * 3,
            ("clean", {"policy": "KEEP_LATEST_COMMITS", "kept": 1}),
            ("roll_back", {"count": 1}),
            ("delete_partition", {"part": "a"}),
            ("clean", {"policy": "KEEP_LATEST_FILE_VERSIONS", "kept": 2}),
        ],
    ),
    # the metadata table archived its beginning; then came an instant older than all that it had left
    "a compaction planned before the metadata table was rebuilt": (
        HASHES,
        [
            ("add", {"count": 3, "operation": "bulk_insert"}),
            ("delete", {"keys": [("a", 3)], "inline": False}),
            ("update", {"most": 3}),
            ("plan_compaction", {}),
            ("update", {"most": 3}),
            ("delete_where", {"number": 6}),
            ("overwrite", {"keys": [("a", 3)], "whole": True}),
            ("roll_back", {"count": 2}),
            ("update", {"most": 4}),
            ("delete_where", {"number": 9}),
            ("delete", {"keys": [("a", 7)], "inline": True}),
        ],
    ),
    # the index found the key in the base file whose log had deleted it, too
    "a key that was deleted and merged anew": (
        Form("mor", 8, changes="op_key_only"),
        [
            ("upsert", {"keys": [("a", 7)], "inline": False, "small": True, "text": "x"}),
            ("delete", {"keys": [("a", 7)], "inline": False}),
            ("upsert", {"keys": [("a", 7), A], "inline": False, "small": True, "text": "y", "door": "merge"}),
            ("delete", {"keys": [("a", 7)], "inline": False, "door": "tasks"}),
            ("upsert", {"keys": [("a", 7)], "inline": False, "small": True, "text": "z", "door": "statement"}),
            ("upsert", {"keys": [("a", 7), B], "inline": False, "small": True, "text": "v", "door": "command"}),
        ],
    ),
    # logs that version 6 has named, and whose rows are rolled back, stay as they are
    "an upgrade of logs that are rolled back": (
        Form("mor", 6),
        [
            ("update", {"most": 9}),
            ("roll_back", {"count": 1}),
            ("update", {"most": 3}),
            ("compact", {}),
            ("delete_where", {"number": 7}),
            ("change_version", {"to": 9}),
            ("compact", {}),
        ],
    ),
}
"""Sequences that failed once."""


@pytest.mark.parametrize("name", sorted(SEQUENCES))
def test_sequences_that_failed(name: str) -> None:
    class Machine(TableMachine):
        form = SEQUENCES[name][0]

    machine = Machine()
    try:
        machine.first([A, B, ("a", 3), ("b", 2)])
        for rule, arguments in SEQUENCES[name][1]:
            getattr(machine, rule)(**arguments)
            machine.every_query_agrees()
            machine.the_past()
            machine.the_metadata_table()
    finally:
        machine.teardown()
