"""Texts of budgets, and what fits into them."""

from __future__ import annotations

import pytest

from hudi_py.errors import ConfigError
from hudi_py.storage.metered import Meter, Used
from hudi_py.tending.budget import Budget, Cost, Ledger


class Clock:
    """Seconds, moved on by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1.5h", 5400), (" 2 m 5 s", 125)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Budget.parse(text) == Budget(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [("500", 500), ("500MB", 500_000_000), ("1.5 TB", 1_500_000_000_000), ("2k", 2000), ("3gib", 3e9)]
)
def test_sizes(text: str, size: int) -> None:
    assert Budget.parse(num_bytes=text) == Budget(num_bytes=int(size))


@pytest.mark.parametrize("text", ["", "s", "soon", "1d", "-5", "1h2h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="as a duration: expected one such as"):
        Budget.parse(text)


@pytest.mark.parametrize("text", ["", "GB", "lots", "-5", "5 apples"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="as a number of bytes: expected one such as"):
        Budget.parse(num_bytes=text)


def test_without_limits_everything_fits() -> None:
    ledger = Ledger(Budget(), Meter())
    assert ledger.begin(Cost(10**9, 10**15)) == ("", None)
    assert not Budget().limited
    assert Budget(requests=1).limited


def test_requests_and_bytes_that_were_used_or_are_reserved_are_gone() -> None:
    meter = Meter()
    ledger = Ledger(Budget(num_bytes=1000, requests=100), meter)
    meter.count(read=300, requests=20)
    assert ledger.begin(Cost(50, 400)) == ("", 700)
    reason, _ = ledger.begin(Cost(40, 1))
    assert reason == "it takes about 40 requests, and 30 are left"
    reason, left = ledger.begin(Cost(1, 500))
    assert (reason, left) == ("it reads and writes about 500 B, and 300 B are left", 300)
    ledger.end(Cost(50, 400), 1.0, Used())
    assert ledger.begin(Cost(1, 500))[0] == ""


def test_the_time_that_is_left_counts_by_what_was_measured() -> None:
    clock, meter = Clock(), Meter()
    ledger = Ledger(Budget(seconds=60), meter, clock)
    assert ledger.begin(Cost(1, 1_000_000_000)) == ("", 1_200_000_000)
    clock.now += 10
    ledger.end(Cost(1, 1_000_000_000), 10.0, Used(1, 40_000_000, 60_000_000))  # 10 MB a second
    reason, left = ledger.begin(Cost(1, 1_000_000_000))
    assert reason.startswith("it takes about 1 min 40 s, and 50.0 s of the time are left")
    assert left == 500_000_000
    ledger.record_survey(10.0, Used(requests=100))  # a tenth of a second each
    assert ledger.begin(Cost(600))[0].startswith("it takes about 1 min, and")
    clock.now += 60
    assert ledger.begin(Cost(0))[0] != ""
    assert ledger.begin(Cost(0))[1] == 0


def test_half_of_a_budget_is_for_looking() -> None:
    clock, meter = Clock(), Meter()
    ledger = Ledger(Budget(seconds=60), meter, clock)
    assert ledger.searched_enough() == ""
    clock.now += 31
    assert ledger.searched_enough() != ""
    meter.count(requests=6)
    assert Ledger(Budget(requests=10), meter).searched_enough() != ""


def test_on_a_dry_run_what_fits_counts_as_taken() -> None:
    ledger = Ledger(Budget(seconds=60), Meter(), Clock())
    assert ledger.assume(Cost(0, 800_000_000))[0] == ""  # 40 s
    assert ledger.assume(Cost(0, 800_000_000))[0] != ""
