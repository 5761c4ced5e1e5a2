"""Base rows found by the positions in log blocks: the same rows as by key, and by key wherever there is a doubt."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.formats.log import HeaderKey
from hudi_py.merge import LogRecords, LogSpec, merge_settings
from hudi_py.merge.spill import LogMemory
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.schema import with_meta
from tests.support.roaring import encode_positions
from tests.support.splits import with_memory
from tests.unit.merge.test_log import file_of
from tests.unit.read.tables import MadeTable, deletes, instant, plain, row

PART = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("price", pa.float64())])
COMMIT = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
GAPS = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}


def header(positions: list[int], base_at: int = 1) -> dict[HeaderKey, str]:
    return {
        HeaderKey.RECORD_POSITIONS: encode_positions(positions),
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: instant(base_at),
    }


def made(
    path: Path, seed: int, told: bool, *, partial: bool = False, properties: Mapping[str, str] = COMMIT
) -> MadeTable:
    """A base file of 400 rows and logs of updates and deletes, the same ones with positions and without."""
    rnd = random.Random(seed)
    table = MadeTable(str(path / f"{seed}{told}"), properties=properties)
    keys = ["", "é", "\U0001f600x"] + [f"{number}" * (number % 5 + 1) for number in range(397)]
    rnd.shuffle(keys)
    table.base(1, [row(key, rnd.randint(1, 5), "base", 0.5) for key in keys], row_group_rows=64)
    table.commit(1)
    for at in range(2, 7):
        some = sorted(rnd.sample(range(len(keys)), rnd.randint(1, 120)))
        gone = sorted(rnd.sample(range(len(keys)), rnd.randint(1, 30)))
        rows: list[dict[str, Any]] = [
            row(keys[place], rnd.randint(1, 6), price=float(at)) | {"name": rnd.choice([None, f"write {at}"])}
            for place in some
        ]
        own = header(some) if told else {}
        if partial and at > 4:
            rows = [{"id": each["id"], "ts": each["ts"], "price": each["price"]} for each in rows]
            table.log(at, rows, schema=PART, header={HeaderKey.IS_PARTIAL: "true", **own})
        else:
            table.log(at, rows, header=own)
        ordering = {} if rnd.random() < 0.3 else {"ts": 3}
        table.log(
            at, deletes(*(keys[place] for place in gone), **ordering), number=2, header=header(gone) if told else {}
        )
        table.commit(at)
    return table


def records(table: MadeTable, base_at: int = 1) -> LogRecords:
    """The log of the whole table, as it is merged with the base file of the write `base_at`."""
    files = [file_of(table, info.path) for info in table.storage.list("") if ".log." in info.path]
    spec = LogSpec(merge_settings(table.config))
    opened = spec.open(table.storage, sorted(files, key=lambda file: file.name.sort_key))
    log = opened.load(with_meta(table.schema), base_instant=instant(base_at))
    assert isinstance(log, LogRecords)
    return log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("properties", "partial"), [({}, False), (COMMIT, False), (GAPS, False), ({}, True), (COMMIT, True), (GAPS, True)]
)
@pytest.mark.sampled(3)
def test_the_same_rows_in_the_same_order(tmp_path: Path, properties: dict[str, str], partial: bool) -> None:
    for seed in range(3):
        tables = [made(tmp_path, seed, told, partial=partial, properties=properties) for told in (True, False)]
        assert [records(table).base_rows is not None for table in tables] == [True, False]
        for columns in (None, ["price"], ["id", "name"], ["_hoodie_record_key", "ts"]):
            found = []
            for table in tables:
                opened = hudi_py.open_table(table.uri)
                found.append([opened.scan(columns=columns, emit_deletes=emit).to_table() for emit in (False, True)])
            assert found[0][0].num_rows > 200
            assert found[0][1].num_rows > found[0][0].num_rows
            for first, second in zip(*found, strict=True):
                assert first.equals(second)


@pytest.mark.parametrize(
    ("properties", "columns", "expected"),
    [
        ({}, ["price"], {"price", "ts"}),
        (COMMIT, ["price"], {"price"}),
        (COMMIT, ["_hoodie_record_key"], {"_hoodie_record_key"}),
        (GAPS, ["price"], {"price", "ts", "_hoodie_record_key"}),
    ],
)
def test_columns_of_the_base_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, str],
    columns: list[str],
    expected: set[str],
) -> None:
    table = made(tmp_path, 1, True, properties=properties)
    read: list[set[str]] = []
    batches = BaseFileReader.batches

    def watched(reader: BaseFileReader, schema: pa.Schema, **more: Any) -> Any:
        for batch in batches(reader, schema, **more):
            read.append(set(batch.schema.names))
            yield batch

    monkeypatch.setattr(BaseFileReader, "batches", watched)
    (split,) = hudi_py.open_table(table.uri).scan(columns=columns).splits()
    assert sum(batch.num_rows for batch in hudi_py.read_split(split)) > 200
    assert all(names == expected for names in read)
    assert read


def small(path: Path, **properties: str) -> MadeTable:
    table = MadeTable(str(path / "t"), properties=properties)
    table.base(1, [row(key, 1, "base") for key in "abcdef"])
    table.commit(1)
    return table


def names(table: MadeTable) -> dict[str, str]:
    found = hudi_py.open_table(table.uri).scan(columns=["name"]).to_table()["name"].to_pylist()
    keyed = plain(hudi_py.open_table(table.uri).scan(columns=["id", "name"]).to_table())
    assert sorted(found) == sorted(name for _, name in keyed)
    return dict(keyed)


def test_no_columns_but_rows(tmp_path: Path) -> None:
    table = small(tmp_path, **COMMIT)
    table.log(2, deletes("b", "e"), header=header([1, 4]))
    table.commit(2)
    (split,) = hudi_py.open_table(table.uri).scan(columns=["name"]).splits()
    assert sum(batch.num_rows for batch in hudi_py.read_split(split)) == 4
    assert hudi_py.open_table(table.uri).scan().count() == 4


def test_a_position_is_believed(tmp_path: Path) -> None:
    """The row is that of the position, as in Java; the writer vouches for it."""
    table = small(tmp_path)
    table.log(2, [row("b", 2, "new")], header=header([2]))
    table.commit(2)
    assert records(table).base_rows is not None
    found = hudi_py.open_table(table.uri).scan(columns=["id", "name"]).to_table()
    assert found["id"].to_pylist() == ["a", "b", "d", "e", "f", "b"]


DOUBTS: dict[str, Any] = {
    "a block without positions": lambda table: table.log(3, [row("c", 2, "c3")]),
    "a block of another base file": lambda table: table.log(3, [row("c", 2, "c3")], header=header([2], 5)),
    "a key with two positions": lambda table: table.log(
        3, [row("b", 2, "b3"), row("c", 2, "c3")], header=header([2, 3])
    ),
    "a position with two keys": lambda table: table.log(3, [row("c", 2, "c3")], header=header([1])),
    "too few positions": lambda table: table.log(3, [row("c", 2, "c3"), row("d", 2, "d3")], header=header([2])),
    "too many positions": lambda table: table.log(3, [row("c", 2, "c3")], header=header([2, 3])),
    "no positions": lambda table: table.log(3, [row("c", 2, "c3")], header=header([])),
    "a damaged header": lambda table: table.log(
        3, [row("c", 2, "c3")], header={**header([2]), HeaderKey.RECORD_POSITIONS: "AQAAAAAA"}
    ),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_by_key_where_there_is_a_doubt(tmp_path: Path, doubt: str) -> None:
    table = small(tmp_path)
    table.log(2, [row("b", 2, "b2")], header=header([1]))
    table.commit(2)
    DOUBTS[doubt](table)
    table.commit(3)
    assert records(table).base_rows is None
    found = names(table)
    assert found["c"] == "c3"
    assert found["b"] in ("b2", "b3")
    assert found.keys() == set("abcdef")
    assert len(hudi_py.open_table(table.uri).scan().to_table()) == 6


def test_a_position_beyond_the_base_file(tmp_path: Path) -> None:
    table = small(tmp_path)
    table.log(2, [row("b", 2, "b2")], header=header([6]))
    table.commit(2)
    assert records(table).base_rows is not None
    assert names(table) == {**dict.fromkeys("acdef", "base"), "b": "b2"}
    assert len(hudi_py.open_table(table.uri).scan().to_table()) == 6


def test_positions_of_another_base_file(tmp_path: Path) -> None:
    table = small(tmp_path)
    table.log(2, [row("b", 2, "b2")], header=header([3], 1))
    table.commit(2)
    assert records(table, 2).base_rows is None


def test_keys_made_of_columns(tmp_path: Path) -> None:
    """Of a table without meta columns rows are found by key."""
    table = small(tmp_path, **{"hoodie.populate.meta.fields": "false"})
    table.log(2, [row("b", 2, "b2")], header=header([3]))
    table.commit(2)
    assert names(table) == {**dict.fromkeys("acdef", "base"), "b": "b2"}


def test_a_spilled_log_is_merged_by_key(tmp_path: Path) -> None:
    found = []
    for told in (True, False):
        table = made(tmp_path, 4, told)
        scan = hudi_py.open_table(table.uri).scan(columns=["price", "id"])
        (split,) = scan.splits()
        split = with_memory(split, LogMemory(1000))
        found.append(pa.Table.from_batches(list(hudi_py.read_split(split))))
    assert found[0].equals(found[1])
    whole = scan.to_table()
    assert not found[0].equals(whole), "nothing was spilled"
    assert plain(found[0]) == plain(whole)
