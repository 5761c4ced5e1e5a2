"""Lance base files: what is written is read again, and says what Apache Hudi's files say of their keys."""

from __future__ import annotations

import datetime as dt
import itertools
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.base.files import base_writer, iter_base_batches, open_base_file, read_footer
from hudi_py.formats.base.parquet_writer import FileLayout
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.storage import MemoryStorage

reader: Any = pytest.importorskip("lance.file")

BLOOM = BloomConfig(10, 0.001)
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
FLAT = {
    "_hoodie_record_key": pa.array(["b", "a", "\U0001f600"]),
    "text": pa.array(["", None, "é"]),
    "long": pa.array([1, None, -(2**63)], pa.int64()),
    "int": pa.array([1, None, 3], pa.int32()),
    "double": pa.array([1.5, None, -0.0]),
    "float": pa.array([0.25, None, float("inf")], pa.float32()),
    "flag": pa.array([True, None, False]),
    "bytes": pa.array([b"", None, b"\0"]),
    "decimal": pa.array([Decimal("1.25"), None, Decimal("-9.99")], pa.decimal128(38, 2)),
    "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "at": pa.array([dt.datetime(2024, 1, 1, 1, 2, 3, 456), None, dt.datetime(1, 1, 1)], pa.timestamp("us", "UTC")),
    "local": pa.array([dt.datetime(2024, 1, 1), None, dt.datetime(9999, 1, 1)], pa.timestamp("us")),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.field("element", pa.int32()))),
    "lists": pa.array(
        [[[1], None], None, [[]]], pa.list_(pa.field("element", pa.list_(pa.field("element", pa.int8()))))
    ),
}
NESTED = {
    "_hoodie_record_key": FLAT["_hoodie_record_key"],
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}], POINT),
    "points": pa.array([[{"x": 1, "y": None}, None], None, []], pa.list_(pa.field("element", POINT))),
    "deep": pa.array([{"p": None}, None, {"p": {"x": 1, "y": ""}}], pa.struct([("p", POINT)])),
}


_NUMBERS = itertools.count()


def new_storage() -> MemoryStorage:
    return MemoryStorage(f"lance-writer-{next(_NUMBERS)}")


def written(table: pa.Table, bloom: BloomConfig | None = BLOOM) -> MemoryStorage:
    storage = new_storage()
    with base_writer(storage, "p/f.lance", table.schema, "{}", bloom=bloom, layout=FileLayout()) as writer:
        for batch in table.to_batches(2):
            writer.write(batch)
        assert writer.num_rows == table.num_rows
    return storage


@pytest.mark.parametrize("columns", [FLAT, NESTED], ids=["flat", "nested"])
def test_rows_are_read_again(columns: dict[str, pa.Array]) -> None:
    table = pa.table(columns)
    storage = written(table)
    assert pa.Table.from_batches(iter_base_batches(storage, "p/f.lance", None)).equals(table)
    some = list(columns)[:0:-1]
    assert pa.Table.from_batches(iter_base_batches(storage, "p/f.lance", [*some, "none"])).equals(table.select(some))
    with open_base_file(storage, "p/f.lance") as file:
        assert sum(batch.num_rows for batch in file.batches([], batch_rows=2)) == 3
        assert file.footer.schema.names == table.schema.names


@pytest.mark.parametrize(("columns", "version"), [(FLAT, (0, 3)), (NESTED, (2, 1))], ids=["flat", "nested"])
def test_versions(columns: dict[str, pa.Array], version: tuple[int, int], tmp_path: Any) -> None:
    """Version 2.0, whose number in files is 0.3, as Apache Hudi writes; it has no null structs, 2.1 has."""
    (tmp_path / "f.lance").write_bytes(written(pa.table(columns)).read("p/f.lance"))
    found = reader.LanceFileReader(str(tmp_path / "f.lance")).metadata()
    assert (found.major_version, found.minor_version) == version


def test_what_it_says_of_keys() -> None:
    footer = read_footer(written(pa.table(FLAT)), "p/f.lance")
    assert (footer.num_rows, footer.min_key, footer.max_key, footer.bloom_type_code) == (
        3,
        "a",
        "\U0001f600",
        "DYNAMIC_V0",
    )
    assert footer.bloom is not None
    assert footer.bloom.might_contain(FLAT["_hoodie_record_key"]).all()
    assert set(footer.metadata) == {"hoodie_min_record_key", "hoodie_max_record_key", "hoodie_bloom_filter_type_code"}
    bare = read_footer(written(pa.table(FLAT), bloom=None), "p/f.lance")
    assert (bare.metadata, bare.bloom, bare.min_key) == ({}, None, None)
    empty = read_footer(written(pa.table(FLAT).slice(0, 0)), "p/f.lance")
    assert (empty.num_rows, empty.min_key) == (0, None)
    with pytest.raises(ConfigError, match="_hoodie_record_key"):
        written(pa.table({"a": [1]}))


def test_a_write_that_fails_leaves_nothing() -> None:
    storage, table = new_storage(), pa.table(FLAT)

    def write() -> None:
        with base_writer(storage, "p/f.lance", table.schema, "{}", bloom=BLOOM, layout=FileLayout()) as writer:
            writer.write(table)
            writer.write(table.drop_columns("text"))

    with pytest.raises(SchemaMismatchError, match="column 'text' is missing"):
        write()
    assert storage.stat("p/f.lance") is None


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance.file", None)
    with pytest.raises(UnsupportedTableError, match=r"Cannot write the table .*needs the library pylance"):
        written(pa.table(FLAT))
