from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import SchemaMismatchError, UnsupportedTableError
from hudi_py.merge import MergeSettings
from hudi_py.merge.keys import as_computed, record_keys, with_keys
from hudi_py.merge.settings import COMMIT_TIME


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array(["a", "", None]), ["a", "", None]),
        (pa.array([1, -2, None], pa.int32()), ["1", "-2", None]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([1.0, 1e10, None], pa.float64()), ["1.0", "1.0E10", None]),
        (pa.array([decimal.Decimal("1.50"), None], pa.decimal128(8, 2)), ["1.50", None]),
        (pa.array([datetime.date(1970, 1, 2), None], pa.date32()), ["1", None]),
        (pa.array([1, None], pa.timestamp("ms", "UTC")), ["1000", None]),
    ],
)
def test_one_field(column: pa.Array, text: list[Any]) -> None:
    assert record_keys(pa.RecordBatch.from_pydict({"k": column}), ["k"]).to_pylist() == text


def test_several_fields() -> None:
    batch = pa.RecordBatch.from_pydict({"k": pa.array(["a", "", None]), "l": pa.array([1, None, 3])})
    assert record_keys(batch, ["k", "l"]).to_pylist() == ["k:a,l:1", "k:__empty__,l:__null__", "k:__null__,l:3"]


def test_a_column_in_place_of_none() -> None:
    settings = MergeSettings(COMMIT_TIME, key_fields=("k",))
    batch = pa.RecordBatch.from_pydict({"_hoodie_record_key": pa.nulls(1, pa.string()), "k": ["a"]})
    assert with_keys(batch, settings.key_fields)["_hoodie_record_key"].to_pylist() == ["a"]
    assert with_keys(batch.select(["k"]), settings.key_fields).schema.names == ["k", "_hoodie_record_key"]
    assert with_keys(batch, MergeSettings(COMMIT_TIME).key_fields) is batch


def test_what_is_no_key() -> None:
    batch = pa.RecordBatch.from_pydict({"k": pa.array([[1]])})
    with pytest.raises(SchemaMismatchError, match="cannot be part of a record key"):
        record_keys(batch, ["k"])
    with pytest.raises(SchemaMismatchError, match="Column 'l' of the record key is missing"):
        record_keys(batch, ["l"])


def test_keys_of_deletes_have_the_form_of_those_of_rows() -> None:
    """Delete blocks of Apache Hudi 1.2.0 have `id:r0` with a complex key generator, and dates as texts."""
    schema = pa.schema([("id", pa.string()), ("d", pa.date32())])
    named = pa.array(["id:r0", "r1", "id:"])
    assert as_computed(named, schema, ("id",), named=True, path="x").to_pylist() == ["r0", "r1", ""]
    assert as_computed(named, schema, ("id",), named=False, path="x").equals(named)
    days = pa.array(["2024-01-02", "19724", "1969-12-31"])
    assert as_computed(days, schema, ("d",), named=False, path="x").to_pylist() == ["19724", "19724", "-1"]
    with pytest.raises(UnsupportedTableError, match="the date 'd' in a record key of several columns"):
        as_computed(days, schema, ("id", "d"), named=False, path="x")
