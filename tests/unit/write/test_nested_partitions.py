"""Partitions that lie in one another: paths such as `a` and `a/b`, which values with slashes make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.model.names import nested_partitions
from hudi_py.table import Table
from hudi_py.transaction import publication
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.context import NestingCheck

KEPT = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
REFUSED = r"Cannot write partition '(p=)?a(/b)?' of .*: (it lies in the partition|the partition '(p=)?a/b' lies in it)"


def row(key: str, partition: str, v: int = 1) -> dict[str, Any]:
    return {"id": key, "p": partition, "ts": v, "v": v}


def write(path: Path, *rows: dict[str, Any], version: int = 9, kind: str = "cow", **more: Any) -> Table:
    options = {**KEPT, **more.pop("options", {})}
    settings = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": kind, **more}
    hudi_py.write(path, list(rows), table_version=version, options=options, **settings)
    return hudi_py.open_table(path, options)


def values(table: Table, **options: Any) -> list[tuple[str, str, int]]:
    found = table.scan(["id", "p", "v"], **options).to_table().to_pylist()
    return sorted((each["id"], each["p"], each["v"]) for each in found)


def test_pairs() -> None:
    assert nested_partitions(["a/b/c", "a", "ab", "a/b", "x/y", ""]) == [("a", "a/b"), ("a", "a/b/c"), ("a/b", "a/b/c")]


@pytest.mark.parametrize(
    ("version", "kind", "operation", "first", "then"),
    [
        (6, "cow", "upsert", "a", "a/b"),
        (8, "mor", "upsert", "a/b", "a"),
        (9, "cow", "insert", "c", "a a/b"),
        (6, "mor", "bulk_insert", "a/b", "c a"),
        (9, "mor", "bulk_insert", "c", "a/b a"),
        (8, "cow", "insert_overwrite", "a", "a/b"),
        (9, "cow", "insert_overwrite_table", "a/b", "a"),
    ],
)
def test_a_new_one_is_refused(version: int, kind: str, operation: str, first: str, then: str, tmp_path: Path) -> None:
    table = write(tmp_path, row("k0", first), version=version, kind=kind)
    with pytest.raises(ConfigError, match=REFUSED):
        getattr(table, operation)([row(f"k{number}", p) for number, p in enumerate(then.split(), 1)])
    table = hudi_py.open_table(tmp_path)
    assert values(table) == [("k0", first, 1)]
    assert not table.timeline.pending
    assert table.upsert([row("k0", first, 2), row("k1", "ab")]).instant


@pytest.mark.parametrize(("first", "then"), [("a", "a/b"), ("a/b", "a")])
def test_by_statements_and_with_names(first: str, then: str, tmp_path: Path) -> None:
    options = {"hoodie.datasource.write.hive_style_partitioning": "true", "hoodie.index.type": "GLOBAL_SIMPLE"}
    options["hoodie.simple.index.update.partition.path"] = "true"
    table = write(tmp_path, row("k0", first), row("k1", first), options=options)
    with pytest.raises(ConfigError, match=REFUSED):
        table.merge(pa.Table.from_pylist([row("k2", then)]), "t.id = s.id").when_not_matched_insert_all().execute()
    with pytest.raises(ConfigError, match=REFUSED):
        table.upsert([row("k0", then)])
    assert values(hudi_py.open_table(tmp_path)) == [("k0", first, 1), ("k1", first, 1)]


def test_encoded_values_lie_beside_one_another(tmp_path: Path) -> None:
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    table = write(tmp_path, row("k0", "a"), row("k1", "a/b"), options=encoded)
    assert values(table) == [("k0", "a", 1), ("k1", "a/b", 1)]


def test_tasks_that_know_one_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks create their partitions at the same time: the commit refuses."""
    table = write(tmp_path, row("k0", "c"))
    with monkeypatch.context() as patched:
        patched.setattr(NestingCheck, "add", lambda *_: None)
        patched.setattr(publication, "check_not_nested", lambda *_: None)
        with pytest.raises(ConfigError, match=REFUSED):
            table.upsert([row("k1", "a"), row("k2", "a/b")])
    table = hudi_py.open_table(tmp_path)
    assert values(table) == [("k0", "c", 1)]
    assert not table.timeline.pending


@pytest.fixture
def nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], Table]:
    """`nested(version, kind)` is a table with the partitions `a`, `a/b` and `a/b/c`, as Apache Hudi writes one."""

    def make(version: int, kind: str) -> Table:
        with monkeypatch.context() as patched:
            patched.setattr(NestingCheck, "add", lambda *_: None)
            patched.setattr(publication, "check_not_nested", lambda *_: None)
            patched.setattr(WriteTransaction, "check_nested", lambda *_: None)
            for v in (1, 2):
                rows = [row("k0", "a", v), row("k1", "a/b", v), row("k2", "a/b/c", v)]
                table = write(tmp_path, *rows, version=version, kind=kind)
        return table

    return make


ROWS = [("k0", "a", 2), ("k1", "a/b", 2), ("k2", "a/b/c", 2)]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (8, "cow"), (9, "mor")])
def test_where_a_table_has_them_no_row_is_lost(version: int, kind: str, nested: Callable[[int, str], Table]) -> None:
    table = nested(version, kind)
    path = table.uri
    assert values(hudi_py.open_table(path, {"hoodie.metadata.enable": "false"})) == ROWS
    report = table.metadata.verify()
    assert report.ok
    assert report.nested == ("a/b", "a/b/c")
    assert "'a/b' lies in another" in str(report)
    assert [each.partition for each in table.doctor().of("files.nested_partition")] == ["a/b", "a/b/c"]
    table.metadata.rebuild()
    assert values(hudi_py.open_table(path)) == ROWS
    assert table.metadata.verify().ok
    # what was there goes on; archiving leaves no commit that names the partitions
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    table = hudi_py.open_table(path, {**keep, "hoodie.compact.inline": "true"})
    for v in range(3, 10):
        table.upsert([row("k0", "a", v)])
    table.clean()
    table.archive()
    expected = [("k0", "a", 9), *ROWS[1:]]
    for enabled in ("true", "false"):
        assert values(hudi_py.open_table(path, {"hoodie.metadata.enable": enabled})) == expected
    table = hudi_py.open_table(path)
    table.upsert([row("k1", "a/b", 10), row("k0", "a", 10)])
    table.delete_where("id = 'k2'")
    assert values(hudi_py.open_table(path)) == [("k0", "a", 10), ("k1", "a/b", 10)]
    with pytest.raises(ConfigError, match="Cannot write partition 'a/z'"):
        table.upsert([row("k9", "a/z")])


@pytest.mark.parametrize("version", [6, 9])
def test_cleaning_a_deleted_partition_leaves_those_in_it(version: int, nested: Callable[[int, str], Table]) -> None:
    table = nested(version, "cow")
    table.delete_partition("a")
    table = hudi_py.open_table(table.uri, {"hoodie.clean.commits.retained": "1"})
    for v in range(3, 6):
        table.upsert([row("k1", "a/b", v)])
    table.clean()
    for enabled in ("true", "false"):
        found = hudi_py.open_table(table.uri, {"hoodie.metadata.enable": enabled})
        assert values(found) == [("k1", "a/b", 5), ("k2", "a/b/c", 2)]
