"""A first write that is refused, fails or is killed leaves no table behind, or one that the next may make anew."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, ConflictError, HudiError, SchemaMismatchError
from hudi_py.model.layout import PROPERTIES
from hudi_py.model.operation import Operation
from hudi_py.model.properties import FIRST_WRITE
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.session import WriteTarget
from hudi_py.wiring import service_target
from hudi_py.write.api import existing_table, open_or_create
from hudi_py.write.distributed import TaskId, abort_write, commit_write, plan_write, run_task
from hudi_py.write.rows.input import read_input
from hudi_py.write.table.first import FirstWrite
from tests.support.object_store import serving

ROWS = pa.table({"id": ["a", "b"], "p": ["x", "y"], "n": [1, 2]})
NANOS = pa.table({"id": ["a"], "p": ["x"], "t": pa.array([1], pa.timestamp("ns"))})


def stream(*batches: pa.Table | None) -> pa.RecordBatchReader:
    """Rows that can be read once; None: the source breaks."""

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is None:
                raise OSError("the source broke")
            yield from batch.to_batches()

    return pa.RecordBatchReader.from_batches(ROWS.schema, rows())


def local(path: Path) -> Storage:
    return open_storage(str(path))


KEYED = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "p"}


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        (pa.table({"id": ["a", None], "p": ["x", "y"]}), {"record_key": "id"}),
        (pa.table({"id": ["a", ""], "p": ["x", "y"]}), {"record_key": "id"}),
        (pa.table({"id": ["a"], "k": pa.array([None], pa.string()), "p": ["x"]}), {"record_key": ["k"]}),
        (pa.table({"id": ["a"], "p": ["a/../b"]}), {"record_key": "id"}),
        (NANOS, {"record_key": "id"}),
        (ROWS, {"record_key": "id", "options": {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}}),
    ],
)
def test_what_can_be_checked_is_checked_before_there_is_a_table(
    tmp_path: Path, rows: pa.Table, given: dict[str, Any]
) -> None:
    with pytest.raises((SchemaMismatchError, ConfigError)):
        hudi_py.write(str(tmp_path / "t"), rows, partition_by="p", **given)
    assert not (tmp_path / "t").exists()
    hudi_py.write(str(tmp_path / "t"), ROWS, record_key="n")
    assert hudi_py.open_table(str(tmp_path / "t")).scan().count() == 2


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_failed_first_write_takes_its_table_back(tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    (path / "x").mkdir(parents=True)
    (path / "x" / "foreign.csv").write_text("1")
    with pytest.raises((HudiError, OSError), match="the source broke"):
        hudi_py.write(
            str(path), stream(ROWS, None), "insert", record_key="id", partition_by="p", table_type=kind,
            table_version=version, options={"hoodie.datasource.write.hive_style_partitioning": "true"},
        )  # fmt: skip
    assert sorted(found.relative_to(path).as_posix() for found in path.rglob("*")) == ["x", "x/foreign.csv"]
    hudi_py.write(str(path), ROWS, record_key="n", table_version=version)
    config = load_table_config(local(path))
    assert config.record_key_fields == ("n",)
    assert FIRST_WRITE not in config.properties


def test_in_an_object_store() -> None:
    pytest.importorskip("obstore")
    with serving() as store:
        given = {"endpoint": store.url, "allow_http": "true", "region": "eu-west-1", "skip_signature": "true"}
        with pytest.raises((HudiError, OSError), match="the source broke"):
            hudi_py.write("s3://bucket/t", stream(ROWS, None), record_key="id", partition_by="p", storage_options=given)
        assert not store.files
        hudi_py.write("s3://bucket/t", ROWS, record_key="id", storage_options=given)
        assert hudi_py.open_table("s3://bucket/t", storage_options=given).scan().count() == 2


def test_a_table_with_a_commit_or_a_pending_write_stays(tmp_path: Path) -> None:
    storage, given = local(tmp_path / "t"), Options.resolve(KEYED, Scope.WRITE)
    first = FirstWrite.of(None, given)
    config = open_or_create(WriteTarget(storage, given), None, read_input(ROWS), Operation.UPSERT, first)
    assert first.made(config)
    other = plan_write(service_target(str(tmp_path / "t"), given), ROWS.schema)
    assert other.first is None  # it has not made the table
    done = run_task(other, TaskId(), ROWS.to_batches())
    first.take_back(storage, config)
    assert storage.stat(PROPERTIES) is not None
    commit_write(other, [done])
    first.take_back(storage, config)
    assert hudi_py.open_table(str(tmp_path / "t")).scan().count() == 2
    assert FIRST_WRITE not in load_table_config(storage).properties


def test_a_planned_write_that_is_aborted(tmp_path: Path) -> None:
    given = Options.resolve(KEYED, Scope.WRITE)
    write = plan_write(service_target(str(tmp_path / "t"), given), ROWS.schema)
    run_task(write, TaskId(), ROWS.to_batches())
    abort_write(write)
    assert list((tmp_path / "t").iterdir()) == []


KILLED = """
import os, sys
import hudi_py, pyarrow as pa
def rows():
    yield pa.record_batch({"id": ["a"], "p": ["x"], "n": [1]})
    os._exit(9)
schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64())])
reader = pa.RecordBatchReader.from_batches(schema, rows())
hudi_py.write(sys.argv[1], reader, "bulk_insert", record_key="id", partition_by="p")
"""


def killed(path: Path) -> None:
    result = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, env=dict(os.environ))
    assert result.returncode == 9
    assert FIRST_WRITE in load_table_config(local(path)).properties


def test_what_a_killed_one_left_is_made_anew(tmp_path: Path) -> None:
    killed(tmp_path / "t")
    hudi_py.write(str(tmp_path / "t"), ROWS, record_key="id", ordering_by="n")  # contradicts nothing that is given
    config = load_table_config(local(tmp_path / "t"))
    assert (config.partition_fields, config.ordering_fields) == ((), ("n",))
    assert FIRST_WRITE not in config.properties
    assert hudi_py.open_table(str(tmp_path / "t")).scan().count() == 2
    assert {path.name for path in (tmp_path / "t").iterdir() if path.is_dir()} == {".hoodie"}


def test_with_the_same_settings_it_is_kept(tmp_path: Path) -> None:
    killed(tmp_path / "t")
    mark = load_table_config(local(tmp_path / "t")).properties[FIRST_WRITE]
    with pytest.raises((HudiError, OSError), match="the source broke"):
        hudi_py.write(str(tmp_path / "t"), stream(ROWS, None), record_key="id", partition_by="p")
    assert load_table_config(local(tmp_path / "t")).properties[FIRST_WRITE] == mark
    hudi_py.write(str(tmp_path / "t"), ROWS, record_key="id", partition_by="p")
    assert hudi_py.open_table(str(tmp_path / "t")).scan().count() == 2


def test_an_empty_table_that_was_created_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.create_table(path, ROWS.schema, record_key="id", partition_by="p")
    with pytest.raises(ConfigError, match="contradict"):
        hudi_py.write(path, ROWS, record_key="n")
    with pytest.raises((HudiError, OSError)):
        hudi_py.write(path, stream(ROWS, None))
    assert load_table_config(local(tmp_path / "t")).record_key_fields == ("id",)


def test_one_that_may_live_is_not_made_anew_and_one_that_was_does_not_write(tmp_path: Path) -> None:
    path, given = tmp_path / "t", Options.resolve(KEYED, Scope.WRITE)
    stale = plan_write(service_target(str(path), given), ROWS.schema)
    with pytest.raises(ConfigError, match="contradict"):
        hudi_py.write(str(path), ROWS, record_key="n")
    old = time.time() - 3600
    os.utime(path / PROPERTIES, (old, old))
    hudi_py.write(str(path), ROWS, record_key="n")
    with pytest.raises(ConflictError, match="recreated the table"):
        run_task(stale, TaskId(), ROWS.to_batches())
    abort_write(stale)
    assert existing_table(local(path)) is not None
    assert hudi_py.open_table(str(path)).scan().count() == 2
