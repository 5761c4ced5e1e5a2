"""Tables whose ordering field is one of a struct: `at.n`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import SchemaMismatchError


def rows(*found: tuple[str, int | None, str]) -> pa.Table:
    made: list[dict[str, Any]] = [
        {"id": key, "at": None if number is None else {"n": number}, "v": value} for key, number, value in found
    ]
    schema = pa.schema([("id", pa.string()), ("at", pa.struct([("n", pa.int64())])), ("v", pa.string())])
    return pa.Table.from_pylist(made, schema)


def values(path: str, **query: Any) -> dict[str, str]:
    found = hudi_py.open_table(path).scan(["id", "v"], **query).to_table()
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (8, "cow"), (9, "cow"), (9, "mor")])
@pytest.mark.sampled(3)
def test_a_late_row_loses(tmp_path: Path, version: int, kind: str) -> None:
    path = str(tmp_path / "t")
    options = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    first = rows(("a", 5, "a5"), ("b", 5, "b5"), ("c", 5, "c5"))
    hudi_py.write(
        path, first, "insert", options, record_key="id", ordering_by="at.n", table_type=kind, table_version=version
    )
    hudi_py.write(path, rows(("a", 4, "late"), ("b", 6, "b6"), ("d", 2, "d2"), ("d", 1, "late")))
    expected = {"a": "a5", "b": "b6", "c": "c5", "d": "d2"}
    assert values(path) == expected
    if kind == "mor":
        hudi_py.open_table(path).compact()
        assert values(path, query_type="read_optimized") == expected
    hudi_py.write(path, rows(("b", None, "")), "delete")
    assert values(path) == {"a": "a5", "c": "c5", "d": "d2"}


def test_the_field_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match=r"Ordering column 'at\.m'"):
        hudi_py.write(str(tmp_path / "t"), rows(("a", 1, "")), record_key="id", ordering_by="at.m")
