"""Apache Hudi and we merge the same random logs by payload classes, and by partial updates, in every table version."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.formats.avro import encode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_deletes
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.support.choice import cases
from tests.unit.read.tables import MadeTable, instant

pytestmark = pytest.mark.slow

PAYLOADS = "org.apache.hudi.common.model."
PREFIX = "hoodie.record.merge.property."
UNAVAILABLE = "__debezium_unavailable_value"
PLAIN = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("flags", pa.list_(pa.int32())),
    ]
)
MYSQL = pa.schema(
    [
        ("id", pa.string()),
        ("_change_operation_type", pa.string()),
        ("_event_bin_file", pa.string()),
        ("_event_pos", pa.int64()),
        ("_event_seq", pa.string()),
        ("name", pa.string()),
    ]
)
POSTGRES = pa.schema(
    [
        ("id", pa.string()),
        ("_change_operation_type", pa.string()),
        ("_event_lsn", pa.int64()),
        ("name", pa.string()),
        ("data", pa.binary()),
        ("price", pa.float64()),
    ]
)
DMS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("Op", pa.string()), ("name", pa.string())])


def plain_row(rnd: random.Random, key: str, at: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if rnd.random() < 0.4 else value

    return {
        "id": key,
        "ts": rnd.randint(1, 6),
        "name": maybe(f"write {at}"),
        "price": maybe(float(at)),
        "flags": maybe([at] * rnd.randint(0, 2)),
    }


def mysql_row(rnd: random.Random, key: str, at: int) -> dict[str, Any]:
    file, position = rnd.randint(9, 11), rnd.randint(1, 3) * 7
    return {
        "id": key,
        "_change_operation_type": rnd.choice("iuud") if at > 1 else "i",
        "_event_bin_file": f"{file:04}",
        "_event_pos": position,
        "_event_seq": f"{file:04}.{position}",
        "name": f"write {at}",
    }


def postgres_row(rnd: random.Random, key: str, at: int) -> dict[str, Any]:
    missing = rnd.random() < 0.4 and at > 1
    return {
        "id": key,
        "_change_operation_type": rnd.choice("iuud") if at > 1 else "r",
        "_event_lsn": rnd.randint(1, 6),
        "name": UNAVAILABLE if missing else f"write {at}",
        "data": UNAVAILABLE.encode() if rnd.random() < 0.3 and at > 1 else f"bytes {at}".encode(),
        "price": float(at),
    }


def dms_row(rnd: random.Random, key: str, at: int) -> dict[str, Any]:
    return {"id": key, "ts": rnd.randint(1, 6), "Op": rnd.choice("IUUD") if at > 1 else None, "name": f"write {at}"}


Row = Callable[[random.Random, str, int], dict[str, Any]]
KINDS: dict[str, tuple[str, pa.Schema, str, Row, dict[str, str]]] = {
    "PartialUpdateAvroPayload": (
        "",
        PLAIN,
        "ts",
        plain_row,
        {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            "hoodie.table.ordering.fields": "ts",
        },
    ),
    "OverwriteNonDefaultsWithLatestAvroPayload": (
        "",
        PLAIN,
        "ts",
        plain_row,
        {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    ),
    "AWSDmsAvroPayload": (
        "",
        DMS,
        "ts",
        dms_row,
        {
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            PREFIX + "hoodie.payload.delete.field": "Op",
            PREFIX + "hoodie.payload.delete.marker": "D",
        },
    ),
    "MySqlDebeziumAvroPayload": (
        "debezium.",
        MYSQL,
        "_event_seq",
        mysql_row,
        {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.ordering.fields": "_event_bin_file,_event_pos",
            PREFIX + "hoodie.payload.delete.field": "_change_operation_type",
            PREFIX + "hoodie.payload.delete.marker": "d",
        },
    ),
    "PostgresDebeziumAvroPayload": (
        "debezium.",
        POSTGRES,
        "_event_lsn",
        postgres_row,
        {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.ordering.fields": "_event_lsn",
            "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
            PREFIX + "hoodie.write.partial.update.unavailable.value": UNAVAILABLE,
            PREFIX + "hoodie.payload.delete.field": "_change_operation_type",
            PREFIX + "hoodie.payload.delete.marker": "d",
        },
    ),
}


# Writers of Apache Hudi make delete blocks of rows with a delete marker, so that its readers meet none. When they do,
# they know the marker only from the options of the query: without them its answer has the deleted rows, or is an error.
# hudi-py takes the marker from the table.
MARKERS = {
    "AWSDmsAvroPayload": {"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"},
    "MySqlDebeziumAvroPayload": {
        "hoodie.payload.delete.field": "_change_operation_type",
        "hoodie.payload.delete.marker": "d",
    },
    "PostgresDebeziumAvroPayload": {
        "hoodie.payload.delete.field": "_change_operation_type",
        "hoodie.payload.delete.marker": "d",
    },
}


def properties_of(name: str, version: int) -> dict[str, str]:
    package, _, ordering, _, newest = KINDS[name]
    full = PAYLOADS + package + name
    if version == 9:
        return {"hoodie.table.legacy.payload.class": full, **newest}
    if version == 8:
        return {
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
            "hoodie.compaction.payload.class": full,
            "hoodie.table.precombine.field": ordering,
        }
    return {"hoodie.compaction.payload.class": full, "hoodie.table.precombine.field": ordering}


def random_table(path: Path, name: str, version: int, *, marked: bool) -> MadeTable:
    """A base file and six log files of 300 keys; `marked`: with `_hoodie_is_deleted`."""
    rnd = random.Random(f"{name} {version} {marked}")
    _, schema, ordering, make, _ = KINDS[name]
    if marked:
        schema = schema.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = MadeTable(str(path), version=version, schema=schema, properties=properties_of(name, version))
    keys = [f"k{number}" for number in range(300)]

    def rows(chosen: list[str], at: int) -> list[dict[str, Any]]:
        made = [make(rnd, key, at) for key in chosen]
        return [{**row, "_hoodie_is_deleted": at > 1 and rnd.random() < 0.2} for row in made] if marked else made

    table.base(1, rows([key for key in keys if rnd.random() < 0.7], 1))
    table.commit(1)
    for number, at in enumerate(range(2, 8), 1):
        data = b""
        avro = table.avro()
        header = {HeaderKey.INSTANT_TIME: instant(at), HeaderKey.SCHEMA: json.dumps(avro)}
        for _ in range(rnd.randint(1, 3)):
            chosen = [key for key in keys if rnd.random() < 0.3]
            if rnd.random() < 0.7:
                content = encode_log_content(table.rows(rows(chosen, at), at), avro)
                data += encode_block(BlockType.AVRO, header, content)
            else:
                chosen = chosen[: len(chosen) // 3]
                values = None
                if rnd.random() < 0.6 and not (version == 9 and "MySql" in name):
                    entries = pa.array([make(rnd, "", at)[ordering] for _ in chosen], schema.field(ordering).type)
                    values = entries
                partitions = pa.array([""] * len(chosen), pa.string())
                content = encode_deletes(pa.array(chosen, pa.string()), partitions, values)
                data += encode_block(BlockType.DELETE, header, content)
        table.put_log(data, at, base_at=1, number=number)
        table.commit(at)
    return table


@pytest.mark.parametrize(
    ("name", "version", "marked"), cases(product(KINDS, (6, 8, 9), (False, True)), "random payloads", 1)
)
def test_random_logs(oracle: Oracle, tmp_path: Path, name: str, version: int, marked: bool) -> None:
    table = random_table(tmp_path / "t", name, version, marked=marked)
    ours = hudi_py.open_table(table.uri).scan().to_table()
    assert ours.num_rows > 50
    assert_rows_equal(ours, oracle.read(table.uri, options=MARKERS.get(name)))


WHOLE = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.float64()), ("count", pa.int32())]
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("version", "mode", "ignores"), cases(product((8, 9), ("EVENT", "COMMIT"), (False, True)), "partial updates", 1)
)
def test_blocks_of_partial_updates(oracle: Oracle, tmp_path: Path, version: int, mode: str, ignores: bool) -> None:
    """Whole records first in some logs, then partial ones of changing columns, with deletes between."""
    rnd = random.Random(f"{version} {mode} {ignores}")
    properties = {"hoodie.record.merge.mode": f"{mode}_TIME_ORDERING"}
    if version == 8:
        strategies = {"EVENT": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "COMMIT": "ce9acb64-bde0-424c-9b91-f6ebba25356d"}
        properties["hoodie.record.merge.strategy.id"] = strategies[mode]
    if ignores:
        properties["hoodie.table.partial.update.mode"] = "IGNORE_DEFAULTS"
    table = MadeTable(str(tmp_path / "t"), version=version, schema=WHOLE, properties=properties)
    keys = [f"k{number}" for number in range(200)]

    def rows(chosen: list[str], at: int, names: list[str]) -> list[dict[str, Any]]:
        values: dict[str, Callable[[], Any]] = {
            "ts": lambda: rnd.randint(1, 6),
            "name": lambda: rnd.choice([None, f"write {at}"]),
            "price": lambda: rnd.choice([None, float(at)]),
            "count": lambda: at,
        }
        return [{"id": key, **{name: values[name]() for name in names}} for key in chosen]

    everything = ["ts", "name", "price", "count"]
    # Apache Hudi cannot read a record of a partial update whose key is in no base file: every key is
    table.base(1, rows(keys, 1, everything))
    table.commit(1)
    for at in range(2, 9):
        names = everything if at == 2 else sorted({"ts", *rnd.sample(everything, 2)}, key=everything.index)
        schema = pa.schema([WHOLE.field(name) for name in ("id", *names)])
        content: list[Any] = [rows([key for key in keys if rnd.random() < 0.4], at, names)]
        header = {} if at == 2 else {HeaderKey.IS_PARTIAL: "true"}
        table.log(at, *content, schema=schema, header=header)
        table.commit(at)
    ours = hudi_py.open_table(table.uri).scan().to_table()
    assert ours.num_rows == len(keys)
    assert_rows_equal(ours, oracle.read(table.uri))
