"""Key generators: the keys, paths and properties that Apache Hudi writes, and tables that both write by turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.model.properties import parse_properties
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import cases

T = TypeVar("T")

CLASS = "hoodie.datasource.write.keygenerator.class"
DATES = "hoodie.keygen.timebased."
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
SLASHED = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}


@dataclass(frozen=True)
class Layout:
    """Options of a table."""

    partition: str
    options: Mapping[str, str] = field(default_factory=dict)
    key: str | None = "id"
    ordering: str | None = "o"

    @property
    def unlike(self) -> frozenset[str]:
        """Partition columns that Apache Hudi 1.2.0 shows as text, whatever their type."""
        return frozenset({self.partition} if self.options.get(CLASS, "").endswith("TimestampBasedKeyGenerator") else ())

    @property
    def dated(self) -> frozenset[str]:
        """Partition columns of dates."""
        fields = (text.partition(":") for text in self.partition.split(","))
        return self.unlike | {name for name, _, kind in fields if kind.upper() == "TIMESTAMP"}

    @property
    def unread(self) -> frozenset[str]:
        """Columns that it cannot read at all."""
        return self.unlike & {"ts"}


def dated(column: str, kind: str, output: str, /, *, extra: Mapping[str, str] | None = None, **more: str) -> Layout:
    """A table with a timestamp key generator. `more`: names of options, with underscores for dots."""
    own = {DATES + name.replace("_", "."): text for name, text in more.items()}
    options = {DATES + "timestamp.type": kind, DATES + "output.dateformat": output, **own, **(extra or {})}
    return Layout(column, {CLASS: "org.apache.hudi.keygen.TimestampBasedKeyGenerator", **options})


def custom(partition: str, extra: Mapping[str, str] | None = None, key: str = "id", **more: str) -> Layout:
    options = {DATES + name.replace("_", "."): text for name, text in more.items()}
    return Layout(partition, {CLASS: "org.apache.hudi.keygen.CustomKeyGenerator", **options, **(extra or {})}, key)


TEXTS = {"timestamp_type": "DATE_STRING", "input_dateformat": "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd"}
SECONDS = dated("sec", "UNIX_TIMESTAMP", "yyyy/MM/dd")
LAYOUTS = {
    "seconds": SECONDS,
    "seconds of a zone": dated("sec", "UNIX_TIMESTAMP", "yyyy-MM-dd HH", timezone="America/New_York", extra=HIVE),
    "encoded": dated("sec", "UNIX_TIMESTAMP", "yyyy/MM", output_timezone="GMT+8:00", extra={**HIVE, **ENCODED}),
    "milliseconds": dated("ms", "EPOCHMILLISECONDS", "'year='yyyy/'month='MM"),
    "microseconds": dated("us", "EPOCHMICROSECONDS", "yyyyMMddHHmmss"),
    "days": dated("d", "SCALAR", "yyyy/MM/dd", timestamp_scalar_time_unit="days"),
    "hours": dated("i", "SCALAR", "yyyy-DDD", timestamp_scalar_time_unit="HOURS"),
    "decimal": dated("dec", "UNIX_TIMESTAMP", "yyyy.MM.dd"),
    "double": dated("f", "UNIX_TIMESTAMP", "yyyy-MM-dd"),
    "timestamp": dated("ts", "EPOCHMICROSECONDS", "yyyy-MM-dd"),
    "texts": dated("at", "DATE_STRING", "yyyy/MM/dd/HH", input_dateformat="yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd"),
    "texts of a zone": dated(
        "at",
        "MIXED",
        "xxxx-'W'ww",
        input_dateformat="yyyy-MM-dd'T'HH:mm:ssZ;yyyy-MM-dd",
        input_dateformat_list_delimiter_regex=";",
        input_timezone="Asia/Tokyo",
        output_timezone="UTC",
    ),
    "custom": Layout(
        "city:SIMPLE,day:TIMESTAMP", {**custom("", output_dateformat="yyyy/MM", **TEXTS).options, **ENCODED}
    ),
    "custom and hive": Layout(
        "day:timestamp,city:simple", {**custom("", output_dateformat="yyyy-MM", **TEXTS).options, **HIVE}
    ),
    "custom timestamp": custom("ts:TIMESTAMP", output_dateformat="yyyy-MM-dd", timestamp_type="EPOCHMICROSECONDS"),
    "custom simple": custom("city:SIMPLE", key="id,k"),
    "custom without": custom(""),
    "slashed": Layout("day", SLASHED),
    "slashed complex": Layout("day", SLASHED, key="id,k"),
    "struct": Layout("s.p", key="s.k", ordering="s.o"),
    "struct complex": Layout("s.p,city", {**HIVE}, key="s.k,id", ordering="s.o"),
    "struct of dates": Layout("s.at", dated("", "DATE_STRING", "yyyy-MM", input_dateformat="yyyy-MM-dd").options),
    "timestamps as text": Layout(
        "city", {"hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "true"}, key="ts,id"
    ),
    "without partitions": Layout("", key="s.k,id"),
    "generated": Layout("city", key=None, ordering=None),
    "generated and dated": Layout("sec", SECONDS.options, key=None, ordering=None),
}
KEPT = re.compile(r"hoodie\.(table\.(recordkey|partition|ordering|precombine)\.fields?|keygen\.|.*slash\.separated)")
META = ("_hoodie_partition_path", "_hoodie_record_key")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("k", pa.int64()),
        ("city", pa.string()),
        ("day", pa.string()),
        ("at", pa.string()),
        ("d", pa.date32()),
        ("sec", pa.int64()),
        ("ms", pa.int64()),
        ("us", pa.int64()),
        ("i", pa.int32()),
        ("dec", pa.decimal128(20, 2)),
        ("f", pa.float64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("s", pa.struct([("k", pa.string()), ("p", pa.string()), ("at", pa.string()), ("o", pa.int64())])),
        ("o", pa.int64()),
        ("v", pa.int64()),
    ]
)
TIMES = [
    datetime(2024, 2, 29, 23, 30, 15, 123456, timezone.utc),
    datetime(1969, 12, 31, 23, 59, 59, 999500, timezone.utc),
    datetime(2023, 7, 1, 0, 0, 0, 0, timezone.utc),
    datetime(2026, 11, 1, 5, 30, 0, 7, timezone.utc),
    None,
]


def rows(*numbers: int, turn: int) -> pa.Table:
    """The rows of some numbers, each of a time; `turn` is newer than those before it."""
    return pa.Table.from_pylist([row(number, TIMES[number % len(TIMES)], turn) for number in numbers], SCHEMA)


def row(number: int, time: datetime | None, turn: int) -> dict[str, Any]:
    known = {
        "id": f"r{number}",
        "k": number,
        "city": None if number % 5 == 4 else f"city {number % 2}",
        "s": {"k": f"k{number}", "p": [None, "x", "y"][number % 3], "at": time and f"{time:%Y-%m-%d}", "o": turn},
        "o": turn,
        "v": 100 * turn + number,
    }
    if time is None:
        return known
    micros = (time - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    seconds = micros // 1_000_000
    return known | {
        "day": f"{time:%Y-%m-%d}",
        "at": f"{time:%Y-%m-%d}" if number % 2 else f"{time:%Y-%m-%dT%H:%M:%S}{'+05:30' if number % 4 else 'Z'}",
        "d": time.date(),
        "sec": seconds,
        "ms": micros // 1_000,
        "us": micros,
        "i": seconds // 3_600,
        "dec": seconds + Decimal("0.75"),
        "f": seconds + 0.5,
        "ts": time,
    }


def ours(path: str, data: pa.Table, layout: Layout, **more: Any) -> None:
    table = {"record_key": layout.key, "ordering_by": layout.ordering, "partition_by": layout.partition}
    hudi_py.write(
        path, data, None, {**layout.options, **QUICK}, **{name: text for name, text in table.items() if text}, **more
    )


def theirs(oracle: Oracle, path: str, data: pa.Table, layout: Layout, **more: Any) -> None:
    operation = "upsert" if layout.key else "insert"
    names = {"key": layout.key, "ordering": layout.ordering, "partition": layout.partition}
    oracle.write(path, data, operation, **names, options=dict(layout.options), **more)


def properties(path: str) -> dict[str, str]:
    text = Path(path, ".hoodie", "hoodie.properties").read_text("iso-8859-1")
    found = parse_properties(text)
    generator = found.get("hoodie.table.keygenerator.type") or found["hoodie.table.keygenerator.class"]
    generator = {"TimestampBased": "TIMESTAMP", "Nonpartitioned": "NON_PARTITION"}.get(
        short := generator.rpartition(".")[2].removesuffix("KeyGenerator"), short
    )
    kept = {key.replace("precombine.field", "ordering.fields"): text for key, text in found.items() if KEPT.match(key)}
    return {**kept, "generator": generator.upper()}


def snapshot(table: pa.Table, layout: Layout, unread: frozenset[str] = frozenset()) -> list[tuple[Any, ...]]:
    """Rows with their key and partition, in order; generated keys without what each side chooses."""
    names = [*META, *(name for name in SCHEMA.names if name not in unread)]
    columns = [table[name].to_pylist() for name in names]
    if layout.key is None:
        assert all(re.fullmatch(r"\d{17}_\d+_\d+", key) for key in columns[1])
        columns[1] = [""] * len(columns[1])
    return sorted(zip(*columns, strict=True), key=repr)


def check_filters(path: str, layout: Layout) -> None:
    """Filters on partition columns find what they find without leaving out partitions."""
    table = hudi_py.open_table(path)
    whole = table.scan().to_table()
    for name in (text.partition(":")[0] for text in layout.partition.split(",") if text):
        if name not in SCHEMA.names:
            continue
        for value in whole[name].unique().drop_null().to_pylist():
            constant = pa.scalar(value, whole[name].type)
            for compare in (pc.equal, pc.less, pc.greater_equal):
                found = table.scan(filter=compare(pc.field(name), constant)).to_table()
                expected = whole.filter(compare(whole[name], constant))
                assert sorted(found["v"].to_pylist()) == sorted(expected["v"].to_pylist()), (name, compare, value)
        assert table.scan(filter=f"{name} IS NULL").to_table().num_rows == whole[name].null_count


def answered(ask: Callable[[str], T], mine: str, other: str) -> T | None:
    """Apache Hudi's answer for our table; None where it fails for its own table too: partitions of the timestamp key
    generator may have colons in their names, or values that it cannot read as the column's type."""
    try:
        return ask(mine)
    except OracleError:
        with pytest.raises(OracleError):
            ask(other)
        return None


@pytest.mark.parametrize(
    ("name", "version", "kind"),
    [
        pytest.param(*param.values, marks=[*param.marks, *([] if param.marks else [pytest.mark.slow])])
        for param in cases(
            [(name, version, kind) for name in LAYOUTS for version in (6, 8, 9) for kind in ("cow", "mor")],
            "key generators",
            1,
        )
    ],
)
def test_both_write_the_same(oracle: Oracle, tmp_path: Path, name: str, version: int, kind: str) -> None:
    layout = LAYOUTS[name]
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    first = rows(0, 1, 2, 3, 4, turn=0)
    ours(mine, first, layout, table_type=kind, table_version=version)
    theirs(oracle, other, first, layout, type=kind, table_version=version)
    slashed = SLASHED.items() <= layout.options.items()
    # Apache Hudi stores this option with the statement CREATE TABLE only, and then shows dates with dashes
    assert properties(mine) == properties(other) | (SLASHED if slashed else {})
    unread = frozenset({"day"} if slashed else ())
    shown = [*META, *(column for column in SCHEMA.names if column not in layout.unread)]
    second, third = rows(3, 4, 5, 6, turn=1), rows(0, 6, 7, turn=2)
    for turn in (0, 1, 2):
        if turn == 1:
            theirs(oracle, mine, second, layout)
            theirs(oracle, other, second, layout) if slashed else ours(other, second, layout)
        elif turn == 2:
            ours(mine, third, layout)
            theirs(oracle, other, third, layout)
        table = hudi_py.open_table(mine).scan().to_table()
        assert snapshot(table, layout, unread) == snapshot(hudi_py.open_table(other).scan().to_table(), layout, unread)
        read = answered(lambda path: oracle.read(path, columns=shown), mine, other)
        if read is not None:
            assert snapshot(read, layout, layout.unlike) == snapshot(table, layout, layout.unlike), turn
        check_filters(mine, layout)
    try:
        report = answered(lambda path: oracle.check(path, deep=not layout.unlike), mine, other)
    except pytest.fail.Exception:
        # It takes texts with colons for addresses where they are values of partitions, in its own tables too. Whether
        # the check asks for such a row depends on the order of the files.
        colons = [text for text in table["at"].to_pylist() if text is not None and ":" in text]
        with pytest.raises(OracleError, match="URISyntaxException"):
            oracle.read(other, where=f"at = '{colons[0]}'")
        return
    if report is None:
        return
    # Apache Hudi 1.2.0 compares a column with the date in the path, in its own tables too
    assert [text for text in report["problems"] if not layout.dated & {*text.split()}] == []
