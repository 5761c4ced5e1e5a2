"""What our writes log of their changes: Apache Hudi's query of changes finds in it what ours does, and what the same
writes of Apache Hudi itself tell."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.properties import update_table_config
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import data_files, make_table, write
from tests.faults.tables import rows as kept_rows
from tests.oracle.client import Oracle
from tests.oracle.test_changes import compare, replay
from tests.support.choice import cases, in_turn

KEYS = {"record_key": "id", "ordering_by": "ts", "partition_by": "city"}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("note", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("tags", pa.list_(pa.struct([("name", pa.string()), ("n", pa.int32())]))),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
MODES = ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER")
LARGE = "104857600"
EVERY = list(product((6, 8, 9), ("cow", "mor"), MODES, ("0", LARGE)))
UPDATE = "UPDATE {table} SET note = concat(note, '!'), ts = ts + 1 WHERE id IN ('k4', 'k5', 'k30')"
DELETE = "DELETE FROM {table} WHERE id IN ('k6', 'k31', 'k99')"


def rows(keys: Iterable[int], ts: int, note: str | None, *, deleted: bool = False, more: bool = False) -> pa.Table:
    listed = [
        {
            "id": f"k{key}",
            "ts": ts,
            "city": "oslo" if key % 2 else "rome",
            "note": note,
            "price": None if key % 3 else key,
            "tags": None if key % 5 == 0 else [{"name": "a", "n": key}, {"name": None, "n": None}],
            "_hoodie_is_deleted": deleted,
        }
        for key in keys
    ]
    table = pa.Table.from_pylist(listed, SCHEMA)
    return table.append_column("extra", pa.array([7] * table.num_rows, pa.int32())) if more else table


Step = tuple[str, Any]


def steps(kind: str, *, into_small: bool) -> list[Step]:
    """A history with every operation. `into_small`: with an insert that may fill a small file, which Apache Hudi does
    not log."""
    found: list[Step] = [
        ("insert", rows(range(20), 10, "a")),
        ("upsert", pa.concat_tables([rows((0, 1, 2, 30, 31), 11, "b"), rows((6, 7), 5, "late"), rows((8,), 10, "a")])),
        ("delete", rows((1, 9, 90), 3, None)),
        ("upsert", rows((2, 91), 12, "c", deleted=True)),
    ]
    if kind == "mor":
        found.append(("compact", None))
    else:  # merge on read, both queries tell deletes that came too late
        found.append(("upsert", rows((3,), 1, "c", deleted=True)))
    found += [("upsert", rows((0, 4, 40), 13, "d")), ("update", None), ("delete_where", None)]
    if into_small:
        found.append(("insert", rows((44, 45, 46), 14, "i")))
    return [
        *found,
        ("bulk_insert", rows((50, 51), 15, "e")),
        ("insert_overwrite", rows((60, 62), 16, "f")),
        ("upsert", rows((62, 63, 7), 17, "g", more=True)),
        ("delete_partition", rows((1,), 18, None, more=True)),
        ("upsert", rows((60, 65), 19, "h", more=True)),
        ("insert_overwrite_table", rows((70, 71, 72), 20, "j", more=True)),
        ("upsert", rows((70, 72, 73), 21, "k", more=True)),
    ]


def options(version: int, mode: str, small: str) -> dict[str, str]:
    return {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.write.table.version": str(version),
        "hoodie.parquet.small.file.limit": small,
        "hoodie.clean.automatic": "false",
        "hoodie.compact.inline": "false",
    }


def ours(path: Path, step: Step, kind: str, given: dict[str, str]) -> None:
    name, data = step
    quick = {**given, "hoodie.time.generator.max_expected_clock_skew_ms": "1"}
    if name in ("compact", "update", "delete_where"):
        table = hudi_py.open_table(path, quick)
        if name == "compact":
            assert table.compact().instant is not None
        elif name == "update":
            table.update({"note": "note || '!'", "ts": "ts + 1"}, "id IN ('k4', 'k5', 'k30')")
        else:
            table.delete("id IN ('k6', 'k31', 'k99')")
        return
    hudi_py.write(path, data, name, quick, table_type=kind, **KEYS)


def theirs(oracle: Oracle, path: Path, step: Step, kind: str, given: dict[str, str]) -> None:
    name, data = step
    if name == "compact":
        few = "hoodie.compact.inline.max.delta.commits=1"
        call = f"run_compaction(op => 'scheduleAndExecute', table => '{{table}}', options => '{few}')"
        oracle.call(path, call, options=given)
    elif name in ("update", "delete_where"):
        oracle.sql(UPDATE if name == "update" else DELETE, path, given)
    else:
        version = int(given["hoodie.write.table.version"])
        keys = {"key": "id", "ordering": "ts", "partition": "city"}
        oracle.write(path, data, name, **keys, type=kind, table_version=version, options=given)


def told(path: Path, changes: pa.Table, columns: Iterable[str]) -> Counter[tuple[int, str, str, str]]:
    """The changes by the number of their commit: the operation, and columns before and after, without nulls."""
    numbers = {each.time: number for number, each in enumerate(hudi_py.open_table(path).timeline.write_completed)}

    def image(text: str | None) -> str:
        row = json.loads(text or "null") or {}
        return json.dumps({name: row[name] for name in columns if row.get(name) is not None})

    return Counter(
        (numbers[row["ts_ms"]], row["op"], image(row["before"]), image(row["after"])) for row in changes.to_pylist()
    )


def check_replay(path: Path, changes: pa.Table) -> None:
    snapshot = hudi_py.open_table(path).scan(["id", "ts"]).to_table()
    assert replay(changes) == dict(zip(snapshot["id"].to_pylist(), snapshot["ts"].to_pylist(), strict=True))


@in_turn("change logs", 1, 2)
@pytest.mark.parametrize(("version", "kind", "mode", "small"), cases(EVERY, "change logs read", 1, quick=[]))
def test_apache_hudi_reads_our_changes(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, mode: str, small: str
) -> None:
    table, given = tmp_path / "t", options(version, mode, small)
    for step in steps(kind, into_small=True):
        ours(table, step, kind, given)
    compare(oracle, table, "000")
    assert oracle.check(table)["problems"] == []


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_oldest_release_reads_our_changes(oracle_015: Oracle, tmp_path: Path, kind: str, mode: str) -> None:
    """It writes columns of structs and lists in a form of its own, and of replaced rows repeats the last."""
    table, given = tmp_path / "t", options(6, mode, LARGE)
    for step in steps(kind, into_small=True):
        if step[0] not in ("insert_overwrite", "delete_partition", "insert_overwrite_table"):
            ours(table, step, kind, given)
    own = hudi_py.open_table(table)
    assert_rows_equal(own.scan().to_table(), oracle_015.read(table))
    found = [
        told(table, each, ("id", "ts", "note"))
        for each in (
            own.scan(query_type="cdc", begin="000").to_table(),
            oracle_015.read(table, query_type="cdc", begin="000"),
        )
    ]
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.parametrize(("version", "kind", "mode", "small"), EVERY)
def test_the_same_writes_tell_the_same_changes(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, mode: str, small: str
) -> None:
    own, other, given = tmp_path / "own" / "t", tmp_path / "other" / "t", options(version, mode, small)
    for step in steps(kind, into_small=False):
        ours(own, step, kind, given)
        theirs(oracle, other, step, kind, given)
    changes = compare(oracle, own, "000")
    # images from logs and from base files write other columns differently, and new keys go to other files
    columns = ("id", "ts", "city", "note", "extra")
    assert told(own, changes, columns) == told(other, compare(oracle, other, "000"), columns)
    check_replay(own, changes)


@pytest.mark.nightly
@in_turn("change logs", 0, 2)
@pytest.mark.parametrize("version", cases((6, 9), "change logs rolled back", 1, quick=[]))
def test_apache_hudi_rolls_back_our_killed_write(oracle: Oracle, tmp_path: Path, version: int) -> None:
    table, root = tmp_path / "t", tmp_path / "killed"
    make_table(table, version, "cow")
    update_table_config(LocalStorage(str(table)), {"hoodie.table.cdc.enabled": "true"})
    before = data_files(table)
    shutil.copytree(table, tmp_path / "whole")
    whole = KillingStorage(str(tmp_path / "whole"))
    write(whole, kept_rows(range(2, 14), 3), "upsert", version, "cow")
    published = max(number for number, call in enumerate(whole.calls) if call.startswith("rename"))
    shutil.copytree(table, root)
    with pytest.raises(Killed):
        write(KillingStorage(str(root), published + 1), kept_rows(range(2, 14), 3), "upsert", version, "cow")
    left = data_files(root) - before
    assert len({path for path in left if path.endswith(".cdc")}) == 2
    oracle.write(root, kept_rows(range(20, 23), 4), "upsert")
    assert not left & data_files(root)
    assert not {path for path in data_files(root) if ".log." in path and not path.endswith(".cdc")}
    assert len(compare(oracle, root, hudi_py.open_table(root).timeline.write_completed[1].time)) == 3


@pytest.mark.long
@pytest.mark.parametrize(("version", "kind", "mode", "small"), EVERY)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str, mode: str, small: str, first: str) -> None:
    table, given = tmp_path / "t", options(version, mode, small)
    for number, step in enumerate(steps(kind, into_small=False)):
        if number % 2 == (first == "theirs"):
            ours(table, step, kind, given)
        else:
            theirs(oracle, table, step, kind, given)
    check_replay(table, compare(oracle, table, "000"))
    assert oracle.check(table)["problems"] == []
