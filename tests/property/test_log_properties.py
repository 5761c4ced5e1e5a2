"""Log files under random content: what is written is read; what is damaged never crashes, hangs or invents data."""

from __future__ import annotations

import contextlib
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.log import (
    BlockType,
    HeaderKey,
    decode_deletes,
    encode_block,
    encode_deletes,
    read_blocks,
    read_content,
)
from tests.unit.formats.one_file import OneFile

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
TYPES = st.sampled_from([kind for kind in BlockType if kind is not BlockType.CORRUPT])
# the magic inside a content must not split a whole block
CONTENT = st.one_of(st.binary(max_size=60), st.just(b"..#HUDI#.."), st.just(b"#HUDI#"))
BLOCKS = st.lists(st.tuples(TYPES, st.dictionaries(st.sampled_from(HeaderKey), TEXT), CONTENT), max_size=5)
ORDERING: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=10),
    pa.bool_(): st.booleans(),
    pa.decimal128(30, 15): st.integers(-(10**30) + 1, 10**30 - 1).map(
        lambda value: Decimal((value < 0, tuple(map(int, str(abs(value)))), -15))
    ),
}


@st.composite
def deletes(draw: st.DrawFn) -> tuple[list[str], list[str | None], pa.Array | None]:
    rows = draw(st.integers(0, 8))
    keys = draw(st.lists(TEXT, min_size=rows, max_size=rows))
    partitions = draw(st.lists(st.none() | TEXT, min_size=rows, max_size=rows))
    if draw(st.booleans()):
        return keys, partitions, None
    columns = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(list(ORDERING)))
        columns.append(pa.array(draw(st.lists(st.none() | ORDERING[kind], min_size=rows, max_size=rows)), kind))
    if len(columns) == 1:
        return keys, partitions, columns[0]
    return keys, partitions, pa.StructArray.from_arrays(columns, names=[str(at) for at in range(len(columns))])


@given(BLOCKS, st.binary(max_size=5))
def test_blocks_round_trip(blocks: list[tuple[BlockType, dict[HeaderKey, str], bytes]], rest: bytes) -> None:
    data = b"".join(encode_block(*block) for block in blocks) + (rest if blocks else b"")
    storage = OneFile(data)
    read = list(read_blocks(storage, "f", len(data)))
    left = [(BlockType.CORRUPT, {}, rest)] if blocks and rest else []
    assert [(block.type, block.header, read_content(storage, block)) for block in read] == blocks + left


@given(BLOCKS.filter(bool), st.data())
def test_truncated_files_keep_their_whole_blocks(
    blocks: list[tuple[BlockType, dict[HeaderKey, str], bytes]], data: st.DataObject
) -> None:
    encoded = [encode_block(*block) for block in blocks]
    cut = data.draw(st.integers(0, sum(map(len, encoded)) - 1))
    whole = 0
    while sum(map(len, encoded[: whole + 1])) <= cut:
        whole += 1
    torn = b"".join(encoded)[:cut]
    storage = OneFile(torn)
    read = list(read_blocks(storage, "f", cut))
    assert [(b.type, b.header, read_content(storage, b)) for b in read[:whole]] == blocks[:whole]
    assert all(block.type is BlockType.CORRUPT for block in read[whole:])


@settings(max_examples=70)
@given(BLOCKS.filter(bool), st.data())
def test_damaged_files_give_blocks_or_one_error(
    blocks: list[tuple[BlockType, dict[HeaderKey, str], bytes]], data: st.DataObject
) -> None:
    damaged = bytearray(b"".join(encode_block(*block) for block in blocks))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    storage = OneFile(bytes(damaged))
    try:
        for block in read_blocks(storage, "f", len(damaged)):
            assert 0 <= block.content_offset <= block.content_offset + block.content_length <= len(damaged)
            read_content(storage, block)
    except (CorruptFileError, UnsupportedTableError):
        pass


@given(st.binary(max_size=200))
def test_any_bytes_as_a_log_file(data: bytes) -> None:
    with contextlib.suppress(CorruptFileError, UnsupportedTableError):
        list(read_blocks(OneFile(b"#HUDI#" + data), "f", len(data) + 6))


@given(deletes())
def test_deletes_round_trip(case: tuple[list[str], list[str | None], pa.Array | None]) -> None:
    keys, partitions, ordering = case
    read = decode_deletes(
        encode_deletes(pa.array(keys, pa.string()), pa.array(partitions, pa.string()), ordering), context="f"
    )
    assert read.keys.to_pylist() == keys
    assert read.partitions.to_pylist() == partitions
    values = [None] * len(keys) if ordering is None else ordering.to_pylist()
    if ordering is not None and ordering.type == pa.int32():
        values = [value or None for value in values]
    if ordering is not None and pa.types.is_struct(ordering.type):
        assert not read.is_default.any()
        if ordering is not None and read.ordering is not None:
            found, wanted = read.ordering.to_pylist(), ordering.to_pylist()
            assert [[_plain(row[at]) for at in row] for row in found] == [
                [_plain(row[at]) for at in row] for row in wanted
            ]
        return
    assert (read.ordering.to_pylist() if read.ordering is not None else [None] * len(keys)) == values
    assert read.is_default.tolist() == [value is None for value in values]


def _plain(value: object) -> object:
    """In several fields the int 0 and null are one value."""
    return None if value == 0 and isinstance(value, int) and not isinstance(value, bool) else value


@settings(max_examples=70)
@given(deletes(), st.data())
def test_damaged_deletes_give_deletes_or_an_error(
    case: tuple[list[str], list[str | None], pa.Array | None], data: st.DataObject
) -> None:
    keys, partitions, ordering = case
    damaged = bytearray(encode_deletes(pa.array(keys, pa.string()), pa.array(partitions, pa.string()), ordering))
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(8, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(damaged)))
    body = bytes(damaged[8:cut])
    try:
        read = decode_deletes(b"\x00\x00\x00\x03" + len(body).to_bytes(4, "big") + body, context="f")
    except (CorruptFileError, UnsupportedTableError):
        return
    read.keys.validate(full=True)
    read.partitions.validate(full=True)
    if read.ordering is not None:
        read.ordering.validate(full=True)
