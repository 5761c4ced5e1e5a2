"""Tables whose merges make rows of two versions: partial update modes, payload classes and mergers in Python."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
import hudi_py.merge
from hudi_py.config import Options
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.write.table.properties import table_properties
from tests.support.choice import cases

QUICK = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.py.write.durable": "false",
    "hoodie.parquet.small.file.limit": "0",
}
PAYLOAD, PARTIAL = "hoodie.datasource.write.payload.class", "hoodie.table.partial.update.mode"
PAYLOADS = "org.apache.hudi.common.model."
UNAVAILABLE = "__debezium_unavailable_value"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("_event_lsn", pa.int64()),
        ("Op", pa.string()),
        ("_change_operation_type", pa.string()),
        ("x", pa.int64()),
        ("y", pa.string()),
    ]
)
FIRST = [("a", 5, "I", "c", 1, "p"), ("b", 5, "I", "c", 2, "q"), ("c", 5, "I", "c", 3, "r"), ("d", 5, "I", "c", 4, "s")]
SECOND = [
    ("a", 6, "U", "u", None, "P"),
    ("b", 6, "U", "u", 22, None),
    ("b", 7, "U", "u", None, "late"),
    ("c", 6, "D", "d", None, None),
    ("d", 4, "U", "u", None, UNAVAILABLE),
    ("e", 1, "U", "u", 5, UNAVAILABLE),
]
MERGED: dict[str, dict[str, tuple[int | None, str | None]]] = {
    "PartialUpdateAvroPayload": {"a": (1, "P"), "b": (22, "late"), "c": (3, "r"), "d": (4, "s"), "e": (5, UNAVAILABLE)},
    "OverwriteNonDefaultsWithLatestAvroPayload": {
        "a": (1, "P"),
        "b": (22, "late"),
        "c": (3, "r"),
        "d": (4, UNAVAILABLE),
        "e": (5, UNAVAILABLE),
    },
    "AWSDmsAvroPayload": {"a": (None, "P"), "b": (None, "late"), "d": (None, UNAVAILABLE), "e": (5, UNAVAILABLE)},
    "debezium.PostgresDebeziumAvroPayload": {
        "a": (None, "P"),
        "b": (None, "late"),
        "d": (4, "s"),
        "e": (5, UNAVAILABLE),
    },
}
"""What becomes of x and y, as Apache Hudi merges them."""

RECORDS = "GLOBAL_RECORD_LEVEL_INDEX"


def table_of(given: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def make(path: Path, options: dict[str, str], **more: Any) -> hudi_py.Table:
    keywords = {"record_key": "id", "ordering_by": "_event_lsn", **more}
    hudi_py.write(path, table_of(FIRST), "upsert", {**QUICK, **options}, **keywords)
    return hudi_py.open_table(path, {**QUICK, **options})


def rows_of(table: hudi_py.Table) -> dict[str, tuple[Any, ...]]:
    found = table.scan(columns=["id", "x", "y"]).to_table().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["x"], row["y"]) for row in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "version", "kind"), cases(product(MERGED, (6, 8, 9), ("cow", "mor")), "payload classes", 3)
)
def test_payload_classes(tmp_path: Path, name: str, version: int, kind: str) -> None:
    payload = {"hoodie.datasource.write.payload.class": PAYLOADS + name}
    table = make(tmp_path / "t", payload, table_type=kind, table_version=version)
    result = table.upsert(table_of(SECOND))
    expected = dict(MERGED[name])
    if (name, version) == ("OverwriteNonDefaultsWithLatestAvroPayload", 9):
        assert expected["b"] == (22, "late")  # the rows of the data are merged, too
    elif name == "OverwriteNonDefaultsWithLatestAvroPayload":
        expected["b"] = (2, "late")  # of the rows of the data the greatest ordering value wins
    assert rows_of(table) == expected
    assert result.num_inserted == 1
    if kind == "mor":
        table.compact()
        assert rows_of(table) == expected


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_texts_that_stand_for_no_value(tmp_path: Path, kind: str) -> None:
    options = {
        "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
        "hoodie.write.partial.update.unavailable.value": "?",
    }
    table = make(tmp_path / "t", options, table_type=kind)
    table.upsert(table_of([("a", 6, "U", "u", None, "?"), ("b", 6, "U", "u", 22, "Q")]))
    assert [rows_of(table)[key] for key in "ab"] == [(None, "p"), (22, "Q")]
    table.update({"y": "'?'", "x": "7"}, "id = 'a'")
    assert rows_of(table)["a"] == (7, "p")


class KeepTheGreater:
    required_columns = ("x",)

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        return hudi_py.merge.choose_rows(pc.greater(newer["x"], older["x"]), newer, older)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_mergers_in_python(tmp_path: Path, kind: str) -> None:
    make(tmp_path / "t", {}, table_type=kind)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("merge.mode=EVENT_TIME_ORDERING", "merge.mode=CUSTOM")
    lines = [line for line in text.splitlines() if "checksum" not in line]
    properties.write_text("\n".join([*lines, "hoodie.compaction.payload.class=com.example.Mine\n"]))
    merger = {"hoodie.py.record.merger": f"{__name__}:KeepTheGreater"}
    table = hudi_py.open_table(tmp_path / "t", {**QUICK, **merger})
    rows = [("a", 1, "U", "u", 0, "less"), ("b", 1, "U", "u", 9, "more"), ("b", 1, "U", "u", 7, "mean"), FIRST[2]]
    table.upsert(table_of(rows))
    assert [rows_of(table)[key] for key in "abc"] == [(1, "p"), (9, "more"), (3, "r")]
    table.delete([{"id": "b"}])
    assert set(rows_of(table)) == {"a", "c", "d"}
    with pytest.raises(UnsupportedTableError, match="com.example.Mine"):
        hudi_py.open_table(tmp_path / "t", QUICK).upsert(table_of(rows))


def properties(version: int, more: dict[str, str]) -> dict[str, str]:
    name = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    return table_properties(Options.resolve({**name, "hoodie.write.table.version": version, **more}, defaults={}))


def test_what_version_9_stores_of_payload_classes() -> None:
    prefix = "hoodie.record.merge.property."
    postgres = PAYLOADS + "debezium.PostgresDebeziumAvroPayload"
    made = properties(9, {PAYLOAD: postgres})
    assert {key: value for key, value in made.items() if "merge" in key or "partial" in key or "ordering" in key} == {
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
        prefix + "hoodie.write.partial.update.unavailable.value": UNAVAILABLE,
        prefix + "hoodie.payload.delete.field": "_change_operation_type",
        prefix + "hoodie.payload.delete.marker": "d",
        "hoodie.table.ordering.fields": "_event_lsn",
    }
    assert made["hoodie.table.legacy.payload.class"] == postgres
    eight = properties(8, {PAYLOAD: postgres, "hoodie.table.ordering.fields": "_event_lsn"})
    assert eight["hoodie.record.merge.mode"] == "CUSTOM"
    assert eight["hoodie.record.merge.strategy.id"] == "00000000-0000-0000-0000-000000000000"
    assert eight["hoodie.compaction.payload.class"] == postgres


@pytest.mark.parametrize(
    ("version", "more", "named"),
    [
        (8, {PARTIAL: "IGNORE_DEFAULTS"}, "of version 8 with hoodie.table.partial.update.mode"),
        (9, {"hoodie.write.partial.update.unavailable.value": "?"}, "without the partial update mode FILL_UNAVAILABLE"),
        (9, {PAYLOAD: PAYLOADS + "PartialUpdateAvroPayload"}, "without an ordering field"),
        (
            9,
            {PAYLOAD: PAYLOADS + "AWSDmsAvroPayload", PARTIAL: "IGNORE_DEFAULTS"},
            "stands for none",
        ),
    ],
)
def test_properties_that_do_not_go_together(version: int, more: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        properties(version, more)


def test_global_indexes(tmp_path: Path) -> None:
    """More in test_moving_merges.py."""
    options = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS", "hoodie.index.type": "GLOBAL_SIMPLE"}
    stays = {"hoodie.simple.index.update.partition.path": "false"}
    make(tmp_path / "t", {**options, **stays}, partition_by="Op")
    table = hudi_py.open_table(tmp_path / "t", {**QUICK, **options, **stays})
    table.upsert(table_of([("n", 1, "I", "c", 1, None), ("n", 1, "U", "c", None, "y")]))
    assert rows_of(table)["n"] == (1, "y")
    table.upsert(table_of([("a", 6, "U", "u", None, "P")]))
    assert rows_of(table)["a"] == (1, "P")


@pytest.mark.parametrize(
    ("kind", "index", "compacts", "shown"),
    [("cow", "SIMPLE", False, 3), ("mor", "SIMPLE", False, 5), ("mor", "SIMPLE", True, 3), ("mor", RECORDS, False, 3)],
)
def test_a_row_that_comes_late_after_a_delete(
    tmp_path: Path, kind: str, index: str, compacts: bool, shown: int
) -> None:
    """docs/concepts/merging.md: logs are merged first, as in Apache Hudi, and so the deleted row may come back."""
    path = str(tmp_path / "t")
    options = {"hoodie.index.type": index, "hoodie.metadata.global.record.level.index.enable": str(index == RECORDS)}
    how = {"record_key": "id", "ordering_by": "ts", "table_type": kind}
    hudi_py.write(path, [{"id": "a", "ts": 5}, {"id": "b", "ts": 5}], "upsert", options, **how)
    table = hudi_py.open_table(path, options)
    table.delete("id = 'a'")
    if compacts:
        table.compact()
    hudi_py.write(path, [{"id": "a", "ts": 3}], "upsert", options)
    assert table.scan(filter="id = 'a'").to_table()["ts"].to_pylist() == [shown]
