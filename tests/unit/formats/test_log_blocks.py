"""Log blocks: exact bytes, lazy reading, corruption and resynchronisation."""

from __future__ import annotations

import pickle
import struct

import pytest

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.log import (
    BlockType,
    HeaderKey,
    LogBlock,
    encode_block,
    encode_rollback_block,
    read_blocks,
    read_content,
)
from hudi_py.formats.log import reader as reader_module
from tests.unit.formats.one_file import OneFile

FIRST = encode_block(BlockType.AVRO, {HeaderKey.INSTANT_TIME: "20240101000000000", HeaderKey.SCHEMA: '"long"'}, b"abc")
SECOND = encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "20240101000000001"}, b"0123456789")


def blocks_of(data: bytes, *, size: int | None = None) -> list[LogBlock]:
    storage = OneFile(data)
    return list(read_blocks(storage, "p/f.log", len(data) if size is None else size))


def shape(data: bytes) -> list[tuple[str, bytes]]:
    return [(block.type.name, read_content(OneFile(data), block)) for block in blocks_of(data)]


def test_bytes_of_a_rollback_block() -> None:
    expected = (
        b"#HUDI#"
        + struct.pack(">qii", 63, 1, 0)
        + struct.pack(">i", 3)
        + struct.pack(">ii", 0, 3) + b"002"
        + struct.pack(">ii", 1, 3) + b"001"
        + struct.pack(">ii", 3, 1) + b"0"
        + struct.pack(">q", 0)
        + struct.pack(">i", 0)
        + struct.pack(">q", 69)
    )  # fmt: skip
    assert encode_rollback_block("002", "001") == expected
    (block,) = blocks_of(expected)
    assert block.is_rollback
    assert block.header[HeaderKey.TARGET_INSTANT_TIME] == "001"
    assert block.content_length == 0


def test_blocks_in_order_with_lazy_content() -> None:
    data = FIRST + SECOND
    first, second = blocks_of(data)
    assert (first.type, first.instant_time) == (BlockType.AVRO, "20240101000000000")
    assert first.header[HeaderKey.SCHEMA] == '"long"'
    assert first.type.is_data
    assert not second.type.is_data
    assert not first.is_partial
    assert data[second.content_offset : second.content_offset + second.content_length] == b"0123456789"
    assert read_content(OneFile(data), second) == b"0123456789"
    assert pickle.loads(pickle.dumps(first)) == first


def test_empty_file_and_short_rest() -> None:
    assert blocks_of(b"") == []
    assert shape(b"#HUD") == [("CORRUPT", b"#HUD")]
    assert shape(FIRST + b"#HUD") == [("AVRO", b"abc"), ("CORRUPT", b"#HUD")]


def test_later_appends_are_not_seen() -> None:
    assert [block.type for block in blocks_of(FIRST + SECOND, size=len(FIRST))] == [BlockType.AVRO]


def test_file_that_does_not_begin_with_a_block() -> None:
    with pytest.raises(CorruptFileError, match=r"p/f\.log: expected a block's magic .* at byte 0"):
        blocks_of(b"PAR1PAR1PAR1")


@pytest.mark.parametrize("cut", [6, 10, 14, 20, len(SECOND) - 1])
def test_torn_tail(cut: int) -> None:
    assert shape(FIRST + SECOND[:cut]) == [("AVRO", b"abc"), ("CORRUPT", SECOND[6:cut])]


def test_block_torn_in_the_middle_of_the_file() -> None:
    torn = FIRST[:-5]
    assert shape(torn + SECOND) == [("CORRUPT", torn[6:]), ("DELETE", b"0123456789")]


def test_trailer_that_does_not_match() -> None:
    broken = FIRST[:-1] + b"\x00"
    assert shape(broken + SECOND) == [("CORRUPT", broken[6:]), ("DELETE", b"0123456789")]


def test_block_followed_by_something_else() -> None:
    assert shape(FIRST + b"garbage" + SECOND) == [("CORRUPT", FIRST[6:] + b"garbage"), ("DELETE", b"0123456789")]


@pytest.mark.parametrize("size", [-1, 0, 31, 2**62, -(2**63)])
def test_impossible_sizes(size: int) -> None:
    data = b"#HUDI#" + struct.pack(">q", size) + FIRST[14:]
    assert [kind for kind, _ in shape(data + SECOND)] == ["CORRUPT", "DELETE"]


def test_magic_across_two_scan_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_SMALL_FILE", 0)
    monkeypatch.setattr(reader_module, "_STEP", 16)
    monkeypatch.setattr(reader_module, "_SCAN_WINDOW", 50)
    for padding in range(40, 60):
        torn = b"#HUDI#" + struct.pack(">q", 10**6) + b"x" * padding
        assert shape(torn + SECOND) == [("CORRUPT", torn[6:]), ("DELETE", b"0123456789")]


def test_large_files_are_read_in_small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_block(BlockType.AVRO, {HeaderKey.INSTANT_TIME: "1"}, bytes(3_000_000)) * 3
    storage = OneFile(data)
    found = list(read_blocks(storage, "f", len(data)))
    assert [block.content_length for block in found] == [3_000_000] * 3
    assert len(storage.reads) == 4  # the start, and the end of each block
    assert sum(storage.reads) < 300_000


def test_file_shorter_than_listed() -> None:
    (block, rest) = blocks_of(FIRST + SECOND[:20], size=10**6)
    assert (block.type, rest.type) == (BlockType.AVRO, BlockType.CORRUPT)
    assert rest.content_offset + rest.content_length == 10**6
    (block, rest) = blocks_of(FIRST, size=10**6)
    assert (block.type, rest.type) == (BlockType.AVRO, BlockType.CORRUPT)
    with pytest.raises(CorruptFileError, match="expected 3 bytes of content"):
        read_content(OneFile(FIRST[: block.content_offset + 1]), block)


def patched(block: bytes, offset: int, value: int, form: str = ">i") -> bytes:
    return block[:offset] + struct.pack(form, value) + block[offset + struct.calcsize(form) :]


@pytest.mark.parametrize(
    ("offset", "value", "error", "message"),
    [
        (14, 0, UnsupportedTableError, "log format version is 0"),
        (14, 2, UnsupportedTableError, "log format version is 2"),
        (18, 7, UnsupportedTableError, "block type 7"),
        (18, 2, UnsupportedTableError, "block type 2"),
        (22, -1, CorruptFileError, "-1 header entries"),
        (22, 2**31 - 1, CorruptFileError, "claimed for the length of INSTANT_TIME"),
        (26, 9, UnsupportedTableError, "header key 9"),
        (30, -5, CorruptFileError, "-5 bytes claimed for INSTANT_TIME"),
        (30, 2**30, CorruptFileError, "claimed for INSTANT_TIME"),
    ],
)
def test_whole_block_that_is_wrong_inside(offset: int, value: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        blocks_of(patched(SECOND, offset, value))


@pytest.mark.parametrize("length", [-1, 11, 2**60])
def test_content_length_beyond_the_block(length: int) -> None:
    offset = 14 + 8 + 4 + 8 + 17
    with pytest.raises(CorruptFileError, match="a content length of"):
        blocks_of(patched(SECOND, offset, length, ">q"))


def test_header_that_is_not_utf8() -> None:
    data = FIRST.replace(b'"long"', b"\xff" * 6)
    with pytest.raises(CorruptFileError, match="invalid UTF-8 in SCHEMA"):
        blocks_of(data)
