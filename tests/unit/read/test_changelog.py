"""Changelog tables: rows carry `_hoodie_operation`, as Flink writes them where `changelog.enabled` is set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.model.commit import WriteStat
from hudi_py.schema import META_FIELDS, OPERATION
from tests.unit.read.tables import SCHEMA, MadeTable

LOGGED = pa.schema([(OPERATION, pa.string()), *SCHEMA])


def row(operation: str | None, id: str, ts: int, name: str) -> dict[str, Any]:
    return {OPERATION: operation, "id": id, "ts": ts, "name": name, "price": 1.0}


def changelog(tmp_path: Path, version: int) -> hudi_py.Table:
    """Three keys inserted; one updated, one deleted, one inserted; one of these updated."""
    table = MadeTable(str(tmp_path), version=version, schema=LOGGED)
    table.base(1, [row("I", "k1", 1, "a"), row("I", "k2", 1, "b"), row("I", "k3", 1, "c")])
    table.commit(1, schema=SCHEMA, stats=[])
    first = [row("-U", "k1", 1, "a"), row("U", "k1", 2, "a2"), row("D", "k2", 2, "b"), row("I", "k4", 2, "d")]
    path = table.log(2, first, base_at=1)
    stat = WriteStat("", path, "", log_version=1)
    table.commit(2, schema=SCHEMA, stats=[stat])
    table.log(3, [row("-U", "k4", 2, "d"), row("U", "k4", 3, "d2")], base_at=1, number=2)
    table.commit(3, schema=SCHEMA, stats=[])
    return hudi_py.open_table(table.uri)


def shown(scan: hudi_py.Scan) -> list[tuple[Any, ...]]:
    return [tuple(each.values()) for each in scan.to_table().select([OPERATION, "id", "name"]).to_pylist()]


@pytest.mark.parametrize("version", [6, 9])
def test_the_column_is_there_although_no_commit_tells(tmp_path: Path, version: int) -> None:
    table = changelog(tmp_path, version)
    assert table.schema.names == [*META_FIELDS, OPERATION, *SCHEMA.names]


@pytest.mark.parametrize("version", [6, 9])
def test_merged_rows_are_the_last_ones_which_are_no_deletes(tmp_path: Path, version: int) -> None:
    table = changelog(tmp_path, version)
    assert sorted(shown(table.scan())) == [("I", "k3", "c"), ("U", "k1", "a2"), ("U", "k4", "d2")]


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("options", [{}, {"changelog.enabled": "true"}])
def test_unmerged_rows_are_the_changelog(tmp_path: Path, version: int, options: dict[str, str]) -> None:
    table = changelog(tmp_path, version)
    scan = table.scan(options=options) if options else table.scan(merge="unmerged", emit_deletes=True)
    assert shown(scan) == [
        ("I", "k1", "a"),
        ("I", "k2", "b"),
        ("I", "k3", "c"),
        ("-U", "k1", "a"),
        ("U", "k1", "a2"),
        ("D", "k2", "b"),
        ("I", "k4", "d"),
        ("-U", "k4", "d"),
        ("U", "k4", "d2"),
    ]
