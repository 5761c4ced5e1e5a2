"""One refusal names everything that is wrong with a configuration, at every door of a write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Problems, Scope
from hudi_py.errors import ConfigError
from hudi_py.transaction.settings import TransactionSettings

ROWS = pa.table({"id": ["a"]})
WRONG = {
    "hoodie.upsert.shuffle.paralelism": "2",
    "hoodie.index.type": "SIMPEL",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.zookeeper.url": "host",
    "hoodie.write.lock.storage.validity.timeout.secs": "20",
    "hoodie.write.lock.storage.renew.interval.secs": "10",
    "hoodie.keep.min.commits": "9",
    "hoodie.keep.max.commits": "5",
    "hoodie.compact.inline": "true",
    "hoodie.compact.schedule.inline": "true",
}
NAMED = (
    "hoodie.upsert.shuffle.paralelism",
    "SIMPEL",
    "hoodie.write.lock.provider is not set",
    "hoodie.write.lock.zookeeper.url is given without",
    "ten renewal intervals",
    "hoodie.keep.m",
    "a commit is followed either by a compaction",
)


def refused(path: Path, door: str, options: dict[str, Any]) -> ConfigError:
    table = None if door == "write" else hudi_py.open_table(path)
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: hudi_py.write(path, ROWS, options=options, record_key="id"),
        "upsert": lambda: table and table.upsert(ROWS, options=options),
        "update": lambda: table and table.update({"id": "'b'"}, options=options),
    }
    with pytest.raises(ConfigError) as caught:
        calls[door]()
    return caught.value


@pytest.mark.parametrize("door", ["write", "upsert", "update"])
def test_everything_is_named_at_once(tmp_path: Path, door: str) -> None:
    path = tmp_path / "t"
    if door != "write":
        hudi_py.create_table(path, ROWS.schema, record_key="id")
    error = refused(path, door, WRONG)
    assert len(error.problems) == len(NAMED), str(error)
    for part in NAMED:
        assert str(error).count(part) >= 1, part
    contradictions = {key: value for key, value in WRONG.items() if key not in list(WRONG)[:2]}
    assert len(refused(path, door, contradictions).problems) == len(NAMED) - 2
    one = refused(path, door, {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"})
    assert not one.problems
    assert str(one).startswith("Cannot write with hoodie.write.concurrency.mode")
    if door == "write":
        assert not path.exists()


def test_what_a_lock_lacks_is_named_at_once() -> None:
    given = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"}
    with pytest.raises(ConfigError, match=r"zookeeper\.url, which is missing.*zookeeper\.base_path, which is missing"):
        TransactionSettings.of(Options.resolve(given, Scope.WRITE))


def test_a_problem_is_named_once() -> None:
    problems = Problems()
    for _ in range(2):
        with problems.collected():
            raise ConfigError("once", key="k")
    with pytest.raises(ConfigError) as caught:
        problems.check()
    assert str(caught.value) == "once"
    assert caught.value.key == "k"
