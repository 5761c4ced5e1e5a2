"""Leaving out by indexes: only what certainly holds no row that matches, and never one version of a row alone."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.expressions import parse_filter
from hudi_py.metadata.keys import column_stats_key, partition_stats_key
from hudi_py.model.properties import TableConfig
from hudi_py.read.pruning.bounds import Bounds, may_be_true, row_groups_to_read
from hudi_py.read.pruning.keys import keys_of_filter
from tests.support.metadata_tables import MetadataTableWriter, files_record, stats_record
from tests.unit.read.tables import FILE_ID, MadeTable, instant, row

OTHER = "22222222-2222-3333-4444-555555555555-0"


class Indexed:
    """A table of two file groups with statistics, the first of which may have a log."""

    def __init__(self, path: Path, *, mor: bool = True) -> None:
        self.table = MadeTable(str(path / "t"), mor=mor)
        self.table.base(1, [row("a", 1, price=1.0), row("b", 1, price=2.0)])
        self.table.base(1, [row("c", 1, price=8.0), row("d", 1, price=9.0)], file_id=OTHER)
        self.table.commit(1)
        self.writer = MetadataTableWriter(self.table.storage, ("files", "column_stats", "partition_stats"))
        self.stats: dict[str, bytes] = {}
        self.parts: dict[str, bytes] = {}

    def names(self) -> dict[str, int]:
        return {i.name: i.size for i in self.table.storage.list() if i.name.endswith(".parquet") or ".log." in i.name}

    def stat(self, column: str, part: str, low: Any, high: Any, **more: Any) -> None:
        """Statistics of the one file whose name begins with `part`, or of the log."""
        (name,) = [name for name in self.names() if name.startswith(part) or (part == ".log." and part in name)]
        self.stats[column_stats_key(column, "", name)] = stats_record(column, low, high, **more)

    def prices(self) -> None:
        self.stat("price", f"{FILE_ID}_", 1.0, 2.0, values=2)
        self.stat("price", f"{OTHER}_", 8.0, 9.0, values=2)

    def done(self) -> hudi_py.Table:
        self.writer.base(
            "files/files-0000-0",
            {"__all_partitions__": files_record({".": 0}, 1), ".": files_record(dict(self.names()))},
        )
        self.writer.grouped("column_stats/col-stats-", 2, self.stats)
        self.writer.grouped("partition_stats/partition-stats-", 1, self.parts)
        self.writer.complete(instant(1))
        return hudi_py.open_table(self.table.uri)


@pytest.fixture
def indexed(tmp_path: Path) -> Indexed:
    return Indexed(tmp_path)


def kept(table: hudi_py.Table, condition: str | None = None, **more: Any) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ["first" if s.file_id == FILE_ID else "second" for s in table.scan(filter=condition, **more).splits()]


def ids(table: hudi_py.Table, condition: str) -> list[str]:
    return sorted(table.scan(columns=["id"], filter=condition).to_table()["id"].to_pylist())


def test_slices_whose_bounds_exclude_the_filter_are_left_out(indexed: Indexed) -> None:
    indexed.prices()
    table = indexed.done()
    assert kept(table, "price < 5") == ["first"]
    assert kept(table, "price = 9") == ["second"]
    assert kept(table, "price IN (1, 9)") == ["first", "second"]
    assert kept(table, "price < 0") == []
    assert ids(table, "price < 5") == ["a", "b"]
    # NaN is not among the bounds, and is greater than every number
    assert kept(table, "price > 5") == ["first", "second"]
    off = {"hoodie.enable.data.skipping": "false"}
    assert kept(table, "price < 5", options=off) == ["first", "second"]
    explained = table.scan(filter="price < 5").explain()
    assert "column stats" in explained
    assert "2 -> 1 slices" in explained


def test_slices_without_statistics_stay(indexed: Indexed) -> None:
    indexed.stat("price", f"{FILE_ID}_", 1.0, 2.0, values=2)
    table = indexed.done()
    assert kept(table, "price < 0") == ["second"]
    assert kept(table, "ts < 0") == ["first", "second"]


def test_removed_statistics_do_not_count(indexed: Indexed) -> None:
    indexed.prices()
    indexed.stat("price", f"{FILE_ID}_", 1.0, 2.0, values=2, removed=True)
    assert kept(indexed.done(), "price < 0") == ["first"]


def test_bounds_of_another_type_do_not_count(indexed: Indexed) -> None:
    indexed.stat("price", f"{FILE_ID}_", 1, 2, values=2)
    indexed.stat("ts", f"{OTHER}_", "1", "1", values=2)
    table = indexed.done()
    assert kept(table, "price < 0") == ["first", "second"]
    assert kept(table, "ts < 0") == ["first", "second"]


def test_nulls(indexed: Indexed) -> None:
    indexed.stat("price", f"{FILE_ID}_", 1.0, 2.0, values=2, nulls=0)
    indexed.stat("price", f"{OTHER}_", None, None, values=2, nulls=2)
    table = indexed.done()
    assert kept(table, "price IS NULL") == ["second"]
    assert kept(table, "price IS NOT NULL") == ["first"]
    assert kept(table, "price = 1 OR price IS NULL") == ["first", "second"]


def test_texts_beyond_the_basic_plane_have_no_bounds(indexed: Indexed) -> None:
    indexed.stat("name", f"{FILE_ID}_", "a", "\U00010000", values=2)
    indexed.stat("name", f"{OTHER}_", "a", "b", values=2)
    # Java orders the first one's high bound before U+FFFF, Spark behind it
    assert kept(indexed.done(), "name > 'zz'") == ["first"]


def test_a_slice_with_logs_needs_the_statistics_of_each_log(indexed: Indexed) -> None:
    indexed.table.log(2, [row("a", 2, price=20.0)])
    indexed.table.commit(2)
    indexed.writer.complete(instant(2))
    indexed.prices()
    table = indexed.done()
    assert kept(table, "price < 0") == ["first"]
    assert ids(table, "price < 2") == []


def test_an_older_version_never_surfaces(indexed: Indexed) -> None:
    indexed.table.log(2, [row("a", 2, price=20.0)])
    indexed.table.commit(2)
    indexed.writer.complete(instant(2))
    indexed.prices()
    indexed.stat("price", ".log.", 20.0, 20.0)
    table = indexed.done()
    assert kept(table, "price < 0") == []
    # the base file alone could match, or the log alone: both are read, and the newer version decides
    assert kept(table, "price = 1") == ["first"]
    assert ids(table, "price = 1") == []
    assert kept(table, "price = 20") == ["first"]
    assert ids(table, "price = 20") == ["a"]
    # where versions are not merged, slices with logs stay
    assert kept(table, "price < 0", merge="unmerged") == ["first"]


def test_partition_statistics_leave_out_whole_partitions(indexed: Indexed) -> None:
    for column, low, high in (("ts", 1, 9), ("price", 1.0, 9.0), ("_hoodie_record_key", "a", "d")):
        indexed.parts[partition_stats_key(column, "")] = stats_record(column, low, high, values=4, tight=True)
    table = indexed.done()
    assert kept(table, "ts < 1") == []
    assert "partition stats" in table.scan(filter="ts < 1").explain()
    assert kept(table, "ts = 5") == ["first", "second"]
    # the state of an earlier time has other bounds
    assert kept(table, "ts < 1", as_of=instant(1)) == ["first", "second"]
    # Apache Hudi leaves files out of a partition's bounds which have none of their own
    assert kept(table, "price < 1") == ["first", "second"]
    assert kept(table, "_hoodie_record_key = 'x' AND ts > 0") == []
    assert not [s for s in table.scan(filter="_hoodie_record_key = 'x'").plan().pruning if s.step == "partition stats"]


def test_partition_statistics_which_began_later_do_not_count(indexed: Indexed) -> None:
    indexed.parts[partition_stats_key("ts", "")] = stats_record("ts", 1, 9, values=2)
    indexed.parts[partition_stats_key("_hoodie_record_key", "")] = stats_record(
        "_hoodie_record_key", "a", "d", values=4
    )
    assert kept(indexed.done(), "ts < 1") == ["first", "second"]


def test_bounds_which_are_not_tight_are_joined(indexed: Indexed) -> None:
    for number, (low, high) in enumerate([(1, 2), (5, 6)], 1):
        indexed.writer.log(
            "partition_stats/partition-stats-0000-0",
            instant(number),
            {
                partition_stats_key("ts", ""): stats_record("ts", low, high, values=2),
                partition_stats_key("_hoodie_record_key", ""): stats_record("_hoodie_record_key", "a", "d", values=2),
            },
        )
    indexed.table.commit(2)
    indexed.writer.complete(instant(2))
    table = indexed.done()
    assert kept(table, "ts = 1") == ["first", "second"]
    assert kept(table, "ts < 1") == []


def test_bounds_of_nan(indexed: Indexed) -> None:
    """Apache Hudi 1.2.0 records 0.0 for both bounds of a Parquet file in which there is a NaN."""
    indexed.stat("price", f"{FILE_ID}_", 0.0, 0.0, values=2)
    indexed.stat("price", f"{OTHER}_", -0.0, 0.0, values=2)
    assert kept(indexed.done(), "price < -5") == ["first", "second"]


def test_a_damaged_index_is_passed_over_with_a_warning(indexed: Indexed) -> None:
    indexed.prices()
    table = indexed.done()
    for info in indexed.table.storage.list(".hoodie/metadata/column_stats"):
        indexed.table.storage.put(info.path, b"damaged")
    with pytest.warns(UserWarning, match="column_stats"):
        assert ids(table, "price < 5") == ["a", "b"]


def test_keys_are_looked_for_by_bounds_and_footers(indexed: Indexed) -> None:
    table = indexed.done()
    assert kept(table, keys=["c"]) == ["second"]
    assert kept(table, keys=["a", "d"]) == ["first", "second"]
    assert kept(table, keys=["x"]) == []
    assert kept(table, "id = 'b'") == ["first"]
    assert kept(table, "_hoodie_record_key IN ('c', 'd')") == ["second"]
    assert "footers" in table.scan(keys=["c"]).explain()
    assert [kept(table, keys=[key]) for key in "abcd"] == [["first"], ["first"], ["second"], ["second"]]
    indexed.stat("_hoodie_record_key", f"{FILE_ID}_", "a", "b", values=2)
    indexed.stat("_hoodie_record_key", f"{OTHER}_", "c", "d", values=2)
    assert kept(indexed.done(), keys=["c"]) == ["second"]


SCHEMA = pa.schema([("_hoodie_record_key", pa.string()), ("id", pa.int64()), ("s", pa.string()), ("f", pa.float64())])


@pytest.mark.parametrize(
    ("fields", "condition", "keys"),
    [
        ("id", "id = 5", {"5", "id:5"}),
        ("s", "s IN ('a', 'b') AND f > 1", {"a", "s:a", "b", "s:b"}),
        ("s", "s = ''", {"", "s:__empty__"}),
        ("id,s", "id = 1 AND s = 'x'", {"id:1,s:x"}),
        ("id,s", "id = 1", None),
        ("id", "id > 5", None),
        ("id", "id = 5 OR id = 6", None),
        ("f", "f = 5", None),
        ("id", "id = 1.5", None),
        ("id", "_hoodie_record_key = '7'", {"7"}),
        ("id", "_hoodie_record_key = '7' AND id IN (7, 8)", {"7"}),
        ("id", "id = 1 AND id = 2", set()),
        ("", "id = 1", None),
    ],
)
def test_keys_which_a_filter_asks_for(fields: str, condition: str, keys: set[str] | None) -> None:
    config = TableConfig({"hoodie.table.recordkey.fields": fields})
    assert keys_of_filter(parse_filter(condition, SCHEMA), config, SCHEMA) == keys


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("f < 1", False),
        ("f <= 1", True),
        ("f > 100", True),
        ("f = 0.5", False),
        ("f <=> 3", False),
        ("f IS NULL", False),
        ("f IS NOT NULL", True),
        ("NOT (f < 1)", True),
        ("f < 1 AND s = 'x'", False),
        ("f < 1 OR s = 'x'", True),
    ],
)
def test_bounds_of_floating_columns(condition: str, matches: bool) -> None:
    bounds = Bounds(1.0, 2.0, 0, 10)
    parsed = parse_filter(condition, SCHEMA)
    assert parsed is not None
    found = all(
        may_be_true(node, lambda column: bounds if column.path == ("f",) else None) for node in parsed.conjuncts()
    )
    assert found is matches


def test_row_groups_of_floating_columns(tmp_path: Path) -> None:
    made = MadeTable(str(tmp_path / "t"), mor=False)
    made.base(1, [row("a", 1, price=1.0), row("b", 1, price=math.nan), row("c", 1, price=-0.0)])
    made.commit(1)
    table = hudi_py.open_table(made.uri)
    assert ids(table, "price > 5") == ["b"]
    assert ids(table, "price = 0") == ["c"]
    assert ids(table, "price < 0") == []
    assert ids(table, "price <= 0") == ["c"]


def test_key_bounds_in_footers_include_both_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for keys in (["a", "b"], ["c", "d"]):
        rows = pa.table({"id": keys, "ts": [1, 1]})
        hudi_py.write(path, rows, "bulk_insert", {"hoodie.metadata.enable": "false"}, record_key="id", ordering_by="ts")
    table = hudi_py.open_table(path)
    for key in "abcd":
        scan = table.scan(keys=[key])
        assert scan.to_table()["id"].to_pylist() == [key]
        assert "footers" in scan.explain()


def test_float_constants_are_those_of_the_column(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "f": pa.array([0.1, 5.0], pa.float32()), "p": ["a", "b"]})
    hudi_py.write(str(tmp_path / "t"), rows, record_key="id", partition_by="p")
    table = hudi_py.open_table(str(tmp_path / "t"))
    for condition in (
        "f = 0.1F",
        "0.1F = f",
        "f <= 0.1F",
        "f <=> 0.1F",
        "f IN (0.1F, 7F)",
        "f BETWEEN 0.1F AND 0.1F",
        "f = CAST(0.1 AS FLOAT)",
        "f = CAST('0.1' AS FLOAT)",
        "f < 0.5 AND (f = 0.1F OR id = 7)",
        "NOT f > 0.1F",
    ):
        assert table.scan(columns=["id"], filter=condition).to_table()["id"].to_pylist() == [1], condition
    assert len(table.scan(filter="f = 0.1F").splits()) == 1


def test_dates_and_times_beyond_those_of_python(tmp_path: Path) -> None:
    days = pa.array([5_000_000, 19_000], pa.int32()).cast(pa.date32())
    times = pa.array([2**60, 1], pa.int64()).cast(pa.timestamp("us", "UTC"))
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"day": days, "at": times}), path, row_group_size=1)
    with pq.ParquetFile(path) as file:
        for condition, groups in (
            ("day > '2024-01-01'", [0]),
            ("day <= '2024-01-01'", [1]),
            ("at >= '2024-01-01 00:00:00'", [0]),
            ("at IN ('1970-01-01 00:00:00.000001')", [1]),
        ):
            parsed = parse_filter(condition, file.schema_arrow)
            assert parsed is not None
            assert row_groups_to_read(file, range(2), parsed) == groups


def test_keys_of_an_earlier_time_are_not_looked_up_in_the_record_index(tmp_path: Path) -> None:
    """It has forgotten those that were deleted since."""
    path, off = str(tmp_path / "t"), {"hoodie.clean.automatic": "false"}
    rows = [{"id": f"k{n}", "p": "ab"[n % 2]} for n in range(6)]
    index = {"hoodie.metadata.global.record.level.index.enable": "true", **off}
    first = hudi_py.write(path, rows, record_key="id", partition_by="p", options=index)
    hudi_py.open_table(path, off).delete(rows[3:4])
    table = hudi_py.open_table(path)
    assert "record index" in table.scan(filter="id = 'k3'").explain()
    assert table.scan(filter="id = 'k3'").count() == 0
    assert table.scan(filter="id = 'k3'", as_of=first.instant).to_table()["id"].to_pylist() == ["k3"]
