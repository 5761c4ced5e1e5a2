"""Which cases of a long list run in CI: few that cover many, and those that notice mutations. The nightly run takes
others; the rest is `long`.

The choice depends on HUDI_PY_SEED, which pytest's header shows: set it to repeat a run. CI has the same one always, so
that a change alone decides whether its tests pass; the nightly run has that of its day.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import pytest

# Kept in the environment: pytest's workers, and the processes that tests start, choose as this process does.
SEED = os.environ.setdefault("HUDI_PY_SEED", "0")
_MUTATIONS = Path(__file__).resolve().parents[1] / "mutations" / "README.md"
_LEFT_OUT = ("long", "nightly")


def covering(rows: Sequence[Sequence[Any]], name: str, limit: int | None = None) -> list[int]:
    """Places of the rows to take: together they have every value of each column, then every pair of values that occurs.

    Args:
        name: tells lists apart, which are chosen from differently with the same seed.
        limit: as many rows at most. Values come first, then pairs of them.
    """
    # values need not be hashable: each stands for the place of the first that equals it
    columns = [[column.index(value) for value in column] for column in map(list, zip(*rows, strict=True))]
    cells = [set(enumerate(row)) for row in zip(*columns, strict=True)]
    pairs = [set(combinations(sorted(row), 2)) for row in cells]
    left = list(range(len(rows)))
    random.Random(f"{SEED} {name}").shuffle(left)
    taken: list[int] = []
    seen_cells: set[Any] = set()
    seen_pairs: set[Any] = set()
    while left and (limit is None or len(taken) < limit):
        best = max(left, key=lambda at: (len(cells[at] - seen_cells), len(pairs[at] - seen_pairs)))
        if cells[best] <= seen_cells and pairs[best] <= seen_pairs:
            break
        left.remove(best)
        taken.append(best)
        seen_cells |= cells[best]
        seen_pairs |= pairs[best]
    return taken


def cases(rows: Iterable[Any], name: str, limit: int | None = None, *, quick: Sequence[Any] | None = None) -> list[Any]:
    """All rows as parameters of a test, in their order; those which `covering` leaves out are `long`.

    Args:
        rows: values, or tuples of them.
        quick: where given, these rows run always, and the others of the choice are `slow`.
    """
    listed = list(rows)
    as_tuples = [row if isinstance(row, tuple) else (row,) for row in listed]
    always = {at for at, row in enumerate(listed) if row in (quick or ())}
    others = [at for at in range(len(listed)) if at not in always]
    chosen = {others[at] for at in covering([as_tuples[at] for at in others], name, limit)}
    marked = []
    for at, row in enumerate(as_tuples):
        marks = [] if at in always or (at in chosen and quick is None) else [pytest.mark.slow]
        marked.append(pytest.param(*row, marks=marks if at in always | chosen else [pytest.mark.long]))
    return marked


def sample(items: Iterable[pytest.Item]) -> None:
    """Marks as `long` what is left out of the cases of tests that are marked as `sampled`; `cases` does the same for
    one list of parameters."""
    of_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            of_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, found in of_test.items():
        mark = found[0].get_closest_marker("sampled")
        assert mark is not None
        rows = [tuple(item.callspec.params.values()) for item in found]  # type: ignore[attr-defined]
        chosen = set(covering(rows, name, *mark.args))
        for at, item in enumerate(found):
            if at not in chosen:
                item.add_marker(pytest.mark.long)


def keep_noticing(items: Iterable[pytest.Item]) -> None:
    """CI runs the tests that notice mutations, whatever else it leaves out of lists: they are `slow` at most."""
    noticing = set(re.findall(r"`(tests/\S.*)` \|$", _MUTATIONS.read_text(encoding="utf-8"), re.MULTILINE))
    for item in items:
        if item.nodeid in noticing and any(mark.name in _LEFT_OUT for mark in item.own_markers):
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name not in _LEFT_OUT]
            item.add_marker("slow")


_Test = TypeVar("_Test", bound=Callable[..., Any])


def in_turn(
    group: str, place: int, of: int, *, chosen: str | None = "slow", others: str = "long"
) -> Callable[[_Test], _Test]:
    """Marks one of the tests of a group that show much the same: with each seed another of them is `chosen`.

    Args:
        place: of this test among the `of` of its group, counted from 0.
        chosen: mark of the one whose turn it is; None where it is to run always.
        others: mark of the rest.
    """
    mark = chosen if random.Random(f"{SEED} {group}").randrange(of) == place else others

    def marked(test: _Test) -> _Test:
        return test if mark is None else getattr(pytest.mark, mark)(test)

    return marked


def few(rows: Iterable[tuple[Any, ...]], name: str, limit: int) -> list[tuple[Any, ...]]:
    """Few rows, as `covering` takes them, for tests of many minutes; all of them where HUDI_PY_WHOLE is set, as the
    long run does."""
    listed = list(rows)
    if os.environ.get("HUDI_PY_WHOLE"):
        return listed
    return [listed[at] for at in sorted(covering(listed, name, limit))]


def every(step: int, total: int) -> list[int]:
    """Every `step`-th number below `total`, from a start that the seed and the test choose, besides the first and the
    last; all of them where HUDI_PY_WHOLE is set, as the long run does."""
    if os.environ.get("HUDI_PY_WHOLE"):
        return list(range(total))
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    start = random.Random(f"{SEED} {test}").randrange(step)
    return sorted({*range(start, total, step), *range(total)[:1], *range(total)[-1:]})
