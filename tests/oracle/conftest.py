"""Fixtures that ask Apache Hudi. Where it cannot be set up, its tests are skipped, loudly; in CI they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.oracle.client import Oracle
from tests.oracle.environment import NEWEST, OLDEST, default_version, lance_class_path, set_up
from tests.support.spark import INTERPRETED, settings, spark_home, start_session

FIXTURES: Final = {"oracle": default_version(), "oracle_015": OLDEST, "oracle_lance": NEWEST}
RARE: Final = ("oracle_lance", "oracle_015", "spark")
"""Fixtures with a JVM of their own, which few tests use."""
HERE: Final = Path(__file__).parent

# Why a release is not there, by release; filled once the tests to run are known.
unavailable: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use an oracle, so that `-m "not oracle"` leaves them out, and put those first that need one
    more JVM than most: of several processes, only the first will start it.

    They may take long where the machine has much else to do; of what hangs, a request's own time limit tells earlier.
    """
    for item in items:
        if not FIXTURES.keys().isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.oracle)
            item.add_marker(pytest.mark.timeout(3600))
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(HERE)]
    ordered = sorted((items[place] for place in places), key=_rarest)  # keeps the order of the others
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _rarest(item: pytest.Item) -> int:
    names = getattr(item, "fixturenames", ())
    return next((rank for rank, name in enumerate(RARE) if name in names), len(RARE))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Set up the releases that the selected tests ask for: here and not in a fixture, as no test's timeout runs yet."""
    if session.config.option.collectonly:
        return
    names = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for version in sorted({FIXTURES[name] for name in names & FIXTURES.keys()}):
        problem = set_up([version])
        if problem is not None:
            unavailable[version] = problem
            bar = "!" * 100
            print(
                f"\n{bar}\n!! {problem}\n!! NOTHING IS CHECKED AGAINST APACHE HUDI {version}.\n{bar}", file=sys.stderr
            )


def started(version: str, class_path: str | None = None) -> Iterator[Oracle]:
    if version in unavailable:
        if os.environ.get("CI"):
            pytest.fail(unavailable[version], pytrace=False)
        pytest.skip(unavailable[version])
    client = Oracle(version, class_path=class_path)
    yield client
    client.close()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of this process, with hudi-py."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_HOME", spark_home(folder / "home"))  # not for other Sparks that tests start
        session = start_session(SparkSession.builder.master("local[2]"), settings(folder) | INTERPRETED)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Apache Hudi 1.2.0 (or HUDI_ORACLE_VERSION): reads table versions 6, 8 and 9 and writes each of them."""
    yield from started(default_version())


@pytest.fixture(scope="session")
def oracle_lance() -> Iterator[Oracle]:
    """Apache Hudi 1.2.0 with what it needs for Lance base files; skipped without those jars."""
    class_path = lance_class_path()
    if class_path is None:
        pytest.skip("no jars of lance-spark; fetch them with tests/oracle/setup.sh lance")
    yield from started(NEWEST, class_path)


@pytest.fixture(scope="session")
def oracle_015() -> Iterator[Oracle]:
    """Apache Hudi 0.15.0: reads and writes table version 6."""
    yield from started(OLDEST)
