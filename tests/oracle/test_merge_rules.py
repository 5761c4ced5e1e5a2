"""Apache Hudi and we merge the same random logs: versions, ties, deletes of every kind, for every ordering type."""

from __future__ import annotations

import datetime
import decimal
import json
import random
from collections.abc import Callable
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

UTC = datetime.timezone.utc
START = datetime.datetime(2024, 1, 1, tzinfo=UTC)
PAYLOADS = "org.apache.hudi.common.model."
STRATEGIES = {"EVENT": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "COMMIT": "ce9acb64-bde0-424c-9b91-f6ebba25356d"}

# Few distinct values, so that ties are frequent; 0 is the default ordering value of an int
KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "long": (pa.int64(), lambda rnd: rnd.randint(0, 5)),
    "int": (pa.int32(), lambda rnd: rnd.randint(-1, 3)),
    "int with nulls": (pa.int32(), lambda rnd: None if rnd.random() < 0.2 else rnd.randint(-1, 3)),
    "text": (pa.string(), lambda rnd: rnd.choice(["", "a", "b", "é", "zz"])),
    "timestamp": (pa.timestamp("us", "UTC"), lambda rnd: START + datetime.timedelta(seconds=rnd.randint(0, 4))),
    "decimal": (pa.decimal128(10, 2), lambda rnd: decimal.Decimal(rnd.randint(-100, 300)) / 100),
    "double": (pa.float64(), lambda rnd: rnd.choice([-1.5, -0.0, 0.0, 2.5, float("nan"), float("inf")])),
}


def random_table(
    path: Path, version: int, mode: str, kind: str, *, marked: bool, repeated: bool = False, nested: bool = False
) -> MadeTable:
    """A file slice with a base file and six log files, of 400 keys; `marked`: rows with `_hoodie_is_deleted` too;
    `nested`: the ordering field is one of a struct."""
    rnd = random.Random(f"{version} {mode} {kind} {marked}")
    ordering, value = KINDS[kind]
    fields = [("id", pa.string()), ("ts", ordering), ("name", pa.string())]
    if nested:
        fields[1] = ("at", pa.struct([("other", pa.string()), ("ts", ordering)]))
    schema = pa.schema(fields + ([("_hoodie_is_deleted", pa.bool_())] if marked else []))
    properties = {"hoodie.record.merge.mode": f"{mode}_TIME_ORDERING"}
    if version == 6:
        payload = "DefaultHoodieRecordPayload" if mode == "EVENT" else "OverwriteWithLatestAvroPayload"
        properties = {"hoodie.compaction.payload.class": PAYLOADS + payload, "hoodie.table.precombine.field": "ts"}
    if version == 8:
        properties["hoodie.record.merge.strategy.id"] = STRATEGIES[mode]
    if nested:
        properties |= dict.fromkeys(("hoodie.table.ordering.fields", "hoodie.table.precombine.field"), "at.ts")
    table = MadeTable(str(path), version=version, schema=schema, properties=properties)
    keys = [f"k{number}" for number in range(400)]

    def rows(chosen: list[str], at: int) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = [{"id": key, "ts": value(rnd), "name": f"write {at}"} for key in chosen]
        if nested:
            made = [{"id": row["id"], "at": {"other": "", "ts": row["ts"]}, "name": row["name"]} for row in made]
        return [{**row, "_hoodie_is_deleted": rnd.random() < 0.3} for row in made] if marked and at > 1 else made

    base = [key for key in keys if rnd.random() < 0.7]
    table.base(1, rows(base + base[:40] if repeated else base, 1))
    table.commit(1)
    for number, at in enumerate(range(2, 8), 1):
        data = b""
        avro = table.avro()
        header = {HeaderKey.INSTANT_TIME: instant(at), HeaderKey.SCHEMA: json.dumps(avro)}
        for _ in range(rnd.randint(1, 3)):
            chosen = [key for key in keys if rnd.random() < 0.25]
            if rnd.random() < 0.5:
                content = encode_log_content(table.rows(rows(chosen, at), at), avro)
                data += encode_block(BlockType.AVRO, header, content)
            else:
                values = None
                if mode == "EVENT" and rnd.random() < 0.8:
                    values = pa.array([None if rnd.random() < 0.4 else value(rnd) for _ in chosen], ordering)
                partitions = pa.array([""] * len(chosen), pa.string())
                content = encode_deletes(pa.array(chosen, pa.string()), partitions, values)
                data += encode_block(BlockType.DELETE, header, content)
        table.put_log(data, at, base_at=1, number=number)
        table.commit(at)
    return table


CASES = [(version, "EVENT", kind, marked) for version in (6, 9) for kind in KINDS for marked in (False, True)]
CASES += [(8, "EVENT", "long", True), *((version, "COMMIT", "long", True) for version in (6, 8, 9))]


@pytest.mark.parametrize(("version", "mode", "kind", "marked"), cases(CASES, "merge rules", 8))
def test_random_logs(oracle: Oracle, tmp_path: Path, version: int, mode: str, kind: str, marked: bool) -> None:
    table = random_table(tmp_path / "t", version, mode, kind, marked=marked)
    ours = hudi_py.open_table(table.uri).scan().to_table()
    assert ours.num_rows > 50
    assert_rows_equal(ours, oracle.read(table.uri))


@pytest.mark.parametrize(
    ("version", "kind"), cases([(6, "long"), (8, "int with nulls"), (9, "text")], "fields of structs", 1)
)
def test_an_ordering_field_of_a_struct(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    table = random_table(tmp_path / "t", version, "EVENT", kind, marked=True, nested=True)
    ours = hudi_py.open_table(table.uri).scan(["id", "name"]).to_table()
    assert ours.num_rows > 50
    assert_rows_equal(ours, oracle.read(table.uri, columns=["id", "name"]))


@pytest.mark.parametrize("mode", ["EVENT", "COMMIT"])
def test_a_key_that_occurs_twice_in_the_base_file(oracle: Oracle, tmp_path: Path, mode: str) -> None:
    table = random_table(tmp_path / "t", 9, mode, "long", marked=False, repeated=True)
    assert_rows_equal(hudi_py.open_table(table.uri).scan().to_table(), oracle.read(table.uri))
