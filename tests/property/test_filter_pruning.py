"""Whatever a filter asks for, leaving out files and row groups loses no row: pruned answers equal unpruned ones.

Constants come from the data, their neighbours, and as literals of other types.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hudi_py
from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions import Filter, parse_filter
from hudi_py.read.pruning.bounds import row_groups_to_read

D = decimal.Decimal
SINGLE = np.float32
_MIDNIGHT = datetime.datetime(1970, 1, 1)
_DAYS = [0, -1, 19723, 19782, 2932896, -719162]
_MICROS = [0, -1, 1, 1_704_067_200_000_000, 1_704_067_200_000_001, 253_402_300_799_999_999, -62_135_596_800_000_000]
_FURTHER = [5_000_000, -5_000_000]
"""Days after and before what Python's dates reach."""

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [0, 1, -1, 5, 16777217, 2**31 - 1, -(2**31)]),
    "l": (pa.int64(), [0, 1, -1, 5, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "f": (pa.float32(), [0.1, 0.0, -0.0, 1.0, 16777216.0, 3e38, -1.5, math.nan, math.inf, -math.inf]),
    "d": (pa.float64(), [0.1, 0.0, -0.0, 1.0, 2.0**53, 1e300, 5e-324, math.nan, math.inf, -math.inf]),
    "n": (pa.decimal128(7, 2), [D("0.10"), D("1.50"), D("-1.00"), D("3.30"), D("99999.99"), D("0.00")]),
    "m": (pa.decimal128(18, 6), [D("0.1"), D("1.5"), D("-1"), D("999999999999.999999")]),
    "w": (pa.decimal128(38, 18), [D("0.1"), D("1.000000000000000001"), D("-1"), D("99999999999999999999")]),
    "t": (pa.string(), ["", "a", "a" * 80, "a" * 80 + "b", "é", "Z", "\uffff", "\U0001f600", "a\nb", "5"]),
    "b": (pa.bool_(), [True, False]),
    "x": (pa.binary(), [b"", b"a", b"\x00", b"\xff\xfe"]),
    "c": (pa.date32(), [*_DAYS, *_FURTHER]),
    "z": (pa.timestamp("us", "UTC"), [*_MICROS, *(day * 86_400_000_000 for day in _FURTHER)]),
    "y": (pa.timestamp("us"), [*_MICROS, *(day * 86_400_000_000 for day in _FURTHER)]),
    "e": (pa.timestamp("us", "Asia/Kolkata"), _MICROS),
    "s": (pa.timestamp("ms", "UTC"), [micros // 1000 for micros in _MICROS]),
}
"""Column to its type and values; dates and timestamps as counts."""


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)


def spellings(value: Any, kind: pa.DataType) -> list[str]:
    """A value of a column, and its neighbours, as literals of several types."""
    if pa.types.is_boolean(kind):
        return [str(value).upper(), f"'{value}'"]
    if pa.types.is_binary(kind):
        return [f"X'{value.hex()}'"]
    if pa.types.is_string(kind):
        texts = [value, value[:-1], value[:64], value + "\x00", value + "z"]
        return ["'" + text.replace("\x00", "\\0").replace("\n", "\\n") + "'" for text in texts]
    if pa.types.is_date32(kind):
        return [text for days in (value, value - 1, value + 1) for text in _times(days * 86_400_000_000)]
    if pa.types.is_timestamp(kind):
        micros = value * 1000 if kind.unit == "ms" else value
        return [text for near in (micros, micros - 1, micros + 1) for text in _times(near)]
    if pa.types.is_decimal(kind):
        step = D(1).scaleb(-kind.scale)
        return [text for near in (value, value - step, value + step / 10) for text in _numbers(near)]
    if pa.types.is_float32(kind):
        one = SINGLE(value)
        with np.errstate(all="ignore"):
            near = [float(np.nextafter(one, SINGLE(to))) for to in (-math.inf, math.inf)]
        shortest = [f"{one!s}F", f"{one!s}D", f"{one!s}"] if math.isfinite(value) and "e" not in str(one) else []
        return [*shortest, *(text for number in (float(one), *near) for text in _numbers(number))]
    if pa.types.is_float64(kind):
        near = [math.nextafter(value, to) if _NEXTAFTER else value for to in (-math.inf, math.inf)]
        return [text for number in (value, *near) for text in _numbers(number)]
    return [text for near in (value, value - 1, value + 1) for text in _numbers(near)]


_NEXTAFTER = hasattr(math, "nextafter")


def _numbers(number: int | float | D) -> list[str]:
    quoted = [f"CAST('{number}' AS DOUBLE)", f"CAST('{number}' AS FLOAT)", f"'{number}'"]
    if isinstance(number, float) and not math.isfinite(number):
        return quoted
    exact = f"{D(number):f}"
    plain = [exact, f"{exact}D", f"{exact}F"] if len(exact) < 60 else []
    return [*quoted, *plain, f"CAST('{number}' AS DECIMAL(38,6))", f"CAST('{number}' AS DECIMAL(9,2))"]


def _times(micros: int) -> list[str]:
    try:
        stamp = _MIDNIGHT + datetime.timedelta(microseconds=micros)
        east = (stamp + datetime.timedelta(hours=5, minutes=30)).isoformat(" ")
    except OverflowError:
        return ["DATE '9999-12-31'", "TIMESTAMP '0001-01-01 00:00:00'"]
    text = stamp.isoformat(" ")
    day = stamp.date().isoformat()
    return [f"DATE '{day}'", f"TIMESTAMP '{text}'", f"TIMESTAMP_NTZ '{text}'", f"TIMESTAMP '{east}+05:30'", f"'{text}'"]


@st.composite
def conditions(draw: st.DrawFn, columns: list[str], depth: int = 1) -> str:
    if depth and draw(st.integers(0, 3)) == 0:
        left, right = draw(conditions(columns, depth - 1)), draw(conditions(columns, depth - 1))
        return f"({left}) {draw(st.sampled_from(['AND', 'OR', 'AND NOT', 'OR NOT']))} ({right})"
    name = draw(st.sampled_from(columns))
    # one constant in eight is of another column's type
    source = draw(st.sampled_from(columns)) if draw(st.integers(0, 7)) == 0 else name

    def constant() -> str:
        kind, values = KINDS[source]
        return draw(st.sampled_from(spellings(draw(st.sampled_from(values)), kind)))

    shape = draw(st.integers(0, 9))
    if shape == 0:
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if shape == 1:
        return f"{name} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {constant()} AND {constant()}"
    if shape in (2, 3):
        items = [constant() for _ in range(draw(st.integers(1, 3)))] + ["NULL"] * draw(st.integers(0, 1))
        return f"{name} {draw(st.sampled_from(['', '', 'NOT ']))}IN ({', '.join(items)})"
    operator = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "<=>", "<>"]))
    return f"{name} {operator} {constant()}" if shape < 9 else f"{constant()} {operator} {name}"


def parsed(text: str, schema: pa.Schema) -> Filter | None:
    """The filter; None where it is refused, as most constants of another type are."""
    try:
        return parse_filter(text, schema)
    except ConfigError:
        return None


QUICK = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
THOROUGH = settings(QUICK, max_examples=3_000)


def check_row_groups(draw: Callable[[st.SearchStrategy[Any]], Any], count: dict[str, int]) -> None:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2, unique=True))
    groups = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 3))
        cells = {name: [draw(st.sampled_from([*KINDS[name][1], None])) for _ in range(size)] for name in names}
        groups.append(pa.table({name: column_of(cells[name], KINDS[name][0]) for name in names}))
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, groups[0].schema, store_decimal_as_integer=draw(st.booleans())) as writer:
        for group in groups:
            writer.write_table(group)
    text = draw(conditions(names))
    condition = parsed(text, groups[0].schema)
    if condition is None:
        return
    count["answered"] += 1
    kept = row_groups_to_read(pq.ParquetFile(sink), range(len(groups)), condition)
    count["left out"] += len(groups) - len(kept)
    for number, group in enumerate(groups):
        assert number in kept or not condition.evaluate(group).true_count, (text, group)


TOKENS = [
    *KINDS, "=", "<", "<=>", "!=", "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "LIKE", "(", ")", ",",
    "1", "0.1F", "1e999", "'a'", "''", "'2024-01-01'", "-", "+", "*", "/", "!", ".", "5L", "X'1'", "DATE", "TIMESTAMP",
    "`i`", "CAST(", "AS FLOAT)", "AS DECIMAL(3,1))", "AS DATE)", ";", ":", "[0]", "--", "/*", "\\", "\x00",
]  # fmt: skip


@QUICK
@given(st.lists(st.sampled_from(TOKENS), max_size=8))
def test_any_text_is_a_filter_or_refused(tokens: list[str]) -> None:
    schema = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
    with contextlib.suppress(ConfigError, SchemaMismatchError):
        found = parse_filter(" ".join(tokens), schema)
        assert found is not None
        assert len(found.evaluate(schema.empty_table())) == 0


SHAPES = ["= {0}", "<= {0}", ">= {0}", "IN ({0}, NULL)", "<=> {0}", "BETWEEN {0} AND {0}"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", KINDS)
def test_each_value_and_its_neighbours(name: str) -> None:
    kind, values = KINDS[name]
    schema, sink = pa.schema([(name, kind)]), io.BytesIO()
    cells = [[value] for value in values] + [[value, values[at - 1]] for at, value in enumerate(values)]
    groups = [pa.table([column_of(some, kind)], schema) for some in cells]
    group_of = np.repeat(np.arange(len(groups)), [len(some) for some in cells])
    with pq.ParquetWriter(sink, schema) as writer:
        for group in groups:
            writer.write_table(group)
    file, everything = pq.ParquetFile(sink), pa.concat_tables(groups)
    texts = dict.fromkeys(text for value in values for text in spellings(value, kind))
    answered = 0
    for at, text in enumerate(texts):
        for shape in (SHAPES[0], SHAPES[1 + at % 5]):
            condition = parsed(f"{name} {shape.format(text)}", schema)
            if condition is not None:
                answered += 1
                true = group_of[pc.indices_nonzero(condition.evaluate(everything))]
                assert set(true) <= set(row_groups_to_read(file, range(len(groups)), condition)), condition.text
    assert answered > len(values)


@pytest.mark.parametrize(
    "effort", [QUICK, pytest.param(THOROUGH, marks=pytest.mark.nightly)], ids=["quick", "thorough"]
)
def test_row_groups(effort: settings) -> None:
    count = {"answered": 0, "left out": 0}

    @effort
    @given(st.data())
    def check(data: st.DataObject) -> None:
        check_row_groups(data.draw, count)

    check()
    assert count["answered"] > effort.max_examples // 3
    assert count["left out"] > effort.max_examples // 5


TABLE_KINDS = {name: kind for name, (kind, _) in KINDS.items() if name not in ("e", "s")}
"""Columns of the tables: Apache Hudi has timestamps in microseconds, of UTC or of no zone."""
INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
}
# A global record index takes keys for distinct, which those of "text partitions" are not.
KEYLESS_INDEXES = {name: value for name, value in INDEXES.items() if "record" not in name}
URL_ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
HIVE_STYLE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "5"}
TABLES: dict[str, dict[str, Any]] = {
    "mor": {"record_key": "id", "partition_by": "p", "table_type": "mor", "options": INDEXES},
    "typed partitions": {
        "record_key": "id",
        "partition_by": ["i", "b", "c", "n"],
        "options": {**INDEXES, **HIVE_STYLE},
    },
    "text partitions": {"record_key": "l", "partition_by": "t", "options": {**KEYLESS_INDEXES, **URL_ENCODED}},
    "text keys": {"record_key": ["t", "i"], "partition_by": "b", "options": INDEXES},
    "buckets": {"record_key": "l", "table_type": "mor", "options": {**KEYLESS_INDEXES, **BUCKETS}},
}

QUICK_TABLES = ("mor", "typed partitions")


def rows_of(first: int, count: int, step: int) -> pa.Table:
    """Rows whose values go round those of each kind; keys and partitions are never null."""
    cells: dict[str, pa.Array] = {"id": pa.array(range(first, first + count), pa.int64())}
    for name, kind in TABLE_KINDS.items():
        values = KINDS[name][1]
        if pa.types.is_temporal(kind):
            values = values[:6]  # within what Apache Hudi's own statistics hold
        some = values if name in "iltbcn" else [*values, None]
        cells[name] = column_of([some[(at // step) % len(some)] for at in range(first, first + count)], kind)
    return pa.table({**cells, "p": pa.array([first // 4] * count, pa.int32()), "ts": pa.array([1] * count, pa.int64())})


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * name.startswith(("text", "bucket"))) for name in TABLES],
)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[hudi_py.Table, pa.Table]:
    """A table of several partitions and file groups, and all its rows."""
    path, how = str(tmp_path_factory.mktemp("pruned") / "t"), dict(TABLES[request.param])
    options = how.pop("options")
    for first in range(0, 20, 4):
        hudi_py.write(path, rows_of(first, 4, 1), "upsert", options, ordering_by="ts", **how)
    changed = rows_of(0, 2, 1).set_column(3, "f", column_of([0.1, math.nan], pa.float32()))
    hudi_py.write(path, changed, "upsert", options)
    found = hudi_py.open_table(path)
    return found, found.scan().to_table()


@pytest.mark.slow
@pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.nightly)])
def test_tables(table: tuple[hudi_py.Table, pa.Table], examples: int) -> None:
    found, rows = table
    count = {"answered": 0, "left out": 0}
    slices = len(found.scan().splits())

    @settings(QUICK, max_examples=examples)
    @given(conditions(list(TABLE_KINDS)))
    def check(text: str) -> None:
        condition = parsed(text, found.schema)
        if condition is None:
            return
        scan = found.scan(columns=["id"], filter=text)
        count["answered"] += 1
        count["left out"] += slices - len(scan.splits())
        expected = rows.filter(condition.evaluate(rows))["id"].to_pylist()
        assert sorted(scan.to_table()["id"].to_pylist()) == sorted(expected), text

    check()
    assert count["answered"] > examples // 3
    assert count["left out"] > examples // 3
