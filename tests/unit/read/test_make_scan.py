from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.schema import OPERATION
from tests.unit.read.tables import MadeTable, row


@pytest.fixture
def table(tmp_path: Path) -> hudi_py.Table:
    made = MadeTable(str(tmp_path / "t"))
    made.base(1, [row("a", 1), row("b,c", 1), row("[d]", 1)])
    made.commit(1)
    return hudi_py.open_table(made.uri)


@pytest.mark.parametrize(
    ("how", "mode", "deletes"),
    [
        ({}, "merge", False),
        ({"merge": "skip"}, "skip", False),
        ({"merge": "unmerged"}, "unmerged", False),
        ({"emit_deletes": True}, "merge", True),
        ({"options": {"hoodie.datasource.merge.type": "skip_merge"}}, "skip", False),
        ({"options": {"hoodie.datasource.merge.type": "payload_combine"}}, "merge", False),
        ({"options": {"changelog.enabled": "true"}}, "unmerged", True),
        ({"options": {"changelog.enabled": "true"}, "merge": "unmerged"}, "unmerged", True),
        ({"options": {"changelog.enabled": "false"}, "merge": "skip"}, "skip", False),
    ],
)
@pytest.mark.parametrize("query", [{}, {"query_type": "incremental", "begin": "000"}])
def test_how_slices_are_read(
    table: hudi_py.Table, how: dict[str, Any], mode: str, deletes: bool, query: dict[str, Any]
) -> None:
    scan = table.scan(**how, **query)
    spec = scan.plan().spec
    assert (spec.mode, spec.emit_deletes) == (mode, deletes)
    assert (OPERATION in scan.schema.names) == deletes
    if deletes:
        assert scan.schema.names.index(OPERATION) == 5


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"merge": "all"}, "merge='all'.*merge, skip, unmerged"),
        ({"merge": "skip", "options": {"changelog.enabled": "true"}}, "contradicts option changelog.enabled"),
        (
            {"merge": "unmerged", "options": {"hoodie.datasource.merge.type": "skip_merge"}},
            "contradicts option hoodie.datasource.merge.type",
        ),
        ({"query_type": "newest"}, "newest"),
        ({"query_type": "snapshot", "options": {"hoodie.datasource.query.type": "incremental"}}, "contradicts"),
        ({"limit": -1}, "limit is -1"),
        ({"options": {"hoodie.py.read.keys": "[1]"}}, "JSON list of strings"),
        ({"options": {"hoodie.py.read.keys": '["a'}}, "JSON list of strings"),
        ({"begin": "20240101000000000"}, "cannot be used with query type 'snapshot'"),
        ({"query_type": "incremental", "begin": "2024"}, "'2024'"),
        ({"query_type": "incremental", "begin": "000", "end": ""}, "Cannot take ''"),
    ],
)
def test_what_does_not_go_together(table: hudi_py.Table, how: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        table.scan(**how)


@pytest.mark.parametrize(
    ("text", "keys"), [('["a", "[d]"]', ["[d]", "a"]), ("b,c", ["b,c"]), ("a", ["a"]), ("[]", []), ('["x"]', [])]
)
def test_keys_by_option(table: hudi_py.Table, text: str, keys: list[str]) -> None:
    scan = table.scan(["id"], options={"hoodie.py.read.keys": text})
    assert sorted(scan.to_table()["id"].to_pylist()) == keys
    assert scan.count() == len(keys)


def test_no_partition_gives_no_rows(table: hudi_py.Table) -> None:
    scan = table.scan(partitions=[])
    assert scan.to_table().num_rows == 0
    assert scan.to_table().schema.equals(scan.schema)


def test_a_scan_is_narrowed_without_another_look_at_the_timeline(table: hudi_py.Table, tmp_path: Path) -> None:
    scan = table.scan()
    shutil.rmtree(tmp_path / "t" / ".hoodie")
    assert scan.narrow(["_hoodie_record_key"], "ts = 1").to_table().num_rows == 3
    assert scan.narrow(needed="ts = 2").count() == 0
