"""The choice of cases: what it covers, and that it is the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations, product
from typing import Any

import pytest

from tests.meta.sources import ROOT
from tests.support import choice

AXES = ([6, 8, 9], ["cow", "mor"], ["a", "b", "c"], [True, False])


@pytest.mark.parametrize("seed", ["0", "1", "4e66e8f1c3"])
def test_every_pair_of_values_is_covered_by_few_rows(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setattr(choice, "SEED", seed)
    rows = list(product(*AXES))
    taken = [rows[at] for at in choice.covering(rows, "test")]
    for one, other in combinations(range(len(AXES)), 2):
        assert {(row[one], row[other]) for row in taken} == set(product(AXES[one], AXES[other]))
    assert len(taken) <= 14 < len(rows) == 36


def test_a_few_rows_have_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for seed in map(str, range(20)):
        monkeypatch.setattr(choice, "SEED", seed)
        rows = list(product(*AXES))
        taken = choice.covering(rows, "test", 3)
        seen.update(taken)
        assert [{row[axis] for row in map(rows.__getitem__, taken)} for axis in range(4)] == [
            set(axis) for axis in AXES
        ]
    assert len(seen) > 20, "other seeds take other rows"


def test_what_is_left_out_is_long_and_what_is_quick_runs_always() -> None:
    rows = list(product((6, 8, 9), ("cow", "mor")))
    marks = {param.values: [mark.name for mark in param.marks] for param in choice.cases(rows, "test", 2)}
    assert list(marks) == rows
    assert sorted(map(str, marks.values())) == ["['long']"] * 4 + ["[]"] * 2
    marks = {
        param.values: [mark.name for mark in param.marks] for param in choice.cases(rows, "test", 2, quick=[(9, "mor")])
    }
    assert marks[9, "mor"] == []
    assert sorted(map(str, marks.values())) == ["['long']"] * 3 + ["['slow']"] * 2 + ["[]"]


class Item:
    """As much of a collected test as `keep_noticing` looks at."""

    def __init__(self, nodeid: str, *levels: str) -> None:
        self.nodeid = nodeid
        self.own_markers = [getattr(pytest.mark, level).mark for level in levels]

    def add_marker(self, level: str) -> None:
        self.own_markers.append(getattr(pytest.mark, level).mark)

    @property
    def levels(self) -> list[str]:
        return [mark.name for mark in self.own_markers]


def test_what_notices_a_mutation_is_not_left_out() -> None:
    notices, quick = "tests/unit/merge/test_log.py::test_projection_reaches_the_decoder", "tests/x.py::test_y"
    items: Any = [Item(notices, "long"), Item(notices, "nightly", "sampled"), Item(notices), Item(quick, "long")]
    choice.keep_noticing(items)
    assert [item.levels for item in items] == [["slow"], ["sampled", "slow"], [], ["long"]]


def test_values_need_not_be_hashable() -> None:
    assert len(choice.covering([({"a": 1},), ({"a": 1},), ({"b": 1},)], "test")) == 2
    assert choice.covering([], "test") == []


@pytest.mark.parametrize("one", [1, 2, 3])
@pytest.mark.parametrize("other", ["a", "b"])
@pytest.mark.sampled(3)
def test_a_sample(request: pytest.FixtureRequest, one: int, other: str) -> None:
    """All that `other` can be, and as much of `one` as fits; with `-m long` the others."""
    cases = [item for item in request.session.items if item.nodeid.startswith(request.node.nodeid.partition("[")[0])]
    if len(cases) == 3 and not request.node.get_closest_marker("long"):
        assert {item.callspec.params["one"] for item in cases} == {1, 2, 3}  # type: ignore[attr-defined]
        assert {item.callspec.params["other"] for item in cases} == {"a", "b"}  # type: ignore[attr-defined]


def test_of_a_group_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def marks(**given: Any) -> list[list[str]]:
        found = []
        for place in range(3):

            def test() -> None: ...

            choice.in_turn("test", place, 3, **given)(test)
            found.append([mark.name for mark in getattr(test, "pytestmark", [])])
        return found

    turns = set()
    for seed in map(str, range(20)):
        monkeypatch.setattr(choice, "SEED", seed)
        assert sorted(marks()) == [["long"], ["long"], ["slow"]]
        turns.add(marks().index(["slow"]))
        assert marks(chosen=None, others="slow").index([]) == marks().index(["slow"])
    assert turns == {0, 1, 2}


def test_steps_cover_all_with_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUDI_PY_WHOLE", raising=False)
    seen = set()
    for seed in map(str, range(30)):
        monkeypatch.setattr(choice, "SEED", seed)
        found = choice.every(3, 10)
        assert len(found) in (4, 5)
        assert {0, 9} <= set(found)
        seen.update(found)
    assert seen == set(range(10))
    assert choice.every(3, 0) == []
    monkeypatch.setenv("HUDI_PY_WHOLE", "1")
    assert choice.every(3, 10) == list(range(10))


@pytest.mark.parametrize("given", [None, "abc"])
def test_processes_choose_alike(given: str | None) -> None:
    """Strings hash otherwise in each process."""
    code = "from tests.support.choice import *; print(SEED, covering([(a, b) for a in 'xyz' for b in 'uvw'], 'n', 4))"
    environment = {name: value for name, value in os.environ.items() if name != "HUDI_PY_SEED"}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"HUDI_PY_SEED": given} if given else {})
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for folder in (ROOT, "/")
    }
    assert len(printed) == 1
    assert printed.pop().startswith(f"{given or 0} ")


def test_tests_of_many_minutes_run_whole_in_the_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(product(*AXES))
    monkeypatch.delenv("HUDI_PY_WHOLE", raising=False)
    taken = choice.few(rows, "test", 3)
    assert (len(taken), [row for row in rows if row in taken]) == (3, taken)
    monkeypatch.setenv("HUDI_PY_WHOLE", "1")
    assert choice.few(iter(rows), "test", 3) == rows
