"""Expression indexes: ranges of a function of a column, of files and partitions."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.file_stats.columns import ValueType
from hudi_py.metadata.table import open_metadata
from hudi_py.metadata_write.encoding.stats_values import stored_ranges
from hudi_py.metadata_write.partitions import expressions
from hudi_py.metadata_write.partitions.column_stats import StatsCheck
from hudi_py.metadata_write.partitions.expressions import Expression
from hudi_py.metadata_write.partitions.partition_stats import PartitionStatsCheck
from hudi_py.storage import LocalStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from tests.golden import tables
from tests.support.choice import cases

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("name", pa.string()), ("day", pa.date32())])
NAMES = [None, "", " Ab", "\u00c4b ", "zZ", "\U0001f388"]
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
    config = load_table_config(storage)
    metadata = open_metadata(storage, config, load_timeline(storage, config))
    assert metadata is not None
    rows = stored_ranges(metadata, None, None, partition=f"expr_index_{name}").to_pylist()
    assert len({row["file"] for row in rows}) == len(rows)
    return {row["file"]: tuple(next(filter(None, row[b].values()), None) for b in ("low", "high")) for row in rows}


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
    table.create_index("low", "name", using="column_stats", index_options={"expr": "lower"})
    table.create_index("of_month", "day", using="column_stats", index_options={"expr": "month"})
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


def test_a_partition_has_the_range_of_all_its_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    apart = {**QUICK, "hoodie.parquet.small.file.limit": "0"}
    for name in "AZ":
        data = pa.table({"id": [name], "p": ["a"], "name": [name]})
        hudi_py.write(str(path), data, "insert", options=apart, record_key="id", partition_by="p")
        if name == "A":
            table = hudi_py.open_table(str(path), QUICK)
            table.create_index("low", "name", using="column_stats", index_options={"expr": "lower"})
    assert ranges(path, "low")["a"] == ("a", "z")


def test_it_is_listed_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = pa.Table.from_pylist(batch(random.Random(1), 5), SCHEMA)
    hudi_py.write(str(path), data, options=QUICK, record_key="id")
    table = hudi_py.open_table(str(path), QUICK)
    table.create_index("cut", "name", using="column_stats", index_options={"expr": "substring", "pos": "1", "len": "2"})
    (listed,) = table.indexes().to_pylist()
    assert listed == {
        "name": "expr_index_cut",
        "kind": "column_stats",
        "columns": ["name"],
        "function": "substring",
        "options": [("expr", "substring"), ("pos", "1"), ("len", "2")],
        "version": "V2",
        "ready": True,
    }
    table.refresh_index("cut")
    assert "" in ranges(path, "cut"), "the one partition of a table without partitions"
    table.upsert(data, options={"hoodie.metadata.index.expression.enable": "false"})
    assert table.indexes().num_rows == 0


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"id": ["1"], "at": pa.array([0], pa.timestamp("us", "UTC")), "name": ["x"]})
    hudi_py.write(path, data, options=QUICK, record_key="id")
    table = hudi_py.open_table(path)
    for column, options, why in (
        ("name", {"expr": "from_unixtime"}, "cannot follow the function 'from_unixtime': it depends on the time zone"),
        ("name", {"expr": "regexp_extract"}, "Java's regular expressions; supported are identity, lower"),
        ("name", {"expr": "soundex"}, "Apache Hudi has no such function"),
        ("name", {"expr": "substring", "pos": "1"}, "takes the options len, pos"),
        ("name", {"expr": "substring", "pos": "1", "len": "x"}, "are no whole numbers"),
        ("at", {"expr": "year"}, "takes columns of dates, or of timestamps without time zone here"),
        ("no", {"expr": "lower"}, "no column 'no'"),
    ):
        with pytest.raises(ConfigError, match=why):
            table.create_index("ix", column, using="column_stats", index_options=options)
    assert "expr_index_ix" not in table.indexes()["name"].to_pylist()


def test_records_are_those_of_apache_hudi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte, of a function that hudi-py follows in no session but that one."""
    path = tables.load()["v9_cow_expression_index"].extract(tmp_path)
    days = expressions._Function(
        ("format",),
        pa.types.is_integer,
        "numbers",
        ValueType.STRING,
        lambda options: lambda values: pc.strftime(values.cast(pa.timestamp("s")), format="%Y-%m-%d"),
    )
    monkeypatch.setattr(expressions, "_FUNCTIONS", {"from_unixtime": days})
    monkeypatch.setattr(StatsCheck, "difference", lambda *_: "they differ")
    monkeypatch.setattr(PartitionStatsCheck, "range_difference", staticmethod(lambda *_: "they differ"))
    (check,) = hudi_py.open_table(str(path)).metadata.verify("expr_index_idx_day").partitions
    assert (check.records, check.missing, check.wrong, check.superfluous) == (6, 0, 0, 0)


DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59)


@pytest.mark.parametrize(
    ("name", "options", "value", "expected"),
    [
        ("lower", {}, "\u0130A\u03a3", "i\u0307a\u03c2"),
        ("upper", {}, "stra\u00dfe", "STRASSE"),
        ("trim", {}, "\t a ", "\t a"),
        ("ltrim", {"trimString": "xy"}, "yxaxy", "axy"),
        ("rtrim", {"trimString": "xy"}, "yxaxy", "yxa"),
        ("length", {}, "a\U0001f388", 2),
        ("substring", {"pos": "0", "len": "2"}, "abc", "ab"),
        ("substring", {"pos": "2", "len": "9"}, "abc", "bc"),
        ("substring", {"pos": "-2", "len": "1"}, "abc", "b"),
        ("substring", {"pos": "-5", "len": "3"}, "abc", "a"),
        ("substring", {"pos": "1", "len": "-1"}, "abc", ""),
        ("year", {}, MOMENT, 1969),
        ("month", {}, DAY, 2),
        ("day", {}, DAY, 29),
        ("hour", {}, MOMENT, 23),
        ("to_date", {}, MOMENT, datetime.date(1969, 12, 31)),
        ("date_add", {"days": "366"}, DAY, datetime.date(2025, 3, 1)),
        ("date_sub", {"days": "60"}, DAY, datetime.date(2023, 12, 31)),
        ("identity", {}, "x", "x"),
    ],
)
def test_functions(name: str, options: dict[str, str], value: Any, expected: Any) -> None:
    expression = Expression(name, {"expr": name, **options})
    kind = pa.timestamp("us") if value is MOMENT else None
    values = pa.array([value, None], kind)
    assert expression.check() == expression.check_column(values.type) == ""
    assert expression.apply(values).to_pylist() == [expected, None]
