"""What files hold, as Apache Hudi reads it: changed columns, ORC, partition columns, bootstrapped files."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn
from tests.unit.read.tables import MadeTable

pytestmark = pytest.mark.slow

WRITE = "hoodie.datasource.write."
KEYGEN = "org.apache.hudi.keygen."
NO_METADATA = {"hoodie.metadata.enable": "false"}
TABLES = [("cow", 9), ("mor", 9), ("mor", 6)]


def compare(oracle: Oracle, path: Path, options: Mapping[str, str] | None = None) -> None:
    """Snapshot and read-optimized query of a table by both."""
    for kind in ("snapshot", "read_optimized"):
        expected = oracle.read(path, query_type=kind, options=options)
        scan = hudi_py.open_table(str(path)).scan(query_type=kind)
        rows = scan.to_table()
        assert_rows_equal(rows, expected)
        assert rows.column_names == expected.column_names
        assert scan.count() == expected.num_rows > 0


# ---- promotions

I32, I64, F32, F64, TEXT, DATE = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.date32()
VALUES: Mapping[pa.DataType, Sequence[Any]] = {
    I32: [1, -7, 2147483647, None],
    I64: [10, -70, 9007199254740993, None],
    F32: [1.1, -3.4e38, 1e10, None],
    F64: [1.1, -1e300, 1e-7, None],
    TEXT: ["a", "é", "", None],
    pa.binary(): [b"a", "é".encode(), b"", None],
    DATE: [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), datetime.date(1999, 1, 1), None],
}
PAIRS = [(I32, I64), (I32, F32), (I32, F64), (I32, TEXT), (I64, F32), (I64, F64), (I64, TEXT), (F32, F64), (F32, TEXT)]
PAIRS += [(F64, TEXT), (pa.binary(), TEXT), (TEXT, pa.binary()), (TEXT, DATE)]
DECIMALS = [(pa.decimal128(5, 2), pa.decimal128(*wider)) for wider in ((10, 2), (10, 4), (30, 10))]


def values(kind: pa.DataType, count: int) -> list[Any]:
    if pa.types.is_decimal(kind):
        step = Decimal(1).scaleb(-kind.scale)
        found: Sequence[Any] = [Decimal("1.25").quantize(step), Decimal("-3.5").quantize(step), None]
    else:
        found = VALUES[kind]
    return [found[at % len(found)] for at in range(count)]


def promoted(ids: Sequence[int], which: int, ordering: int, *, nested: bool) -> pa.Table:
    """Rows with a column for each promotion: its type before (`which` 0) or after (1)."""
    count = len(ids)
    columns: dict[str, pa.Array] = {"id": pa.array(ids, I64)}
    for at, pair in enumerate([*PAIRS, *([] if nested else DECIMALS)]):
        kind = pair[which]
        found = values(kind, count)
        columns[f"c{at}"] = pa.array(found, kind)
        if nested and not any(pa.types.is_binary(each) for each in pair) and DATE not in pair:
            last: list[Any] = [None]
            columns[f"s{at}"] = pa.array(
                [{"x": v, "y": 1} for v in found[1:]] + last, pa.struct([("x", kind), ("y", I32)])
            )
            columns[f"l{at}"] = pa.array([[v, None] for v in found[1:]] + last, pa.list_(kind))
            columns[f"m{at}"] = pa.array([[("k", v)] for v in found[1:]] + last, pa.map_(TEXT, kind))
            inner = pa.list_(pa.struct([("x", kind)]))
            columns[f"n{at}"] = pa.array([[{"x": v}] for v in found[1:]] + last, inner)
    if which and not nested:
        # a new column in front of the others
        columns = {"added": pa.array(["new"] * count), **columns}
    columns["ts"] = pa.array([ordering] * count, I64)
    return pa.table(columns)


@in_turn("changes of type", 0, 2)
@pytest.mark.parametrize(
    ("kind", "version", "nested"),
    cases([(*table, nested) for table in TABLES for nested in (False, True)], "promotions", 1),
)
def test_promotions(oracle: Oracle, tmp_path: Path, kind: str, version: int, nested: bool) -> None:
    path = tmp_path / "t"
    first = promoted([1, 2, 3, 4], 0, 1, nested=nested)
    oracle.write(
        path, first, "bulk_insert", key="id", ordering="ts", type=kind, table_version=version, options=NO_METADATA
    )
    oracle.write(path, promoted([2, 5, 6], 1, 2, nested=nested), options=NO_METADATA)
    compare(oracle, path)


# ---- schema on read

ON_READ = {"hoodie.schema.on.read.enable": "true", **NO_METADATA}
DROP = {WRITE + "schema.allow.auto.evolution.column.drop": "true"}
EVOLUTION = """
insert into {n} select id, concat('n', id) as m, id as q, cast(id as float) / 3 as r, 1000, concat('p', id % 2)
  from (select explode(sequence(1, 12)) id);
alter table {n} add columns (extra string after rate);
insert into {n} select id, concat('m', id) as m, id + 5 as q, cast(id as float) as r, 'e', 1100, concat('p', id % 2)
  from (select explode(sequence(10, 14)) id);
alter table {n} rename column name to full_name;
alter table {n} alter column qty type bigint;
update {n} set full_name = 'renamed', ts = 1200 where id in (2, 3, 11);
alter table {n} drop column rate;
insert into {n} select id, 'after drop', 9, 'x', 1300, concat('p', id % 2) from (select explode(sequence(14, 17)) id);
alter table {n} add columns (rate string);
delete from {n} where id = 5;
update {n} set rate = 'added again', ts = 1400 where id in (1, 15);
alter table {n} alter column qty type string;
alter table {n} alter column qty after full_name;
update {n} set qty = 'seven', ts = 1500 where id = 7
"""
TYPES = {
    "i1 int": "bigint",
    "i2 int": "float",
    "i3 int": "double",
    "i4 int": "string",
    "i5 int": "decimal(12,3)",
    "l1 bigint": "float",
    "l2 bigint": "double",
    "l3 bigint": "string",
    "l4 bigint": "decimal(20,4)",
    "f1 float": "double",
    "f2 float": "string",
    "f3 float": "decimal(10,3)",
    "d1 double": "string",
    "d2 double": "decimal(12,4)",
    "dt date": "string",
    "de decimal(10,2)": "decimal(20,4)",
    "df decimal(10,2)": "string",
    "s1 string": "date",
    "s2 string": "decimal(10,2)",
}
ROWS = """insert into {n} values
(1, 1, 2, 3, 4, 5, 10, 20, 30, 40, 1.1, 2.5, 3.45678, 1.25, 2.123456789, date'2024-02-03', 12.34, 1.5, '2024-05-06',
 '12.345', 1),
(2, -1, -2, 2147483647, -4, -5, -10, 9007199254740993, -30, 999999, -1.1, 1e10, -3.5, 1e20, -2.5, date'1969-12-31',
 -12.34, 0, '1999-12-31', '-7', 1),
(3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 1)
"""
NESTED = """
insert into {n} values (1, struct(1, 'b', struct(1, 'y')), array(struct(1, 'q')), map('k', struct(1, 'v')), 1),
 (2, null, null, null, 1),
 (3, struct(3, 'b3', struct(3, 'y3')), array(struct(3, 'q3'), null), map('k', struct(3, 'v3'), 'j', null), 1);
alter table {n} add columns (s.n string after a);
alter table {n} add columns (arr.element.r bigint);
alter table {n} add columns (m.value.w string first);
alter table {n} rename column s.b to bb;
alter table {n} rename column s to ss;
alter table {n} alter column ss.a type bigint;
alter table {n} alter column arr.element.p type bigint;
alter table {n} drop column ss.c.x;
alter table {n} alter column ss.bb first;
insert into {n} values
 (4, struct('bb4', 44L, 'n4', struct('y4')), array(struct(4L, 'q4', 5L)), map('z', struct('w', 4, 'v')), 2);
alter table {n} add columns (ss.c.x string)
"""


def evolve(oracle: Oracle, path: Path, columns: str, kind: str, version: int, text: str, partition: str = "") -> None:
    name = f"{path.name}_{kind}{version}_{abs(hash(text)) % 10**6}"
    by = f"partitioned by ({partition})" if partition else ""
    given = {"primaryKey": "id", "preCombineField": "ts", "type": kind, "hoodie.write.table.version": str(version)}
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    options = {**ON_READ, **DROP, "hoodie.write.table.version": str(version)}
    create = f"create table {name} ({columns}) using hudi tblproperties ({properties}) {by} location '{path}'"
    oracle.sql(f"{create};\n{text.replace('{n}', name)}", options=options)
    oracle.sql(f"drop table {name}")


@pytest.mark.nightly
@in_turn("schemas over time", 0, 2)
@pytest.mark.parametrize(("kind", "version"), cases([("cow", 6), ("mor", 9), ("mor", 6)], "schema on read", 1))
def test_schema_on_read(oracle: Oracle, tmp_path: Path, kind: str, version: int) -> None:
    columns = "id int, name string, qty int, rate float, ts bigint, pt string"
    evolve(oracle, tmp_path / "t", columns, kind, version, EVOLUTION, "pt")
    compare(oracle, tmp_path / "t", ON_READ)


@pytest.mark.nightly
@in_turn("changes of type", 1, 2)
def test_every_change_of_type(oracle: Oracle, tmp_path: Path) -> None:
    changes = [f"alter table {{n}} alter column {each.split()[0]} type {kind}" for each, kind in TYPES.items()]
    evolve(oracle, tmp_path / "t", f"id int, {', '.join(TYPES)}, ts bigint", "cow", 9, ";\n".join([ROWS, *changes]))
    compare(oracle, tmp_path / "t", ON_READ)


@in_turn("schemas over time", 1, 2)
def test_nested_columns_evolve(oracle: Oracle, tmp_path: Path) -> None:
    columns = "id int, s struct<a:int,b:string,c:struct<x:int,y:string>>, arr array<struct<p:int,q:string>>"
    columns += ", m map<string,struct<u:int,v:string>>, ts bigint"
    evolve(oracle, tmp_path / "t", columns, "mor", 9, NESTED)
    compare(oracle, tmp_path / "t", ON_READ)


# ---- timestamps whose type the table's schema corrects


def timestamps(**logical: str | None) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [{"name": "id", "type": "string"}, {"name": "ts", "type": "long"}]
    for name, kind in logical.items():
        avro = "long" if kind is None else {"type": "long", "logicalType": kind}
        fields.append({"name": name, "type": ["null", avro], "default": None})
    return {"type": "record", "name": "made_record", "namespace": "hoodie.made", "fields": fields}


@pytest.mark.nightly
@pytest.mark.parametrize("version", cases([6, 9], "timestamps", 1))
def test_timestamps_are_repaired(oracle: Oracle, tmp_path: Path, version: int) -> None:
    table_schema = timestamps(a="timestamp-millis", b="timestamp-micros")
    stored = pa.schema([("id", TEXT), ("ts", I64), ("a", pa.timestamp("us", "UTC")), ("b", pa.timestamp("us", "UTC"))])
    millis = 1_700_000_000_123
    row = {"ts": 1, "a": millis, "b": millis * 1000}
    table = MadeTable(str(tmp_path / "t"), version=version, schema=stored)
    table.base(1, [{**row, "id": "base"}, {"id": "null", "ts": 1, "a": None, "b": None}])
    table.commit(1, avro=table_schema)
    table.log(2, [{**row, "id": "log"}], base_at=1)
    table.commit(2, avro=table_schema)
    ours = hudi_py.open_table(table.uri).scan().to_table()
    assert {at for at in ours["a"].to_pylist() if at} == {at for at in ours["b"].to_pylist() if at}
    assert_rows_equal(ours, oracle.read(table.uri))


# ---- ORC


@in_turn("other base files", 0, 2)
def test_orc(oracle: Oracle, oracle_015: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "t"
    columns = "id int, b boolean, l bigint, f float, d double, s string, bin binary, dt date, ts timestamp"
    columns += ", de decimal(30,10), a array<int>, st struct<x:int,t:timestamp>, m map<string,double>, p string"
    oracle_015.sql(
        f"""
create table orc_table ({columns}) using hudi tblproperties (primaryKey = 'id', preCombineField = 'l', type = 'cow',
 'hoodie.table.base.file.format' = 'ORC', 'hoodie.base.file.format' = 'ORC') partitioned by (p) location '{path}';
insert into orc_table values
(1, true, 10, 1.5, 2.5, 'a', X'00ff', date'2024-02-29', timestamp'2024-01-02 03:04:05.123456', 1.5, array(1, null),
 struct(1, timestamp'2001-01-01 00:00:00.5'), map('k', 1.0, 'n', null), 'p1'),
(2, null, 10, null, null, null, null, null, null, null, null, null, null, 'p1'),
(3, false, 10, -0.0, double('nan'), '', X'', date'1970-01-01', timestamp'1969-12-31 23:59:59', -1.5, array(),
 struct(null, null), map(), 'p2');
update orc_table set s = 'updated' where id in (1, 3);
drop table orc_table
"""
    )
    compare(oracle, path)


# ---- partition columns and keys


def keyed(ids: Sequence[int], ordering: int) -> pa.Table:
    def pick(kind: pa.DataType, *found: Any) -> pa.Array:
        return pa.array([found[at % len(found)] for at in ids], kind)

    at = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    return pa.table(
        {
            "id": pa.array(ids, I64),
            "ms": pick(I64, 1_700_000_000_123, 1_600_000_000_000, 0),
            "at": pick(pa.timestamp("us", "UTC"), at, at.replace(year=1999)),
            "text": pick(TEXT, "2024-01-02", "2023-12-31"),
            "slashed": pick(TEXT, "2024/01/02", "2023/12/31"),
            "odd": pick(TEXT, "a b/c=d", "x%y:z", "é+&"),
            "maybe": pick(TEXT, None, "x", ""),
            "number": pick(I32, 1, -20),
            "day": pick(DATE, datetime.date(2024, 1, 2), datetime.date(1999, 12, 31)),
            "ts": pa.array([ordering] * len(ids), I64),
        }
    )


def timed(kind: str, output: str, given: str | None = None) -> dict[str, str]:
    prefix = "hoodie.keygen.timebased."
    found = {"timestamp.type": kind, "output.dateformat": output, "timezone": "UTC"}
    found.update({"input.dateformat": given} if given else {})
    return {prefix + key: value for key, value in found.items()}


CUSTOM = {WRITE + "keygenerator.class": KEYGEN + "CustomKeyGenerator"}
TIMESTAMP = {WRITE + "keygenerator.class": KEYGEN + "TimestampBasedKeyGenerator"}
COMPLEX = {WRITE + "keygenerator.class": KEYGEN + "ComplexKeyGenerator"}
HIVE = {WRITE + "hive_style_partitioning": "true"}
DROPPED = {WRITE + "drop.partition.columns": "true"}
ENCODED = {WRITE + "partitionpath.urlencode": "true"}
SLASHED = {WRITE + "slash.separated.date.partitioning": "true"}
BARE = {"hoodie.populate.meta.fields": "false"}
METAFILE = {"hoodie.partition.metafile.use.base.format": "true"}
KEYS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "custom time": ("mor", "ms:TIMESTAMP", {**CUSTOM, **timed("EPOCHMILLISECONDS", "yyyy")}),
    "custom text": (
        "cow",
        "text:TIMESTAMP,number:SIMPLE",
        {**CUSTOM, **timed("DATE_STRING", "yyyyMMdd", "yyyy-MM-dd")},
    ),
    "custom plain": ("cow", "text:SIMPLE,number:SIMPLE", CUSTOM),
    "time of text": ("cow", "text", {**TIMESTAMP, **timed("DATE_STRING", "yyyy/MM/dd", "yyyy-MM-dd")}),
    "time of timestamp": ("cow", "at", {**TIMESTAMP, **timed("EPOCHMICROSECONDS", "yyyyMMdd")}),
    "slashes": ("mor", "slashed", {}),
    "slashes hive": ("cow", "text", {**SLASHED, **HIVE}),
    "slashes dates": ("cow", "text", SLASHED),
    "null texts": ("mor", "maybe", {}),
    "dropped": ("cow", "maybe", DROPPED),
    "dropped many": ("cow", "number,odd,day", {**DROPPED, **HIVE, **ENCODED, **COMPLEX}),
    "dropped slashes": ("cow", "day", {**DROPPED, **SLASHED}),
    "metafile": ("mor", "text", METAFILE),
    "encoded": ("mor", "odd", {**ENCODED, **HIVE}),
    "bare": ("cow", "text", BARE),
    "bare logs": ("mor", "text,number", {**BARE, **COMPLEX, WRITE + "complex.keygen.new.encoding": "true"}),
}


@pytest.mark.parametrize("case", cases(KEYS, "partition columns and keys", 1))
def test_partition_columns_and_keys(oracle: Oracle, tmp_path: Path, case: str) -> None:
    kind, partition, options = KEYS[case]
    path = tmp_path / "t"
    given = {**NO_METADATA, **options}
    write = "bulk_insert" if kind == "mor" else "insert"
    first = keyed([1, 2, 3, 4, 5, 6], 1)
    oracle.write(path, first, write, key="id", ordering="ts", partition=partition, type=kind, options=given)
    oracle.write(path, keyed([2, 3, 7], 2), partition=partition, options=given)
    compare(oracle, path)


# ---- bootstrap


@pytest.mark.nightly
@in_turn("other base files", 1, 2)
@pytest.mark.parametrize(
    ("kind", "version", "selector"),
    cases([(*table, selector) for table in TABLES for selector in ("MetadataOnly", "FullRecord")], "bootstrap", 1),
)
def test_bootstrap(oracle: Oracle, tmp_path: Path, kind: str, version: int, selector: str) -> None:
    for name in ("2024-01-02", "2023-12-31"):
        folder = tmp_path / "source" / f"text={name}"
        os.makedirs(folder)
        rows = keyed(list(range(1, 7)) if name[:4] == "2024" else list(range(7, 20)), 1).drop_columns(["text"])
        pq.write_table(rows, folder / "file.parquet", row_group_size=4)
    simple = KEYGEN + "SimpleKeyGenerator"
    options = {
        "hoodie.bootstrap.base.path": str(tmp_path / "source"),
        "hoodie.bootstrap.keygen.class": simple,
        "hoodie.bootstrap.mode.selector": f"org.apache.hudi.client.bootstrap.selector.{selector}BootstrapModeSelector",
        "hoodie.bootstrap.full.input.provider": "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider",
        "hoodie.bootstrap.parallelism": "2",
        WRITE + "keygenerator.class": simple,
        **HIVE,
        **NO_METADATA,
    }
    path = tmp_path / "t"
    settings: dict[str, Any] = {"key": "id", "ordering": "ts", "partition": "text", "type": kind}
    # Apache Hudi 1.2.0 mixes columns up in a FULL_RECORD bootstrap unless the partition column is the last one
    order = [name for name in keyed([1], 1).column_names if name != "text"] + ["text"]
    empty = keyed([1], 1).slice(0, 0).select(order)
    oracle.write(path, empty, "bootstrap", table_version=version, mode="overwrite", options=options, **settings)
    compare(oracle, path)
    # 2 is in the second of the partitions too now
    oracle.write(path, keyed([2, 8, 20], 5).select(order), partition="text", options=NO_METADATA)
    compare(oracle, path)
