"""What a caller may give a scan: paths, names, keys, partitions, and writes as points in time."""

from __future__ import annotations

import datetime
import decimal
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hudi_py
from hudi_py.read.request import key_texts
from hudi_py.storage import open_storage
from hudi_py.write.result import WriteResult
from tests.golden.tables import Extracted
from tests.unit.read.tables import MadeTable, row

NOTHING = WriteResult(None, None, "upsert", 0, 0, 0, 0, 0)


def rows(ids: str, v: int, city: str = "oslo") -> list[dict[str, Any]]:
    return [{"id": id, "city": city, "v": v} for id in ids]


def trips(path: Path, **more: Any) -> hudi_py.Table:
    hudi_py.write(str(path), rows("ab", 1) + rows("c", 1, "bergen"), record_key="id", partition_by="city", **more)
    return hudi_py.open_table(str(path))


def ids(scan: hudi_py.Scan) -> list[str]:
    return sorted(scan.to_table()["id"].to_pylist())


# ---- paths


def test_paths_of_pathlib_and_of_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    hudi_py.create_table(tmp_path / "made", pa.schema([("id", pa.string())]), record_key="id")
    hudi_py.write(tmp_path / "t", rows("a", 1), record_key="id")
    assert ids(hudi_py.open_table("~/t").scan()) == ids(hudi_py.open_table(Path("~/t")).scan()) == ["a"]
    assert hudi_py.open_table("~/made").scan(options={"hoodie.memory.spillable.map.path": tmp_path}).count() == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "empty path"),
        (None, "expected text or a path, not NoneType"),
        (b"/t", "expected text or a path, not bytes"),
        (Path("s3://bucket/t"), "pathlib drops a slash of a URI; pass it as text"),
    ],
)
def test_what_is_no_path(path: Any, message: str) -> None:
    with pytest.raises(hudi_py.ConfigError, match=message):
        open_storage(path)


# ---- columns and keys


def test_one_name_stands_for_a_list(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    assert table.scan(columns="id").schema.names == ["id"]
    assert ids(table.scan(keys="a")) == ["a"]
    assert ids(table.scan(partitions="bergen")) == ["c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": [1]}, "columns has 1 of type int"),
        ({"columns": 1}, "columns=1 is of type int"),
        ({"columns": "id,v"}, "no column 'id,v'"),
        ({"partitions": [Path("oslo")]}, "partitions has PosixPath"),
        ({"keys": [1.5]}, "keys has 1.5 of type float"),
        ({"keys": [decimal.Decimal("1.50")]}, "keys has Decimal"),
        ({"keys": [None]}, "keys has None of type NoneType"),
        ({"keys": [b"a"]}, "keys has b'a' of type bytes"),
        ({"keys": b"a"}, "keys=b'a' is of type bytes"),
        ({"keys": [datetime.datetime(2026, 1, 1)]}, "of type datetime"),
    ],
)
def test_arguments_of_the_wrong_type(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    table = trips(tmp_path / "t")
    with pytest.raises((hudi_py.ConfigError, hudi_py.SchemaMismatchError), match=message):
        table.scan(**arguments)


@pytest.mark.parametrize(
    "values",
    [[7, 8], [True, False], [datetime.date(2026, 1, 2), datetime.date(1969, 12, 31)], ["x", "y"]],
    ids=["int", "bool", "date", "text"],
)
def test_keys_are_rendered_as_record_keys(tmp_path: Path, values: list[Any]) -> None:
    data = pa.table({"id": values, "v": [1, 2]})
    hudi_py.write(tmp_path / "t", data, record_key="id")
    table = hudi_py.open_table(tmp_path / "t")
    for value, v in zip(values, (1, 2), strict=True):
        for given in ([value], value, pa.array([value]), pa.scalar(value)):
            assert table.scan(keys=given).to_table()["v"].to_pylist() == [v]


def test_keys_of_numpy() -> None:
    assert key_texts(np.array([1, 2])) == ["1", "2"]
    assert key_texts(np.int32(3)) == ["3"]


# ---- partitions


def test_unknown_partitions_are_refused(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    for given, hint in (("city=oslo", "did you mean 'oslo'"), ("osl", "did you mean 'oslo'"), ("x", "it has 'bergen'")):
        with pytest.raises(hudi_py.ConfigError, match=f"no partition '{given}'; {hint}"):
            table.scan(partitions=[given])
    hive = trips(tmp_path / "hive", options={"hoodie.datasource.write.hive_style_partitioning": "true"})
    assert ids(hive.scan(partitions=["city=oslo", "/city=bergen/"])) == ["a", "b", "c"]
    with pytest.raises(hudi_py.ConfigError, match="no partition 'oslo'; did you mean 'city=oslo'"):
        hive.scan(partitions=["oslo"])


@pytest.mark.parametrize("metadata", ["true", "false"])
def test_known_partitions_without_rows(tmp_path: Path, metadata: str) -> None:
    table = trips(tmp_path / "t", options={"hoodie.metadata.enable": metadata})
    first = table.timeline.completed[-1].completion_time
    assert first is not None
    table.delete(rows("c", 1, "bergen"))
    later = table.upsert(rows("d", 2))
    assert ids(table.scan(partitions="bergen")) == []
    # of a range, partitions of the table which its commits did not touch
    ranged = table.scan(query_type="incremental", begin=first, end=None, partitions="bergen")
    assert ids(ranged) == []
    last = table.scan(query_type="incremental", partitions="bergen")
    assert (ids(last), later.num_inserted) == ([], 1)
    with pytest.raises(hudi_py.ConfigError, match="no partition 'nowhere'"):
        table.scan(query_type="incremental", partitions="nowhere")


def test_any_partition_of_a_table_without_writes(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("city", pa.string())])
    table = hudi_py.create_table(tmp_path / "t", schema, record_key="id", partition_by="city")
    assert ids(table.scan(partitions=["oslo"])) == []


def test_unknown_partitions_of_changes(golden: Extracted) -> None:
    table = hudi_py.open_table(golden("v9_cow_cdc_before_after"))
    known = table.partitions()["partition"].to_pylist()
    assert table.scan(query_type="cdc", begin="000", partitions=known[0]).count()
    with pytest.raises(hudi_py.ConfigError, match="no partition 'nowhere'"):
        table.scan(query_type="cdc", begin="000", partitions="nowhere")


# ---- writes as points in time


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.sampled(3)
def test_ranges_between_writes_have_every_row_once(tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    hudi_py.write(path, rows("ab", 0), record_key="id", table_version=version, table_type=kind)
    table = hudi_py.open_table(path)
    results = [table.upsert(rows(each, number)) for number, each in enumerate(("ac", "d", "ae"), 1)]
    ranges = [
        table.scan(query_type="incremental", begin=begin, end=end)
        for begin, end in zip(("000", *results), (*results, None), strict=True)
    ]
    assert [ids(each) for each in ranges] == [["a", "b", "c"], ["d"], ["a", "e"], []]
    assert ids(table.scan(as_of=results[0])) == ["a", "b", "c"]
    newer = {"hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME"}
    assert ids(table.scan(query_type="incremental", begin=results[0], end=results[1], options=newer)) == ["d"]


@pytest.mark.parametrize("name", ["v6_cow_cdc_before_after", "v9_cow_cdc_before_after"])
def test_changes_between_writes(golden: Extracted, name: str) -> None:
    table = hudi_py.open_table(golden(name))
    layout = table.timeline.layout.version
    commits = [
        replace(NOTHING, instant=each.time, completion_time=each.completion_time if layout > 1 else None)
        for each in table.timeline.write_completed
    ]
    bounds = zip(("000", *commits), (*commits, None), strict=True)
    parts = [table.scan(query_type="cdc", begin=begin, end=end).to_table() for begin, end in bounds]
    whole = table.scan(query_type="cdc", begin="000").to_table()
    assert sum(part.num_rows > 0 for part in parts) > 1
    assert sorted(map(str, pa.concat_tables(parts).to_pylist())) == sorted(map(str, whole.to_pylist()))


def test_services_take_writes(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    kept, taken = table.upsert(rows("d", 2)), table.upsert(rows("e", 3))
    assert table.savepoint(kept).instant == kept.instant
    assert table.rollback(taken).instant is not None
    assert ids(table.scan()) == ["a", "b", "c", "d"]
    table.restore(kept)
    table.delete_savepoint(kept)


def test_a_write_that_committed_nothing_is_no_point_in_time(tmp_path: Path) -> None:
    table = trips(tmp_path / "t")
    empty = pa.Table.from_pylist(rows("d", 1)).slice(0, 0)
    nothing = table.upsert(empty, options={"hoodie.allow.empty.commit": "false"})
    assert nothing.instant is None
    with pytest.raises(hudi_py.ConfigError, match="it committed nothing"):
        table.scan(query_type="incremental", begin=nothing)
    with pytest.raises(hudi_py.ConfigError, match="it committed nothing"):
        table.rollback(nothing)


# ---- keys of tables without meta columns


def test_a_write_that_was_archived_before_an_upgrade(tmp_path: Path) -> None:
    """Version 6 has no completion times in its results; the archive that the upgrade makes has them."""
    options = {"hoodie.metadata.enable": "false", "hoodie.archive.automatic": "false"}
    table = trips(tmp_path, table_version=6, options=options)
    first, second, *_ = [table.upsert(rows(id, 2), options=options) for id in "defgh"]
    kept = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    table.archive(options=options | kept)
    table.upgrade(8)
    assert first.instant not in table.instants()["instant"].to_pylist()
    assert ids(table.scan(query_type="incremental", begin=first, end=second)) == ["e"]
    unknown = replace(NOTHING, instant="20200101000000000")
    with pytest.raises(hudi_py.ConfigError, match="neither the active timeline nor the archive has it"):
        table.scan(query_type="incremental", begin=unknown)


@pytest.mark.parametrize("mor", [False, True])
def test_keys_made_of_columns(tmp_path: Path, mor: bool) -> None:
    table = MadeTable(str(tmp_path / "t"), mor=mor, properties={"hoodie.populate.meta.fields": "false"})
    table.base(1, [row("a", 1), row("b", 1), row("c", 1)])
    table.commit(1)
    if mor:
        table.log(2, [row("b", 2, "b2"), row("d", 2)], base_at=1)
        table.commit(2)
    opened = hudi_py.open_table(table.uri)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ids(opened.scan(keys=["b", "d"])) == (["b", "d"] if mor else ["b"])
        assert opened.scan(columns="name", keys="b").to_table()["name"].to_pylist() == ["b2" if mor else "n"]
        assert opened.scan(keys="b").count() == 1
    with pytest.raises(hudi_py.UnsupportedTableError, match="Cannot read deletes by record key"):
        opened.scan(keys="b", emit_deletes=True)


def test_keys_of_columns_whose_text_is_not_the_key(tmp_path: Path) -> None:
    bare = {"hoodie.populate.meta.fields": "false", "hoodie.table.recordkey.fields": "price"}
    table = MadeTable(str(tmp_path / "t"), properties=bare)
    table.base(1, [row("a", 1)])
    table.commit(1)
    with pytest.raises(hudi_py.UnsupportedTableError, match="recordkey.fields=price"):
        hudi_py.open_table(table.uri).scan(keys="1.0")
