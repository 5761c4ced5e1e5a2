"""Tables whose base files are not Parquet: the same lives for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import hudi_py


def rows(keys: list[int], ts: int, text: str) -> pa.Table:
    return pa.table(
        {
            "k": keys,
            "p": ["even" if key % 2 == 0 else "odd" for key in keys],
            "ts": [ts] * len(keys),
            "s": [f"{text}{key}" for key in keys],
        }
    )


def made(
    path: Path, first: pa.Table, default: Mapping[str, str], version: int = 9, kind: str = "cow", **more: Any
) -> hudi_py.Table:
    """A table with its first rows, open with the default options; its first write may have more."""
    named: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": kind}
    given = {**default, **more.pop("options", {})}
    hudi_py.write(str(path), first, "upsert", given, **named, table_version=version, **more)
    return hudi_py.open_table(str(path), dict(default))


def texts(table: hudi_py.Table, **scan: Any) -> list[str]:
    return sorted(table.scan(**scan).to_table()["s"].to_pylist())


def check_operations(
    table: hudi_py.Table, path: Path, kind: str, rows: Callable[..., pa.Table], texts: Callable[..., list[str]]
) -> None:
    """Operations on a table with the keys 1 to 4 and the texts a1 to a4; `rows` and `texts` as those of this module."""
    table.upsert(rows([2, 5], 2, "b"))
    table.insert(rows([6], 2, "b"))
    table.delete(rows([3], 3, ""))
    table.bulk_insert(rows([8], 2, "c"))
    assert texts(table) == ["a1", "a4", "b2", "b5", "b6", "c8"]
    assert texts(table, filter="k > 4") == ["b5", "b6", "c8"]
    table.update({"s": "'u'"}, "k = 4")
    table.insert_overwrite(rows([1], 5, "o"))
    assert texts(table) == ["b2", "b6", "c8", "o1", "u"]
    if kind == "mor":
        table.compact()
        assert texts(table, query_type="read_optimized") == ["b2", "b6", "c8", "o1", "u"]
    files = {each.suffix for each in path.rglob("*.*") if each.parent.name in ("even", "odd")}
    assert f".{table.properties['hoodie.table.base.file.format'].lower()}" in files
    assert ".parquet" not in files
    assert table.doctor(full=True).findings == ()


def index_options(index: str) -> dict[str, str]:
    """Options of writes with a type of index."""
    options = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": "2"}
    if index == "RECORD_INDEX":
        options["hoodie.metadata.record.index.enable"] = "true"
    return options
