"""Options of Parquet files: those that change nothing in Apache Hudi either, and lists in Parquet's legacy format."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from tests.oracle.client import Oracle, OracleError

pytestmark = pytest.mark.slow

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "at": pa.timestamp("us", "UTC"), "list": pa.list_(pa.int32())})


def rows(ids: list[int], ts: int) -> pa.Table:
    at = datetime.datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=datetime.timezone.utc)
    found = [{"id": f"k{number}", "ts": ts, "at": at, "list": [1, None, number]} for number in ids]
    return pa.Table.from_pylist(found, SCHEMA)


def types_of(root: Path) -> set[str]:
    schemas = [pq.read_schema(path) for path in root.rglob("*.parquet") if ".hoodie" not in path.parts]
    assert schemas
    return {str(schema.field("at").type) for schema in schemas}


@pytest.mark.nightly
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["TIMESTAMP_MILLIS", "INT96"])
@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
def test_the_schema_decides_the_type_of_timestamps(oracle: Oracle, tmp_path: Path, kind: str, operation: str) -> None:
    given = {"hoodie.parquet.outputtimestamptype": kind}
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    oracle.write(theirs, rows([1, 2], 1), operation, key="id", ordering="ts", type="cow", options=given)
    hudi_py.write(ours, rows([1, 2], 1), operation, record_key="id", ordering_by="ts", options={**QUICK, **given})
    assert types_of(theirs) == types_of(ours) == {"timestamp[us, tz=UTC]"}
    expected = oracle.read(theirs, drop_meta=True).sort_by("id").to_pylist()
    assert oracle.read(ours, drop_meta=True).sort_by("id").to_pylist() == expected
    assert hudi_py.open_table(ours).scan(meta=False).to_table().sort_by("id").to_pylist() == expected


@pytest.mark.nightly
@pytest.mark.parametrize("dictionary", [pytest.param("true", marks=pytest.mark.nightly), "false"])
def test_pages_and_dictionaries(oracle: Oracle, tmp_path: Path, dictionary: str) -> None:
    given = {"hoodie.parquet.page.size": "1000", "hoodie.parquet.dictionary.enabled": dictionary}
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    data = rows(list(range(3000)), 1)
    oracle.write(theirs, data, "insert", key="id", ordering="ts", type="cow", options=given)
    hudi_py.write(ours, data, "insert", record_key="id", ordering_by="ts", options={**QUICK, **given})
    for root in (theirs, ours):
        (file,) = (path for path in root.rglob("*.parquet") if ".hoodie" not in path.parts)
        columns = pq.read_metadata(file).row_group(0)
        times = next(
            columns.column(at) for at in range(columns.num_columns) if columns.column(at).path_in_schema == "ts"
        )
        assert any("DICTIONARY" in each for each in times.encodings) is (dictionary == "true"), root
    assert oracle.read(ours, drop_meta=True).sort_by("id") == data.sort_by("id")
    assert oracle.read(ours, where="id = 'k1234'").num_rows == 1
    assert oracle.check(ours)["problems"] == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.nightly), "mor"])
def test_lists_in_the_legacy_format_are_read_and_rewritten(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    """Apache Hudi bulk inserts such lists and reads them, but cannot upsert into their files."""
    given = {"hoodie.parquet.writelegacyformat.enabled": "true"}
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    oracle.write(theirs, rows([1, 2], 1), "bulk_insert", key="id", ordering="ts", type=kind, options=given)
    (file,) = (path for path in theirs.rglob("*.parquet") if ".hoodie" not in path.parts)
    assert "bag" in str(pq.ParquetFile(file).schema)
    shutil.copytree(theirs, ours)
    with pytest.raises(OracleError):
        oracle.write(theirs, rows([2, 3], 2))
    table = hudi_py.open_table(ours, {**QUICK, **given})
    assert table.scan(meta=False).to_table().sort_by("id") == rows([1, 2], 1)
    table.upsert(rows([2, 3], 2))
    expected = [*rows([1], 1).to_pylist(), *rows([2, 3], 2).to_pylist()]
    assert table.scan(meta=False).to_table().sort_by("id").to_pylist() == expected
    assert oracle.read(ours, drop_meta=True).sort_by("id").to_pylist() == expected
    oracle.write(ours, rows([1], 3), options={"hoodie.datasource.write.row.writer.enable": "false"})
    assert oracle.read(ours, drop_meta=True).sort_by("id").to_pylist()[0]["ts"] == 3


@pytest.mark.nightly
def test_the_column_of_operations_loses_what_is_in_logs(oracle: Oracle, tmp_path: Path) -> None:
    """Why `hoodie.allow.operation.metadata.field` is refused."""
    given = {"hoodie.allow.operation.metadata.field": "true", "hoodie.parquet.small.file.limit": "0"}
    path = tmp_path / "t"
    oracle.write(path, rows([1, 2], 1), key="id", ordering="ts", type="mor", options=given)
    oracle.write(path, rows([1], 2), options=given)
    found = oracle.read(path)
    assert found["_hoodie_operation"].null_count == 2
    assert found["ts"].to_pylist() == [1, 1]
    assert hudi_py.open_table(path).scan().to_table()["ts"].to_pylist() == [1, 1]
