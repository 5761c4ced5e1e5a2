"""`insert_overwrite` and `delete_partition`: a commit replaces the file groups of some partitions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, SchemaMismatchError, TableNotFoundError
from hudi_py.model.commit import CommitMetadata
from hudi_py.storage import open_storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.wiring import service_target, write_target
from hudi_py.write.api import write_options
from hudi_py.write.distributed import TaskId, commit_write, plan_write, run_task

EVERY = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
DAYS = ("2026-01-01", "2026-01-02", "2026-02-01")
INDEXED = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}


def rows(keys: Iterable[int], v: int, day: str | None = None) -> pa.Table:
    """Keys go to the days in turn, or to one."""
    some = list(keys)
    days = [day or DAYS[key % len(DAYS)] for key in some]
    columns = {"k": pa.array(some, pa.int64()), "day": pa.array(days, pa.string()), "v": [v] * len(some)}
    return pa.table({**columns, "v": pa.array([v] * len(some), pa.int64())})


def make(path: Path, version: int = 9, kind: str = "cow", **options: str) -> hudi_py.Table:
    given: dict[str, Any] = {"record_key": "k", "partition_by": "day", "table_type": kind, "table_version": version}
    hudi_py.write(str(path), rows(range(6), 1), "insert", options, **given)
    hudi_py.write(str(path), rows(range(3), 2), "upsert", options)  # logs, in merge-on-read tables
    return hudi_py.open_table(str(path), options)


def found(table: hudi_py.Table, **arguments: Any) -> list[tuple[int, str, int]]:
    listed = table.scan(["k", "day", "v"], **arguments).to_table().to_pylist()
    return sorted((row["k"], row["day"], row["v"]) for row in listed)


def newest(table: hudi_py.Table, path: Path) -> CommitMetadata:
    storage = open_storage(str(path))
    timeline = load_timeline(storage, load_table_config(storage))
    return read_commit_metadata(storage, timeline.layout, timeline.write_completed[-1])


def healthy(table: hudi_py.Table) -> bool:
    return table.metadata.verify().ok


@pytest.mark.parametrize(("version", "kind"), EVERY)
@pytest.mark.sampled(3)
def test_overwriting_replaces_the_partitions_of_the_rows(tmp_path: Path, version: int, kind: str) -> None:
    table = make(tmp_path / "t", version, kind, **INDEXED)
    before, last_write = found(table), table.history().to_pylist()[-1]
    began = last_write["completion_time"] or last_write["instant"]
    result = table.insert_overwrite(rows([0, 7], 3, DAYS[0]))
    assert (result.num_inserted, result.operation) == (2, "insert_overwrite")
    kept = [row for row in before if row[1] != DAYS[0]]
    assert found(table) == sorted([*kept, (0, DAYS[0], 3), (7, DAYS[0], 3)])
    assert found(table, as_of=began) == before
    assert found(table, query_type="incremental", begin=began) == [(0, DAYS[0], 3), (7, DAYS[0], 3)]
    last = newest(table, tmp_path / "t")
    assert last.operation == "INSERT_OVERWRITE"
    assert list(last.replaced) == [DAYS[0]]
    assert healthy(table)
    table.upsert(rows([3, 7], 4, DAYS[0]))  # 3 went with the overwrite, and is new
    assert found(table) == sorted([*kept, (0, DAYS[0], 3), (3, DAYS[0], 4), (7, DAYS[0], 4)])
    table.rollback(table.history()["instant"].to_pylist()[-1])
    table.rollback(result.instant)
    assert found(table) == before
    assert healthy(table)


@pytest.mark.parametrize(("version", "kind"), EVERY)
@pytest.mark.sampled(3)
def test_deleted_partitions_have_no_rows(tmp_path: Path, version: int, kind: str) -> None:
    table = make(tmp_path / "t", version, kind, **INDEXED)
    before = found(table)
    result = table.delete_partition("2026-01-*")
    assert (result.num_inserted, result.num_deleted, result.num_files) == (0, None, 0)
    assert found(table) == [row for row in before if row[1] == DAYS[2]]
    assert sorted(newest(table, tmp_path / "t").replaced) == list(DAYS[:2])
    assert healthy(table)
    # the keys are new again, also in another partition
    table.upsert(rows([0, 1], 5, DAYS[2]))
    assert found(table, keys=[0, 1]) == [(0, DAYS[2], 5), (1, DAYS[2], 5)]
    table.clean(options={"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"})
    assert table.partitions()["partition"].to_pylist() == [DAYS[2]]
    assert healthy(table)


def test_partitions_are_named_by_rows_or_paths(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path / "t", **{"hoodie.allow.empty.commit": "false"})
    hudi_py.write(str(tmp_path / "t"), rows([0], 0).select(["day"]), "delete_partition")
    assert {row[1] for row in found(table)} == set(DAYS[1:])
    with caplog.at_level(logging.WARNING):
        table.delete_partition([DAYS[1], "2026-1-2", "2026.02-01"])
    assert "has no partition '2026-1-2' to delete" in caplog.text
    assert {row[1] for row in found(table)} == {DAYS[2]}
    for paths in ("", [], "a,b", ["x", " "]):
        with pytest.raises(ConfigError, match="Cannot delete the partitions"):
            table.delete_partition(paths)
    with pytest.raises(SchemaMismatchError, match="'day' is missing in the data; delete_partition needs"):
        hudi_py.write(str(tmp_path / "t"), rows([0], 0).select(["k"]), "delete_partition")
    with pytest.raises(TableNotFoundError, match="Cannot run delete_partition"):
        hudi_py.write(str(tmp_path / "none"), rows([0], 0), "delete_partition")


def test_named_partitions_are_overwritten_whatever_the_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    named = {"hoodie.static.overwrite.partition.paths": f"{DAYS[0]},{DAYS[1]}"}
    table.insert_overwrite(rows([0], 9), options=named)
    assert found(table) == [(0, DAYS[0], 9), (2, DAYS[2], 2), (5, DAYS[2], 1)]


def test_pending_compactions_keep_their_partitions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", kind="mor")
    instant = table.compaction.schedule()
    with pytest.raises(ConflictError, match=f"the pending compaction {instant} has its file group .* unschedule"):
        table.delete_partition(DAYS[0])
    assert len(found(table)) == 6
    table.compaction.run(instant)
    table.delete_partition(DAYS[0])
    assert len(found(table)) == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize(("mode", "operation"), [("DYNAMIC", "upsert"), ("STATIC", "insert_overwrite")])
def test_tasks_overwrite_partitions(tmp_path: Path, mode: str, operation: str, combine: bool) -> None:
    table = make(tmp_path / "t")
    options = write_options(
        {
            "hoodie.datasource.overwrite.mode": mode,
            "hoodie.datasource.write.operation": operation,
            "hoodie.combine.before.upsert": str(combine).lower(),
            "hoodie.combine.before.insert": str(combine).lower(),
        }
    )
    data = [rows([0, 0], 7), rows([30], 7)]  # all of the first day
    write = plan_write(write_target(str(tmp_path / "t"), options), data[0].schema, overwrite=True)
    results = [run_task(write, TaskId(number), part.to_batches()) for number, part in enumerate(data)]
    commit_write(write, results)
    first = [(0, DAYS[0], 7)] * (1 if combine else 2) + [(30, DAYS[0], 7)]
    assert [row for row in found(table) if row[1] == DAYS[0]] == first
    assert len(found(table)) == len(first) + 4
    assert newest(table, tmp_path / "t").operation == "INSERT_OVERWRITE"


def test_tasks_delete_partitions(tmp_path: Path) -> None:
    for number, named in enumerate(("", "2026-01-*")):
        table = make(tmp_path / str(number))
        options = write_options(
            {
                "hoodie.datasource.write.operation": "delete_partition",
                "hoodie.datasource.write.partitions.to.delete": named,
                "hoodie.allow.empty.commit": "false",
            }
        )
        data = rows([0, 1], 0)
        write = plan_write(service_target(str(tmp_path / str(number)), options), data.schema)
        result = run_task(write, TaskId(0), data.to_batches())
        assert (result.staged is None) == bool(named)
        commit_write(write, [result])
        assert {row[1] for row in found(table)} == {DAYS[2]}
