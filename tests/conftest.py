"""Fixtures of the whole suite."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.golden.tables import Extracted
from tests.support import power, tally
from tests.support.choice import SEED, keep_noticing, sample

# Its checks show what differs, as those in test files do
pytest.register_assert_rewrite("hudi_py.testing")

# The same examples in every run, and no deadline: the machine may be busy.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

# The tests write small tables by the thousand: quicker in memory, where there is plenty of it
_MEMORY = "/dev/shm"
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)

# Small tables leave little garbage: looking for it as often as Python does takes a tenth of the time
gc.set_threshold(20_000, 20, 20)

# Flushing takes half the time of a small commit, and shows nothing without a power failure
power.never_flush()


def pytest_report_header() -> str:
    return f"HUDI_PY_SEED={SEED} (which cases of long lists run)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tally.keep(terminalreporter)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Thousands of tests and modules live as long as the run: the collector of garbage need not look at them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is left out of a sample is `long`; what is `long` is `nightly`, and that is `slow`, too."""
    sample(items)
    keep_noticing(items)
    for item in items:
        for level, implied in (("long", "nightly"), ("nightly", "slow")):
            if item.get_closest_marker(level):
                item.add_marker(implied)


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Bytes are named by their length: Avro's sync markers are random, and all workers must collect the same tests."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Extracted:
    """`golden(name)` is the path of a golden table. Tests only read it; see `golden_copy`."""
    return Extracted(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def golden_copy(golden: Extracted, tmp_path: Path) -> Callable[[str], Path]:
    """`golden_copy(name)` is the path of a copy of a golden table that the test may write to."""

    def copy(name: str) -> Path:
        target = tmp_path / name
        shutil.copytree(golden(name), target)  # copy2 underneath: modification times are kept
        return target

    return copy
