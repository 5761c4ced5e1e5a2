from __future__ import annotations

import datetime
import decimal
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.avro import encode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, encode_block
from hudi_py.merge import CommittedInstants, LogSpec, MergeSettings, SliceLog, scan_log
from hudi_py.merge.decode import read_versions
from hudi_py.merge.settings import COMMIT_TIME, EVENT_TIME
from hudi_py.model.files import LogFile
from hudi_py.model.names import PartitionPath, parse_log_file_name
from hudi_py.schema import with_meta
from tests.support.hfiles import build_hfile
from tests.unit.read.tables import SCHEMA, MadeTable, deletes, instant, row

EVENT = MergeSettings(EVENT_TIME, ("ts",))
COMMIT = MergeSettings(COMMIT_TIME)


def file_of(table: MadeTable, path: str) -> LogFile:
    name = parse_log_file_name(path.rpartition("/")[2])
    info = table.storage.stat(path)
    assert name is not None
    assert info is not None
    return LogFile(PartitionPath(path.rpartition("/")[0]), name, info.size)


def reduced(
    table: MadeTable, paths: list[str], settings: MergeSettings = EVENT, schema: pa.Schema | None = None
) -> Any:
    files = [file_of(table, path) for path in paths]
    blocks = scan_log(table.storage, files, committed=None)
    return SliceLog(table.storage, blocks, LogSpec(settings)).load(with_meta(schema or table.schema))


@pytest.fixture
def table(tmp_path: Any) -> MadeTable:
    return MadeTable(str(tmp_path / "t"))


def test_blocks_that_count(table: MadeTable) -> None:
    paths = [table.log(number, [row("a", number)]) for number in (2, 3, 4)]
    files = [file_of(table, path) for path in paths]
    every = scan_log(table.storage, files, committed=None)
    assert [block.instant_time for block in every] == [instant(2), instant(3), instant(4)]
    assert len(scan_log(table.storage, files, committed=None, as_of=instant(3))) == 2
    committed = CommittedInstants(instant(3), frozenset({instant(4)}))
    assert [b.instant_time for b in scan_log(table.storage, files, committed=committed)] == [instant(2), instant(4)]
    assert "x" not in CommittedInstants("", frozenset())
    assert 5 not in committed


def test_projection_reaches_the_decoder(table: MadeTable) -> None:
    paths = [table.log(2, [row("a", 1), row("b", 5)], deletes("b", ts=5)), table.log(3, [row("c", 1)], deletes("a"))]
    narrow = pa.schema([("_hoodie_record_key", pa.string()), ("ts", pa.int64())])
    files = [file_of(table, path) for path in paths]
    records = LogSpec(EVENT).open(table.storage, files).load(narrow)
    assert records is not None
    assert records.rows.schema == narrow
    assert records.rows.to_pydict() == {"_hoodie_record_key": ["c"], "ts": [1]}
    assert dict(zip(records.keys.to_pylist(), records.winners.deletes.tolist(), strict=True)) == {
        "a": True,
        "b": True,
        "c": False,
    }


def test_nothing_in_the_log(table: MadeTable) -> None:
    assert reduced(table, []) is None
    assert reduced(table, [table.put_log(b"", 2)]) is None


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.int32(), 1, 2),
        (pa.float64(), -0.5, 2.5),
        (pa.string(), "a", "é"),
        (pa.bool_(), False, True),
        (pa.decimal128(10, 2), decimal.Decimal("1.10"), decimal.Decimal("1.11")),
        (pa.timestamp("us", "UTC"), datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)),
        (pa.date32(), datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
    ],
)
def test_delete_ordering_of_every_type(table: MadeTable, kind: pa.DataType, low: Any, high: Any) -> None:
    schema = SCHEMA.set(1, pa.field("ts", kind))
    made = MadeTable(table.uri + "-typed", schema=schema)
    rows = [{"id": key, "ts": low if key == "low" else high} for key in ("low", "high")]
    entries = pa.table({"id": ["low", "high"], "ts": pa.array([high, low], kind)})
    records = reduced(made, [made.log(2, rows, entries)], schema=schema)
    assert records.rows["id"].to_pylist() == ["high"]
    assert len(records) == 2
    assert not np.any(records.winners.always)


def test_a_delete_of_another_type_wins(table: MadeTable) -> None:
    schema = SCHEMA.set(1, pa.field("ts", pa.string()))
    made = MadeTable(table.uri + "-typed", schema=schema)
    path = made.log(2, [{"id": "a", "ts": "zz"}], deletes("a", ts=1))
    records = reduced(made, [path], schema=schema)
    assert records.rows.num_rows == 0
    assert records.winners.always.tolist() == [True]


def test_several_ordering_fields(table: MadeTable) -> None:
    settings = MergeSettings(EVENT_TIME, ("ts", "name"))
    records = reduced(table, [table.log(2, [row("a", 1, "b"), row("a", 1, "a"), row("b", 1)], deletes("b"))], settings)
    assert records.rows["name"].to_pylist() == ["b"]
    with pytest.raises(UnsupportedTableError, match="the table by 2 fields"):
        reduced(table, [table.log(3, [row("a", 1)], deletes("a", ts=5))], settings)


def test_delete_marker_columns(tmp_path: Any) -> None:
    schema = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.bool_()), ("op", pa.string())])
    table = MadeTable(str(tmp_path / "t"), schema=schema)
    rows = [
        {**row("a", 5), "_hoodie_is_deleted": True},
        {**row("b", 5), "op": "d"},
        {**row("c", 5), "op": "u", "_hoodie_is_deleted": False},
    ]
    path = table.log(2, rows)
    assert reduced(table, [path]).rows["id"].to_pylist() == ["b", "c"]
    marked = MergeSettings(EVENT_TIME, ("ts",), "op", "d")
    assert reduced(table, [path], marked).rows["id"].to_pylist() == ["c"]


def test_corrupt_content_is_an_error(table: MadeTable) -> None:
    head = {HeaderKey.INSTANT_TIME: instant(2)}
    no_schema = table.put_log(encode_block(BlockType.AVRO, head, b"\0" * 8), 2)
    with pytest.raises(CorruptFileError, match="SCHEMA"):
        reduced(table, [no_schema])
    short = table.put_log(
        encode_block(BlockType.AVRO, {HeaderKey.INSTANT_TIME: instant(3), HeaderKey.SCHEMA: "{}"}, b"\0"), 3
    )
    with pytest.raises(CorruptFileError):
        reduced(table, [short])
    no_instant = table.put_log(encode_block(BlockType.DELETE, {}, b""), 4)
    with pytest.raises(CorruptFileError, match="INSTANT_TIME"):
        reduced(table, [no_instant])
    parquet = table.put_log(encode_block(BlockType.PARQUET, {HeaderKey.INSTANT_TIME: instant(5)}, b"PAR1 not"), 5)
    with pytest.raises(CorruptFileError, match="Parquet block"):
        reduced(table, [parquet])
    hfile = table.put_log(encode_block(BlockType.HFILE, {HeaderKey.INSTANT_TIME: instant(6)}, b""), 6)
    with pytest.raises(CorruptFileError, match="SCHEMA"):
        reduced(table, [hfile])
    cdc = table.put_log(encode_block(BlockType.COMMAND, {**head, HeaderKey.COMMAND_BLOCK_TYPE: "0"}, b""), 7)
    assert reduced(table, [cdc]) is None


def test_a_writer_schema_that_does_not_fit(table: MadeTable) -> None:
    other = SCHEMA.set(1, pa.field("ts", pa.string()))
    path = table.log(2, [{"id": "a", "ts": "x"}], schema=other)
    with pytest.raises(SchemaMismatchError, match="'ts'"):
        reduced(table, [path])


def test_commit_time_takes_the_last_of_all(table: MadeTable) -> None:
    paths = [
        table.log(2, [row("a", 9)], deletes("b", ts=9)),
        table.log(3, [row("b", 1)], deletes("a"), [row("c", 1, "first")]),
        table.log(4, [row("c", 0, "last")]),
    ]
    records = reduced(table, paths, COMMIT)
    assert records.rows["id"].to_pylist() == ["b", "c"]
    assert records.rows["name"].to_pylist() == ["n", "last"]


def test_several_instants_in_one_log_file(tmp_path: Any) -> None:
    table = MadeTable(str(tmp_path / "t"), version=6)
    first, second, rolled = (table.log(at, [row("a", at, f"write {at}")], number=at) for at in (2, 3, 4))
    data = b"".join(table.storage.read(path) for path in (first, second, rolled))
    path = table.put_log(data + table.rollback_block(5, 4), 9, number=9)
    assert reduced(table, [path]).rows["name"].to_pylist() == ["write 3"]
    blocks = scan_log(table.storage, [file_of(table, path)], committed=CommittedInstants("", frozenset({instant(2)})))
    assert [block.instant_time for block in blocks] == [instant(2)]


def test_log_compacted_blocks_stand_for_others_transitively(table: MadeTable) -> None:
    paths = [table.log(at, [row("a", 1, f"write {at}"), row(f"only {at}", 1)]) for at in (2, 3, 4)]
    compacted = {HeaderKey.COMPACTED_BLOCK_TIMES: f"{instant(2)},{instant(3)}"}
    paths.append(table.log(5, [row("a", 1, "two of them"), row("only 5", 1)], header=compacted))
    again = {HeaderKey.COMPACTED_BLOCK_TIMES: instant(5)}
    paths.append(table.log(6, [row("a", 1, "all of them"), row("only 6", 1)], header=again))
    blocks = scan_log(table.storage, [file_of(table, path) for path in paths], committed=None)
    assert [block.instant_time for block in blocks] == [instant(6), instant(4)]
    found = reduced(table, paths, COMMIT)
    assert sorted(found.rows["id"].to_pylist()) == ["a", "only 4", "only 6"]
    assert "write 4" in found.rows["name"].to_pylist()


def test_column_names_are_checked_once_for_each_writer_schema(
    table: MadeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [table.log(at, [row(f"k{at}", at)]) for at in (2, 3, 4)]
    blocks = scan_log(table.storage, [file_of(table, path) for path in paths], committed=None)
    other = json.dumps({**json.loads(blocks[2].header[HeaderKey.SCHEMA]), "doc": "of another writer"})
    blocks[2] = replace(blocks[2], header={**blocks[2].header, HeaderKey.SCHEMA: other})
    checked: list[str] = []
    monkeypatch.setattr(
        "hudi_py.merge.decode.check_column_names", lambda storage, block, *given: checked.append(block.instant_time)
    )
    list(read_versions(table.storage, blocks, with_meta(table.schema), EVENT))
    assert sorted(checked) == [instant(2), instant(4)]


def test_contents_are_read_a_portion_at_a_time(table: MadeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [table.log(at, [row(f"k{at}", at)], deletes("x")) for at in (2, 3, 4)]
    blocks = scan_log(table.storage, [file_of(table, path) for path in paths], committed=None)
    schema = with_meta(table.schema)
    parts = list(read_versions(table.storage, blocks, schema, EVENT, portion_bytes=1))
    assert [(part.rows.num_rows, part.entries.num_rows) for part in parts] == [(1, 0), (0, 1)] * 3
    assert [list(part.position) or part.entries["position"].to_pylist() for part in parts] == [
        [0],
        [1],
        [2],
        [3],
        [4],
        [5],
    ]
    (whole,) = read_versions(table.storage, blocks, schema, EVENT)
    assert len(whole) == 6
    asked: list[Any] = []
    monkeypatch.setattr("hudi_py.merge.decode.read_content", lambda *given: asked.append(given))
    with pytest.raises(UnsupportedTableError, match="type CDC"):
        SliceLog(table.storage, [*blocks, replace(blocks[0], type=BlockType.CDC)], LogSpec(EVENT))
    assert asked == [], "a block that cannot be read is refused before any is"


def test_hfile_blocks(table: MadeTable) -> None:
    rows = table.rows([row("b", 2), row("a", 3, "é", None)], 2)
    content = encode_log_content(rows.sort_by("_hoodie_record_key"), table.avro())
    # the frames of an Avro block: version and count, then length and bytes of each record
    records, at = [], 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        records.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    header = {HeaderKey.INSTANT_TIME: instant(2), HeaderKey.SCHEMA: json.dumps(table.avro())}
    block = encode_block(BlockType.HFILE, header, build_hfile(list(zip([b"a", b"b"], records, strict=True))))
    found = reduced(table, [table.put_log(block, 2), table.log(3, [row("b", 1), row("c", 1)])])
    assert sorted(zip(found.rows["id"].to_pylist(), found.rows["ts"].to_pylist(), strict=True)) == [
        ("a", 3),
        ("b", 2),
        ("c", 1),
    ]
    torn = table.put_log(encode_block(BlockType.HFILE, header, b"no hfile"), 4)
    with pytest.raises(CorruptFileError):
        reduced(table, [torn])
