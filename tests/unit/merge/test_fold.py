"""Merges which make new rows, against a model that takes versions row by row as Apache Hudi's classes do."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_py.merge import MergeSettings, merge_with_base, reduce_versions
from hudi_py.merge.settings import COMMIT_TIME, CUSTOM, EVENT_TIME, PartialUpdate, Payload
from hudi_py.merge.versions import LogVersions, entry_schema

SCHEMA = pa.schema(
    [
        ("_hoodie_commit_time", pa.string()),
        ("_hoodie_record_key", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("Op", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_change_operation_type", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
Row = dict[str, Any]
GONE = "gone"


class Record:
    """A record on its way: a row (None: none), whether it is a delete, and its ordering value (None: the default)."""

    def __init__(self, row: Row | None, deleted: bool, value: int | None) -> None:
        self.row, self.deleted, self.value = row, deleted, value

    @property
    def unconditional(self) -> bool:
        return self.deleted and self.value is None

    @property
    def order(self) -> float:
        return float("-inf") if self.value is None else self.value


def is_gap(settings: MergeSettings, value: Any) -> bool:
    if settings.partial is PartialUpdate.FILL_UNAVAILABLE:
        return bool(value == GONE)
    return value is None


def combine(settings: MergeSettings, older: Record, newer: Record, entry: bool, late: bool) -> Record:
    if settings.payload is not None:
        return by_payload(settings, older, newer)
    if settings.mode == COMMIT_TIME:
        takes_newer = True
    elif entry:
        obsolete = older.unconditional or (newer.value is not None and older.order > newer.order)
        takes_newer = not obsolete
    else:
        takes_newer = newer.unconditional or older.unconditional or newer.order >= older.order
    high, low = (newer, older) if takes_newer else (older, newer)
    if high.deleted or low.deleted or high.row is None or low.row is None:
        return high
    if late:
        return Record({**low.row, **high.row}, False, high.value)
    if settings.partial is None:
        return high
    row = {name: low.row.get(name) if is_gap(settings, value) else value for name, value in high.row.items()}
    return Record(row, False, high.value)


def marked(settings: MergeSettings, row: Row | None) -> bool:
    if row is None or row["_hoodie_is_deleted"]:
        return True
    column = settings.payload.operation_column if settings.payload else None
    return column is not None and (row[column] or "").upper() == "D"


def by_payload(settings: MergeSettings, older: Record, newer: Record) -> Record:
    if newer.unconditional or older.unconditional or older.row is None:
        return newer
    made = Record(None, True, older.value if older.order > newer.order else newer.value)
    gone = newer if newer.deleted else older if older.deleted else made
    if newer.row is None:
        return gone
    if settings.payload is Payload.POSTGRES_DEBEZIUM:
        old, new = older.row["_event_lsn"], newer.row["_event_lsn"]
        if old is not None and new < old:
            return older
    late = (
        settings.payload is Payload.PARTIAL_UPDATE
        and older.row["ts"] is not None
        and Record(None, False, older.row["ts"]).order > newer.order
    )
    if marked(settings, newer.row) or (late and marked(settings, older.row)):
        return gone
    if settings.payload in (Payload.AWS_DMS, Payload.POSTGRES_DEBEZIUM):
        return newer
    row = {}
    for name in newer.row:
        swaps = late and not name.startswith("_hoodie_commit") and name != "_hoodie_record_key"
        first, second = (older.row, newer.row) if swaps else (newer.row, older.row)
        row[name] = second[name] if first[name] is None else first[name]
    return Record(row, False, row["ts"])


def row_of(rnd: random.Random, key: str, at: int, marks: bool) -> Row:
    return {
        "_hoodie_commit_time": f"{at:03}",
        "_hoodie_record_key": key,
        "ts": rnd.choice([None, 1, 2, 3, 4]),
        "name": rnd.choice([None, GONE, f"write {at}"]),
        "price": rnd.choice([None, float(at)]),
        "Op": rnd.choice([None, "I", "U", "D", "d"]) if marks else "I",
        "_event_lsn": rnd.randint(1, 5),
        "_change_operation_type": rnd.choice([None, "u", "d", "D"]) if marks else "i",
        "_hoodie_is_deleted": rnd.choice([None, False, False, True]) if marks else False,
    }


def context_delete(settings: MergeSettings, row: Row) -> bool:
    named = settings.delete_field is not None and row[settings.delete_field] == settings.delete_marker
    return bool(row["_hoodie_is_deleted"]) or named


SETTINGS = {
    "commit defaults": MergeSettings(COMMIT_TIME, partial=PartialUpdate.IGNORE_DEFAULTS),
    "event defaults": MergeSettings(EVENT_TIME, ("ts",), partial=PartialUpdate.IGNORE_DEFAULTS),
    "event unavailable": MergeSettings(EVENT_TIME, ("ts",), partial=PartialUpdate.FILL_UNAVAILABLE, unavailable=GONE),
    "event parts": MergeSettings(EVENT_TIME, ("ts",)),
    "commit parts": MergeSettings(COMMIT_TIME),
    "partial update": MergeSettings(CUSTOM, ("ts",), payload=Payload.PARTIAL_UPDATE),
    "non defaults": MergeSettings(CUSTOM, ("ts",), payload=Payload.OVERWRITE_NON_DEFAULTS),
    "dms": MergeSettings(CUSTOM, ("ts",), "Op", "D", payload=Payload.AWS_DMS),
    "postgres": MergeSettings(CUSTOM, ("ts",), "_change_operation_type", "d", payload=Payload.POSTGRES_DEBEZIUM),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", list(SETTINGS))
def test_as_versions_one_by_one(name: str, seed: int) -> None:
    settings = SETTINGS[name]
    rnd = random.Random(f"{name} {seed}")
    parts = name.endswith("parts")
    keys = [f"k{number}" for number in range(40)]
    base = [row_of(rnd, key, 1, False) for key in keys if rnd.random() < 0.6]
    first_part = rnd.randint(0, 120) if parts else None
    versions: list[tuple[str, Row | None, int | None, frozenset[str]]] = []
    for position in range(200):
        key = rnd.choice(keys)
        late = first_part is not None and position >= first_part
        lacking = frozenset(column for column in ("name", "price", "Op") if late and rnd.random() < 0.5)
        if rnd.random() < 0.15:
            versions.append((key, None, rnd.choice([None, 1, 3]), frozenset()))
        else:
            row = row_of(rnd, key, 2 + position, not parts)
            versions.append((key, row, row["ts"], lacking))
    if settings.mode == COMMIT_TIME:
        versions = [(key, row, None, lacking) for key, row, _, lacking in versions]

    expected: dict[str, Record] = {}
    for position, (key, row, value, lacking) in enumerate(versions):
        if row is None:
            newer = Record(None, True, value)
        else:
            held = {column: cell for column, cell in row.items() if column not in lacking}
            newer = Record(held, context_delete(settings, row), value)
        late = first_part is not None and position >= first_part
        older = expected.get(key)
        expected[key] = newer if older is None else combine(settings, older, newer, row is None, late)
    result: list[Row] = []
    for row in base:
        key = row["_hoodie_record_key"]
        own = Record(row, False, None if settings.mode == COMMIT_TIME else row["ts"])
        found = expected.pop(key, None)
        merged = own if found is None else combine(settings, own, found, False, first_part is not None)
        if not merged.deleted and merged.row is not None:
            result.append(merged.row)
    for record in expected.values():
        held_back = settings.payload is not None and marked(settings, record.row)
        if not record.deleted and record.row is not None and not held_back:
            result.append({column: record.row.get(column) for column in SCHEMA.names})

    rows = [(position, row, lacking) for position, (_, row, _, lacking) in enumerate(versions) if row is not None]
    shown = [{column: None if column in lacking else cell for column, cell in row.items()} for _, row, lacking in rows]
    gone = [(at, key, value) for at, (key, row, value, _) in enumerate(versions) if row is None]
    entries = [
        {"key": key, "partition": "", "position": at, "default": value is None, "instant": "9", "0": value}
        for at, key, value in gone
    ]
    order = list(range(len(rows)))
    rnd.shuffle(order)  # positions tell the order, not the places
    log = LogVersions(
        pa.Table.from_pylist([shown[at] for at in order], SCHEMA),
        np.array([rows[at][0] for at in order], np.int64),
        pa.Table.from_pylist(entries, entry_schema(SCHEMA, settings)),
        {column: np.array([column in rows[at][2] for at in order]) for column in ("name", "price", "Op")}
        if parts
        else {},
        first_part,
    )
    records = reduce_versions(log, settings)
    batches = pa.Table.from_pylist(base, SCHEMA).to_batches(max_chunksize=11)
    actual = [row for batch in merge_with_base(batches, records, settings) for row in batch.to_pylist()]

    def sortable(found: list[Row]) -> list[str]:
        return sorted(repr([row[column] for column in SCHEMA.names]) for row in found)

    assert sortable(actual) == sortable(result)
    with_deletes = reduce_versions(log, settings, keep_deletes=True)
    again = [row for batch in merge_with_base(batches, with_deletes, settings) for row in batch.to_pylist()]
    assert sortable(again) == sortable(result)
