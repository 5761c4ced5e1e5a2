"""Which files a plain Parquet reader may read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.formats.base.parquet import read_metadata
from hudi_py.model.names import PartitionPath
from hudi_py.read import plan_table
from hudi_py.read.engines.native import why_not_native
from hudi_py.storage import Storage, open_storage

SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("n", pa.int32()), ("l", pa.list_(pa.string()))]
)
ROWS = [{"id": 1, "ts": 0, "n": 1, "l": ["a"]}]
SOURCE = pa.Table.from_pylist(ROWS, SCHEMA)


def why(path: Path, **scan: object) -> str | None:
    (split,) = hudi_py.open_table(str(path)).scan(**scan).splits()  # type: ignore[arg-type]
    (reason,) = why_not_native(open_storage(str(path)), [split])
    return reason


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    hudi_py.write(str(path), SOURCE, record_key="id")
    return path


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], **options: object) -> None:
    """Write the table's file anew; `options` are pyarrow's, and `pairs` go into the footer."""
    (file,) = path.glob("*.parquet")
    rows = change(pq.read_table(file))
    pairs = options.pop("pairs", {})
    with pq.ParquetWriter(file, rows.schema, store_schema=False, **options) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(pairs)


def same(table: pa.Table) -> pa.Table:
    return table


def test_a_file_as_the_table_has_it(table: Path) -> None:
    assert why(table) is None
    assert why(table, columns=[]) is None
    rewrite(table, lambda rows: rows.select(rows.column_names[::-1]))
    assert why(table) is None


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        (
            lambda rows: rows.rename_columns([*rows.column_names[:7], "N", "l"]),
            {},
            "column n differs from another only",
        ),
        (lambda rows: rows.append_column("N", rows["n"]), {}, "column n differs from another only by case"),
        (
            lambda rows: rows.set_column(7, "n", rows["n"].cast(pa.int64())),
            {},
            "column n is int64 in the file and int32",
        ),
        (same, {"use_deprecated_int96_timestamps": True}, "column ts"),
        (same, {"coerce_timestamps": "ms"}, "column ts is timestamp[ms"),
        (same, {"pairs": {"org.apache.spark.version": "2.4.4"}}, "column ts counts days in the old calendar"),
        (same, {"pairs": {"org.apache.spark.legacyDateTime": ""}}, "column ts counts days in the old calendar"),
    ],
)
def test_a_file_that_differs(
    table: Path, change: Callable[[pa.Table], pa.Table], options: dict[str, object], reason: str
) -> None:
    rewrite(table, change, **options)
    assert (why(table) or "").startswith(reason)
    assert why(table, columns=["id", "l"]) is None


def test_a_new_writer_counts_days_as_everyone(table: Path) -> None:
    rewrite(table, same, pairs={"org.apache.spark.version": "3.5.3"})
    assert why(table) is None


def test_a_column_that_the_file_lacks_is_null_for_every_reader(table: Path) -> None:
    rewrite(table, lambda rows: rows.drop_columns(["n"]))
    assert why(table) is None


def test_what_a_merge_in_parts_and_a_condition_can_give(tmp_path: Path) -> None:
    path = tmp_path / "m"
    hudi_py.write(str(path), SOURCE, record_key="id", table_type="mor")
    assert why(path, keys=["1"]) == "rows are chosen by their key"
    assert why(path, query_type="incremental", begin="000") is None
    hudi_py.write(str(path), SOURCE)
    assert why(path) is None
    assert why(path, query_type="incremental", begin="000") is None
    assert why(path, query_type="incremental", begin="000", emit_deletes=True) == "deletes are rows too"
    assert why(path, merge="skip") == "its logs are read without a merge"
    assert why(path, query_type="read_optimized") is None


def test_base_files_of_one_name_are_not_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "m"
    hudi_py.write(str(path), SOURCE, record_key="id", table_type="mor")
    hudi_py.write(str(path), SOURCE)
    (split,) = hudi_py.open_table(str(path)).scan().splits()
    storage = open_storage(str(path))
    assert why_not_native(storage, [split, split]) == ["another base file has the same name"] * 2
    alone = replace(split, log_files=())
    assert why_not_native(storage, [alone, alone]) == [None, None]


def test_two_footers_of_a_commit_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    read: list[str] = []

    def noted(storage: Storage, file: str) -> pq.FileMetaData:
        read.append(file.partition("/")[0])
        return read_metadata(storage, file)

    def reasons(of: str | None = None) -> list[str | None]:
        read.clear()
        planned = plan_table(str(path), Options.resolve({}, Scope.READ), None)
        found = planned.why_not_native()
        return [why for split, why in zip(planned.splits, found, strict=True) if of in (None, split.partition)]

    monkeypatch.setattr("hudi_py.read.engines.native.read_metadata", noted)
    rows = pa.table({"id": range(12), "p": list("abcdef") * 2, "n": pa.array(range(12), pa.int32())})
    hudi_py.write(str(path), rows, record_key="id", partition_by="p")
    assert (reasons(), sorted(read)) == ([None] * 6, ["a", "f"])
    hudi_py.write(str(path), rows.slice(1, 3))
    assert (reasons(), sorted(read)) == ([None] * 6, ["a", "b", "d", "f"])
    # a damaged or foreign table: its samples differ, so every file of that commit counts
    rewrite(path / "f", lambda rows: rows.set_column(7, "n", rows["n"].cast(pa.int64())))
    assert (reasons("e"), reasons("f")) == ([None], ["column n is int64 in the file and int32 in the table"])
    assert sorted(set(read)) == list("abdef")
    hudi_py.write(str(path), rows, "insert_overwrite")  # a replacecommit, as clustering is
    assert (reasons(), sorted(read)) == ([None] * 6, list("abcdef"))


@pytest.mark.parametrize("name", ["a[1]", "a*", "{a}"])
def test_a_path_that_hadoop_does_not_take_literally(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    rows = [{"id": 1, "p": name}]
    options = {"hoodie.datasource.write.partitionpath.urlencode": "false"}
    hudi_py.write(str(path), rows, options=options, record_key="id", partition_by="p")
    assert why(path) == "its path has characters that Hadoop does not take literally"


def test_a_path_with_a_colon(table: Path) -> None:
    """Hadoop's `Path` takes what precedes a colon for a scheme, so Spark's Parquet reader finds no such file."""
    (split,) = hudi_py.open_table(str(table)).scan().splits()
    assert split.base_file is not None
    partition = PartitionPath("at=12:30")
    moved = replace(split, partition=partition, base_file=replace(split.base_file, partition=partition))
    reasons = why_not_native(open_storage(str(table)), [split, moved])
    assert reasons == [None, "its path has characters that Hadoop does not take literally"]
