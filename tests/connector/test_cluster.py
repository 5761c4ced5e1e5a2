"""Writes on a standalone cluster of two workers: one is killed, stands still beside speculative attempts, or tasks die.

Rows equal a model's, and after the next clean there is no file that no commit has written.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest

import hudi_py
from tests.connector.cluster import Cluster, Driver
from tests.connector.conftest import CONNECT
from tests.faults.tables import leftovers
from tests.support.choice import SEED, few

pytestmark = [pytest.mark.spark, pytest.mark.skipif(CONNECT, reason="starts sessions of its own")]

KEYS = 3000
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.py.local.max.bytes": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.task.maxFailures": "30",
    "spark.stage.maxConsecutiveAttempts": "30",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.minTaskRuntime": "300ms",
}


class Model:
    """The rows that a table must have: values by key."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = str(path)
        self.options = {
            **OPTIONS,
            "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
        }
        self.rows = dict.fromkeys(range(KEYS), 1)
        first = [{"id": key, "p": str(key % 3), "ts": 1, "v": 1} for key in self.rows]
        hudi_py.write(self.path, first, "bulk_insert", self.options)
        self._value = 1

    def begin(self, driver: Driver, what: str) -> None:
        """Calls the driver; the rows are those after the call."""
        self._value += 2
        begin = KEYS * self._value // 16  # most keys are there before, and some are new
        end = begin + KEYS
        call = {"what": what, "path": self.path, "options": self.options, "value": self._value}
        driver.begin(**call, begin=begin, end=end)
        if what in ("upsert", "merge"):
            self.rows.update(dict.fromkeys(range(begin, end), self._value))
        elif what == "update":
            self.rows.update({key: value + self._value for key, value in self.rows.items() if key % 3 == 0})

    def check(self) -> None:
        """Every row is there once, in its newest version."""
        found = hudi_py.open_table(self.path).scan(["id", "p", "v"]).to_table().sort_by("id")
        keys = sorted(self.rows)
        assert found["id"].to_pylist() == keys
        assert found["v"].to_pylist() == [self.rows[key] for key in keys]
        assert found["p"].to_pylist() == [str(key % 3) for key in keys]

    def check_files(self) -> None:
        """After a clean nothing is left of attempts that did not count."""
        table = hudi_py.open_table(self.path, self.options)
        table.clean(options={"hoodie.clean.commits.retained": "1"})
        assert table.metadata.verify().ok
        assert set(leftovers(Path(self.path))) == set()
        assert hudi_py.open_table(self.path).doctor().findings == ()
        self.check()


@contextmanager
def troubled(cluster: Cluster, trouble: str, timeline: Path, chance: random.Random) -> Iterator[None]:
    """Makes trouble twice: soon, and once the timeline shows that tasks or the commit are writing."""
    over = threading.Event()
    before = set(timeline.iterdir())

    def make() -> None:
        if over.wait(chance.uniform(0.5, 3)):
            return
        _TROUBLES[trouble](cluster, chance)
        while set(timeline.iterdir()) == before:
            if over.wait(0.1):
                return
        if not over.wait(chance.uniform(0, 1.5)):
            _TROUBLES[trouble](cluster, chance)

    maker = threading.Thread(target=make)
    maker.start()
    try:
        yield
    finally:
        over.set()
        maker.join()


def _kill_worker(cluster: Cluster, chance: random.Random) -> None:
    cluster.kill_worker(chance.randrange(2))


def _kill_tasks(cluster: Cluster, chance: random.Random) -> None:
    for process in cluster.python_workers():
        _signal(process, signal.SIGKILL)


def _stand_still(cluster: Cluster, chance: random.Random) -> None:
    found = cluster.executors()
    if found:
        executor = chance.choice(found)
        _signal(executor, signal.SIGSTOP)
        time.sleep(chance.uniform(2, 5))
        _signal(executor, signal.SIGCONT)


_TROUBLES = {"worker killed": _kill_worker, "tasks killed": _kill_tasks, "standing still": _stand_still}
"""A task that is killed is retried; of what stands still there are speculative attempts."""


def _signal(process: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def work(folder: Path, trouble: str, steps: list[tuple[str, str]], *, connect: bool) -> None:
    """Calls of the driver, each with trouble: (type of the table, what to do with it)."""
    chance = random.Random(f"{SEED} {trouble} {connect}")
    settings = SETTINGS | (SPECULATION if trouble == "standing still" else {})
    models = {kind: Model(folder / kind, kind) for kind in dict.fromkeys(kind for kind, _ in steps)}
    with Cluster(folder) as cluster, Driver(cluster, folder, connect=connect, settings=settings) as driver:
        for kind, what in steps:
            began = time.monotonic()
            with troubled(cluster, trouble, Path(models[kind].path, ".hoodie", "timeline"), chance):
                models[kind].begin(driver, what)
                driver.answer()
            print(f"{trouble}, {kind} {what}: {time.monotonic() - began:.1f} s")
            models[kind].check()
        time.sleep(2)  # for what attempts that lost write late
    for model in models.values():
        model.check_files()


@pytest.mark.nightly  # a minute; test_write.py has tasks that die without a cluster
def test_an_upsert_while_a_worker_is_killed(tmp_path: Path) -> None:
    work(tmp_path, "worker killed", [("mor", "upsert")], connect=False)


STEPS = [(kind, what) for kind in ("cow", "mor") for what in ("upsert", "update", "merge", "upsert")]


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("trouble", "connect"), few(product(_TROUBLES, (False, True)), "a cluster with trouble", 2))
def test_writes_with_trouble(tmp_path: Path, trouble: str, connect: bool) -> None:
    work(tmp_path, trouble, [*STEPS, ("mor", "compaction")], connect=connect)
