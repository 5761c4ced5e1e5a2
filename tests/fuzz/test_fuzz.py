"""A sample of damaged inputs; `python -m tests.fuzz` runs as many as one likes, each with a time limit of its own."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from tests.fuzz import run as run_module
from tests.fuzz.run import Figures, Runner, feed
from tests.fuzz.targets import TARGETS, Target, input_of

pytestmark = pytest.mark.slow  # tests of each codec have quick ones for damaged bytes

INPUTS = 1500
"""Of all targets together."""


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_damaged_bytes_give_a_value_or_an_error_of_ours(name: str) -> None:
    total = sum(target.weight for target in TARGETS.values())
    figures = Figures()
    feed(name, range(max(5, INPUTS * TARGETS[name].weight // total)), lambda number: None, figures)
    assert not figures.failures, "\n".join(map(str, figures.failures))
    assert figures.values + figures.errors == figures.inputs


def test_other_errors_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(given: object) -> None:
        raise ValueError(f"met {given}")

    monkeypatch.setitem(TARGETS, "broken", Target("broken", lambda rng: "it", run, 1))
    figures = Figures()
    feed("broken", range(2), lambda number: None, figures)
    assert list(map(str, figures.failures)) == ["broken 0: ValueError: met it", "broken 1: ValueError: met it"]


def test_a_process_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_work", dies_at_three)
    runner = Runner("names", range(5))
    while not runner.finished():
        pass
    assert [(failure.number, failure.what) for failure in runner.figures.failures] == [
        (3, "the process died with exit code 7")
    ]
    assert runner.figures.inputs == 5


def test_a_process_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_work", hangs_at_two)
    monkeypatch.setattr(run_module, "SECONDS", 1.0)
    runner = Runner("names", range(4))
    while not runner.finished():
        time.sleep(0.02)
    assert [failure.number for failure in runner.figures.failures] == [2]
    assert "seconds of the processor" in runner.figures.failures[0].what
    assert runner.figures.inputs == 4


def hangs_at_two(target: str, start: int, stop: int, at: Any, since: Any, results: Any) -> None:
    figures = Figures()
    for number in range(start, stop):
        since[:] = time.monotonic(), time.process_time()
        at.value = number
        while number == 2:
            pass
        figures.inputs += 1
    results.send(figures)


def dies_at_three(target: str, start: int, stop: int, at: Any, since: Any, results: Any) -> None:
    figures = Figures()
    for number in range(start, stop):
        at.value = number
        if number == 3:
            os._exit(7)
        figures.inputs += 1
    results.send(figures)


def test_the_same_number_gives_the_same_input() -> None:
    for name in ("log", "kryo", "history"):
        assert input_of(name, 17) == input_of(name, 17)
        assert input_of(name, 17) != input_of(name, 18)
