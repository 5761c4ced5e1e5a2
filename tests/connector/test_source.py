"""The data source's objects as Spark passes them between its processes. No JVM."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader

import hudi_py
from pyspark_hudi import DefaultSource
from pyspark_hudi.reader import HudiReader
from pyspark_hudi.types import arrow_schema

KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}


def rows(count: int, value: int = 0) -> list[dict[str, Any]]:
    return [{"id": n, "p": f"p{n % 5}", "ts": 1, "v": n + value} for n in range(count)]


def loaded(path: str, **options: str) -> bytes:
    """What Spark keeps of a DataFrame, and its schema."""
    source = DefaultSource({"path": path, **options})
    return pickle.dumps((source, source.schema()))


def planned(frame: bytes) -> tuple[HudiReader, DefaultSource]:
    source, schema = pickle.loads(frame)
    reader = source.reader(schema)
    assert isinstance(reader, HudiReader)
    return reader, source


def read(frame: bytes) -> list[tuple[int, int]]:
    reader, source = planned(frame)
    partitions = [pickle.dumps(partition) for partition in reader.partitions()]
    task: HudiReader = pickle.loads(pickle.dumps((reader, source)))[0]
    batches = [batch for partition in partitions for batch in task.read(pickle.loads(partition))]
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    return sorted(zip(table.column("id").to_pylist(), table.column("v").to_pylist(), strict=True))


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(50), **KEYED)
    return path


def test_each_plan_of_a_frame_sees_the_same(path: str) -> None:
    frame = loaded(path)
    hudi_py.write(path, rows(60, 100))
    assert read(frame) == read(frame) == [(n, n) for n in range(50)]
    assert read(loaded(path)) == [(n, n + 100) for n in range(60)]


def test_files_removed_since_are_missed_and_not_passed_over(path: str) -> None:
    frame = loaded(path)
    old = list(Path(path).glob("*/*.parquet"))
    hudi_py.write(path, rows(50, 100))
    for file in old:
        file.unlink()
    with pytest.raises(hudi_py.CorruptFileError, match="is missing"):
        read(frame)


def test_tasks_get_their_own_split_and_no_list(path: str) -> None:
    reader, source = planned(loaded(path))
    before = len(pickle.dumps((reader, source)))
    hudi_py.write(path, [{"id": n, "p": f"q{n}", "ts": 1, "v": n} for n in range(100)])
    reader, source = planned(loaded(path))
    assert len(pickle.dumps((reader, source))) < before + 200
    partitions = reader.partitions()
    assert sum(len(partition.splits) for partition in partitions) == 105
    assert 1 < len(partitions) < 105
    assert all(len(pickle.dumps(partition)) < 500 + 400 * len(partition.splits) for partition in partitions)


def test_small_slices_are_read_by_one_task(path: str) -> None:
    (both, alone, one) = (
        planned(loaded(path, **{"hoodie.py.read.min.tasks": count, "hoodie.py.read.open.cost.bytes": cost}))[0]
        for count, cost in (("2", "4000000"), ("5", "4000000"), ("0", "100000000000"))
    )
    assert [len(partition.splits) for partition in both.partitions()] == [3, 2]
    assert [len(partition.splits) for partition in alone.partitions()] == [1] * 5
    assert [len(partition.splits) for partition in one.partitions()] == [1] * 5  # one costs what a task may read
    expected = [(n, n) for n in range(50)]
    assert read(loaded(path, **{"hoodie.py.read.min.tasks": "1"})) == expected


def test_credentials_are_in_no_split(path: str) -> None:
    reader, _ = planned(loaded(path, **{"storage.secret": "hunter2"}))
    assert b"hunter2" not in b"".join(pickle.dumps(partition) for partition in reader.partitions())


def test_a_scan_without_splits_has_a_partition(path: str) -> None:
    reader, _ = planned(loaded(path, filter="p = 'none'"))
    (partition,) = reader.partitions()
    assert list(reader.read(pickle.loads(pickle.dumps(partition)))) == []
    assert list(reader.read(None)) == []


def test_batches_have_the_schema_that_was_announced(path: str) -> None:
    source = DefaultSource({"path": path, "columns": "v,id"})
    schema = source.schema()
    reader = source.reader(schema)
    assert isinstance(reader, HudiReader)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert batches
    assert all(batch.schema.equals(arrow_schema(schema)) for batch in batches)


def test_filters_are_not_pushed() -> None:
    assert getattr(HudiReader, "pushFilters", None) is getattr(DataSourceReader, "pushFilters", None)


def test_who_needs_no_more_rows_opens_no_more_files(path: str) -> None:
    reader, _ = planned(loaded(path, **{"hoodie.py.read.min.tasks": "1"}))
    first = hudi_py.open_table(path).files().column("base_file").to_pylist()[0]
    for file in Path(path).glob("*/*.parquet"):
        if file.name != first:
            file.unlink()
    (partition,) = reader.partitions()
    batches = reader.read(partition)
    assert next(batches).num_rows == 10
    batches.close()  # type: ignore[attr-defined]
    with pytest.raises(hudi_py.CorruptFileError, match="is missing"):
        list(reader.read(partition))


def test_large_files_are_read_in_pieces(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"id": pa.array(range(200_000)), "v": pa.array([f"{n * 7919:020}" for n in range(200_000)])})
    options = {"hoodie.parquet.block.size": "600000", "hoodie.parquet.compression.codec": "uncompressed"}
    hudi_py.write(path, data, "bulk_insert", options, record_key="id")
    (file,) = Path(path).glob("*.parquet")
    assert file.stat().st_size > 4_000_000
    reader, _ = planned(loaded(path, **{"hoodie.py.read.split.bytes": "2000000"}))
    assert len(reader.partitions()) > 1
    count = sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))
    assert count == 200_000
