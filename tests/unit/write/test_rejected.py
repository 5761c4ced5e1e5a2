"""Values and arguments that would be taken for something else: refused, by an error that says what to do."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.write.rows.input import read_input

NOW = datetime(2026, 1, 1)
AWARE = NOW.replace(tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> hudi_py.Table:
    path = tmp_path_factory.mktemp("t") / "t"
    hudi_py.write(path, pa.table({"id": ["1", "2", "3"], "v": [1, 2, 3]}), record_key="id")
    return hudi_py.open_table(path)


@pytest.mark.parametrize("limit", ["2", 1.5, 10**30, True, -1, [1]])
def test_limits(table: hudi_py.Table, limit: Any) -> None:
    with pytest.raises(ConfigError, match="A scan's limit is .*; it must be a whole number, 0 or more, of at most 64"):
        table.scan(limit=limit)


def test_limits_that_are_numbers(table: hudi_py.Table) -> None:
    assert [table.scan(limit=limit).count() for limit in (0, 2, np.int64(2), 10**15)] == [0, 2, 2, 3]


@pytest.mark.parametrize("given", [{"meta": "no"}, {"meta": 0}, {"emit_deletes": "false"}])
def test_flags(table: hudi_py.Table, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is not valid: expected True or False"):
        table.scan(**given)


def test_a_record_key_that_is_named_twice(tmp_path: Path) -> None:
    rows = pa.table({"id": ["1"], "v": [1]})
    with pytest.raises(ConfigError, match="record key fields id,id: 'id' occurs twice; name each once"):
        hudi_py.write(tmp_path / "t", rows, record_key=["id", "id"])
    with pytest.raises(ConfigError, match="'id' occurs twice"):
        hudi_py.write(tmp_path / "t", rows, options={"hoodie.datasource.write.recordkey.field": "id,v,id"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": NOW}, {"a": AWARE}],
        [{"a": [NOW, AWARE]}],
        [{"a": {"b": NOW}}, {"a": {"b": AWARE}}],
        [{"a": [{"b": AWARE}]}, {"a": [{"b": None}, {"b": NOW}]}],
        {"a": [NOW, None, AWARE]},
    ],
)
def test_times_with_and_without_a_zone(rows: Any) -> None:
    with pytest.raises(SchemaMismatchError, match="Column 'a' of .* some times have a zone and some have none"):
        read_input(rows)
    assert read_input([{"a": NOW}, {"a": None}]).schema.field("a").type == pa.timestamp("us")
    assert read_input([{"a": [AWARE]}]).schema.field("a").type.value_type == pa.timestamp("us", "UTC")


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    plain = polars.DataFrame({"id": [1]})
    with pytest.raises(SchemaMismatchError, match="Column 'o' has Polars' type Object, which neither Arrow"):
        read_input(plain.with_columns(polars.Series("o", [object()], dtype=polars.Object)))
    wide = polars.col("id").cast(polars.Int128)
    with pytest.raises(SchemaMismatchError, match="Column 'id' has Polars' type Int128"):
        read_input(plain.with_columns(wide))
    with pytest.raises(SchemaMismatchError, match=r"Column 's\.id' has Polars' type Int128"):
        read_input(plain.lazy().with_columns(polars.struct(wide).alias("s")))
    with pytest.raises(SchemaMismatchError, match=r"Column 'l\.element' has Polars' type Int128"):
        read_input(plain.with_columns(wide.implode().alias("l")))
    with pytest.raises(SchemaMismatchError, match=r"Cannot read rows from a polars\..*Series.*to_frame"):
        read_input(polars.Series("id", [1]))
    assert read_input(plain).schema.names == ["id"]


def test_a_series_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(SchemaMismatchError, match=r"Cannot read rows from a pandas\..*Series.*to_frame"):
        read_input(pandas.Series([1], name="id"))
