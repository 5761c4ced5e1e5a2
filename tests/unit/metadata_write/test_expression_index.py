"""Expression indexes: ranges of a function of a column, of files and partitions."""

from __future__ import annotations

import datetime
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.metadata.table import open_metadata
from hudi_py.metadata_write.encoding.stats_values import stored_ranges
from hudi_py.metadata_write.partitions.column_stats import StatsCheck
from hudi_py.metadata_write.partitions.partition_stats import PartitionStatsCheck
from hudi_py.storage import LocalStorage
from hudi_py.timeline.state import load_state
from tests.golden import tables
from tests.support.choice import cases

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("name", pa.string()), ("day", pa.date32())])
NAMES = [None, "", " Ab", "\u00c4b ", "zZ", "\U0001f388"]
ZONE = "hoodie.py.expression.index.timezone"
QUICK = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}


def batch(chance: random.Random, size: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"k{i}",
            "p": "ab"[i % 2],
            "name": chance.choice(NAMES),
            "day": datetime.date(2024, chance.randrange(1, 13), 3),
        }
        for i in chance.sample(range(20), size)
    ]


def ranges(path: Path, name: str) -> dict[str, tuple[Any, Any]]:
    """The bounds of an index by name of the file or partition."""
    storage = LocalStorage(str(path))
    metadata = open_metadata(load_state(storage))
    assert metadata is not None
    rows = stored_ranges(metadata, None, None, partition=f"expr_index_{name}").to_pylist()
    assert len({row["file"] for row in rows}) == len(rows)
    return {row["file"]: tuple(next(filter(None, row[b].values()), None) for b in ("low", "high")) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "seed"),
    cases([(v, k, s) for v in (8, 9) for k in ("cow", "mor") for s in range(3)], "expression index histories", 1),
)
def test_bounds_hold_the_values_after_every_action(tmp_path: Path, version: int, kind: str, seed: int) -> None:
    path, chance = tmp_path / "t", random.Random(seed)
    data = pa.Table.from_pylist(batch(chance, 10), SCHEMA)
    hudi_py.write(
        str(path), data, options=QUICK, record_key="id", partition_by="p", table_type=kind, table_version=version
    )
    table = hudi_py.open_table(str(path), QUICK)
    table.index("low", "name", using="column_stats", index_options={"expr": "lower"})
    table.index("of_month", "day", using="column_stats", index_options={"expr": "month"})
    table.index("up", "name", using="bloom_filters", index_options={"expr": "upper", "numentries": "50"})
    for step in range(5):
        action = chance.choice(["upsert", "upsert", "delete", "overwrite", "compact", "clean", "rollback"])
        some = pa.Table.from_pylist(batch(chance, 4), SCHEMA)
        if action in ("upsert", "rollback"):
            table.upsert(some)
        if action == "rollback":
            table.rollback(str(table.timeline.write_completed[-1].time))
        elif action == "delete":
            table.delete(some)
        elif action == "overwrite":
            table.insert_overwrite(some)
        elif action == "compact" and kind == "mor":
            table.compact()
        elif action == "clean":
            table.clean(options={"hoodie.clean.commits.retained": "1"})
        assert step % 2 or table.metadata.verify().ok, (step, action, str(table.metadata.verify()))
        low, months = ranges(path, "low"), ranges(path, "of_month")
        for row in table.scan().to_table().to_pylist():
            least, most = months[row["p"]]
            assert least <= row["day"].month <= most, (step, action)
            if row["name"]:
                least, most = low[row["p"]]
                assert (least or "").encode() <= row["name"].lower().encode() <= most.encode(), (step, action)
        text = chance.choice([" AB", "\u00c4B ", "ZZ", "none", ""])
        for condition in (f"lower(name) = '{text.lower()}' OR month(day) = 5", f"upper(name) IN ('{text}', 'x')"):
            assert_pruned_like_whole(table, condition)


def test_a_partition_has_the_range_of_all_its_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    apart = {**QUICK, "hoodie.parquet.small.file.limit": "0"}
    for name in "AZ":
        data = pa.table({"id": [name], "p": ["a"], "name": [name]})
        hudi_py.write(str(path), data, "insert", options=apart, record_key="id", partition_by="p")
        if name == "A":
            table = hudi_py.open_table(str(path), QUICK)
            table.index("low", "name", using="column_stats", index_options={"expr": "lower"})
    assert ranges(path, "low")["a"] == ("a", "z")


@pytest.mark.slow
def test_it_is_listed_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = pa.Table.from_pylist(batch(random.Random(1), 5), SCHEMA)
    hudi_py.write(str(path), data, options=QUICK, record_key="id")
    table = hudi_py.open_table(str(path), QUICK)
    table.index("cut", "name", using="column_stats", index_options={"expr": "substring", "pos": "1", "len": "2"})
    (listed,) = table.indexes.list().to_pylist()
    assert listed == {
        "name": "expr_index_cut",
        "kind": "column_stats",
        "columns": ["name"],
        "function": "substring",
        "options": [("expr", "substring"), ("pos", "1"), ("len", "2")],
        "version": "V2",
        "ready": True,
    }
    table.indexes.refresh("cut")
    assert "" in ranges(path, "cut"), "the one partition of a table without partitions"
    table.upsert(data, options={"hoodie.metadata.index.expression.enable": "false"})
    assert table.indexes.list().num_rows == 0


def test_options_of_a_write_make_one(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = pa.Table.from_pylist(batch(random.Random(1), 5), SCHEMA)
    hudi_py.write(str(path), data, options=QUICK, record_key="id")
    table = hudi_py.open_table(str(path), QUICK)
    asking = {
        "hoodie.metadata.index.expression.column": "day",
        "hoodie.metadata.index.expression.options": "expr=date_add, days=2",
        "hoodie.index.name": "later",
    }
    for _ in range(2):
        table.upsert(data, options=asking)
    (listed,) = table.indexes.list().to_pylist()
    assert (listed["name"], listed["kind"], listed["function"]) == ("expr_index_later", "column_stats", "date_add")
    assert listed["options"] == [("expr", "date_add"), ("days", "2")]
    assert listed["ready"]
    filters = {"hoodie.metadata.index.expression.options": "expr=year", "hoodie.expression.index.type": "BLOOM_FILTERS"}
    table.upsert(data, options={**asking, **filters, "hoodie.index.name": "years"})
    assert table.indexes.list()["kind"].to_pylist() == ["column_stats", "bloom_filters"]
    assert table.metadata.verify().ok
    with pytest.raises(ConfigError, match="expected pairs such as a=b, separated by commas; 'lower' has no value"):
        table.upsert(data, options={**asking, "hoodie.metadata.index.expression.options": "lower"})


def test_filters_of_another_size_are_no_difference(tmp_path: Path) -> None:
    """Apache Hudi makes them for 60,000 keys, hudi-py for those of the file."""
    fixed = {**QUICK, "hoodie.index.bloom.num_entries": "60000"}
    rows = pa.Table.from_pylist(batch(random.Random(1), 12), SCHEMA)
    hudi_py.write(tmp_path / "t", rows, options=fixed, record_key="id", partition_by="p")
    hudi_py.open_table(tmp_path / "t", fixed).index(
        "up", "name", using="bloom_filters", index_options={"expr": "upper"}
    )
    for options in (fixed, QUICK):
        report = hudi_py.open_table(tmp_path / "t", options).metadata.verify()
        assert report.ok, str(report)


def test_what_apache_hudi_refuses_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"id": ["1"], "n": [1], "name": ["x"], "b": [b"x"]})
    hudi_py.write(path, data, options=QUICK, record_key="id")
    table = hudi_py.open_table(path)
    for column, options, why in (
        ("name", {}, "column_stats of the column itself belong to hoodie.metadata.index.column.stats.column.list"),
        ("name", {"expr": "soundex"}, "there is no function 'soundex'"),
        ("name", {"expr": "substring", "pos": "1"}, "the function substring lacks the option 'len'"),
        ("name", {"expr": "substring", "pos": "1", "len": "x"}, "len = 'x' is no whole number"),
        ("name", {"expr": "lower", "format": "x"}, "has no option 'format'; its options are none"),
        ("name", {"expr": "lower", "fpp": "0.1"}, "column_stats has no option 'fpp'"),
        ("name", {"expr": "date_format", "format": "VV"}, "the pattern 'VV' has VV, which is not supported here"),
        ("name", {"expr": "regexp_extract", "pattern": "(a", "idx": "1"}, "is not valid, or not supported"),
        ("name", {"expr": "split", "pattern": "a"}, "which has no order; use bloom_filters"),
        ("n", {"expr": "year"}, "takes columns of dates, timestamps and texts, not int64"),
        ("no", {"expr": "lower"}, "no column 'no'"),
    ):
        with pytest.raises(ConfigError, match=re.escape(why)):
            table.index("ix", column, using="column_stats", index_options=options)
    for column, options, why in (
        ("b", {}, "values of the type binary have none"),
        ("n", {"fpp": "x"}, "'x'"),
        ("n", {"filtertype": "x"}, "'x'"),
    ):
        with pytest.raises(ConfigError, match=re.escape(why)):
            table.index("ix", column, using="bloom_filters", index_options=options)
    with pytest.raises(ConfigError, match="there is no time zone 'Mars'"):
        table.index("ix", "n", using="column_stats", options={ZONE: "Mars"})
    assert "expr_index_ix" not in table.indexes.list()["name"].to_pylist()


def test_ranges_are_those_of_apache_hudi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte."""
    path = tables.load()["v9_cow_expression_index"].extract(tmp_path)
    monkeypatch.setattr(StatsCheck, "difference", lambda *_: "they differ")
    monkeypatch.setattr(PartitionStatsCheck, "range_difference", staticmethod(lambda *_: "they differ"))
    (check,) = hudi_py.open_table(str(path)).metadata.verify("expr_index_idx_day").partitions
    assert (check.records, check.missing, check.wrong, check.superfluous) == (6, 0, 0, 0)


@pytest.mark.slow
def test_another_type_of_the_column_rebuilds_it(tmp_path: Path) -> None:
    """The text of 1 is 1.0 once the column is DOUBLE."""
    path = str(tmp_path / "t")
    wide = {**QUICK, "hoodie.py.write.widen.columns": "true", "hoodie.parquet.small.file.limit": "0"}
    for n, kind in ((1, pa.int32()), (2, pa.int32())):
        data = pa.table({"id": [str(n)], "n": pa.array([n], kind)})
        hudi_py.write(path, data, "insert", options=wide, record_key="id")
    table = hudi_py.open_table(path, wide)
    table.index("as_text", "n", using="bloom_filters", index_options={"expr": "lower"})
    table.index("ranges", "n", using="column_stats", index_options={"expr": "length"})
    for n in (3.5, 4.5):
        table.insert(pa.table({"id": [str(n)], "n": [n]}))
        for condition in ("lower(n) = '1.0'", "lower(n) = '1'", "length(n) = 3", "length(n) = 1"):
            assert_pruned_like_whole(table, condition)
    assert table.metadata.verify().ok
    assert all(table.indexes.list()["ready"].to_pylist())


def test_slices_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    apart = {**QUICK, "hoodie.parquet.small.file.limit": "0"}
    for n in range(4):
        data = pa.table({"id": [str(n)], "p": ["a"], "name": [f"N{n}"], "at": [n * 86400]})
        hudi_py.write(str(path), data, "insert", options=apart, record_key="id", partition_by="p")
    table = hudi_py.open_table(str(path), QUICK)
    for name, column, kind, options in (
        ("low", "name", "column_stats", {"expr": "lower"}),
        ("up", "name", "bloom_filters", {"expr": "upper"}),
        ("date", "at", "column_stats", {"expr": "from_unixtime", "format": "yyyy-MM-dd"}),
    ):
        table.index(name, column, using=kind, index_options=options)

    def skipped(condition: str, **options: str) -> int:
        assert_pruned_like_whole(table, condition, **options)
        text = table.scan(filter=condition, options=options).explain()
        found = re.search(r"expression index +(\d+) -> (\d+) slices", text)
        return 0 if found is None else int(found[1]) - int(found[2])

    assert skipped("lower(name) = 'n2'") == skipped("lower(name) > 'n2'") == 3
    assert skipped("upper(name) IN ('N1', 'N3')") == 2
    assert skipped("lower(name) = 'n1' OR name = 'N3'") == 0
    assert skipped("lower(name) IS NULL") == 4
    assert skipped("trim(name) = 'n2'") == 0
    date = "from_unixtime(at, 'yyyy-MM-dd') = '1970-01-02'"
    assert skipped(date) == skipped(date, **{ZONE: "Europe/Oslo"}) == 0, "the zone of the writers may be another one"
    assert skipped(date, **{ZONE: "UTC"}) == 3
    assert skipped("from_unixtime(at, 'yyyy-MM') = '1970-02'", **{ZONE: "UTC"}) == 0, "another pattern"


def assert_pruned_like_whole(table: Any, condition: str, **options: str) -> None:
    found = table.scan(filter=condition, options=options).to_table()
    whole = table.scan(filter=condition, options={"hoodie.enable.data.skipping": "false"}).to_table()
    assert sorted(found["id"].to_pylist()) == sorted(whole["id"].to_pylist()), condition
