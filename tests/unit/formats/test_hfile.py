"""HFiles built by hand: both writers, all index levels, look-ups that read only what they need, and damage."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError, HudiError, UnsupportedTableError
from hudi_py.formats.hfile import Entries, open_hfile, read_hfile
from hudi_py.formats.hfile.blocks import ByteSource
from hudi_py.formats.hfile.entries import parse_entries
from hudi_py.formats.keys.bloom import BloomConfig, BloomFilter
from hudi_py.storage import MemoryStorage
from tests.support.hfiles import HEADER_LENGTH, build_hfile

ENTRIES = [(f"key-{n:05}".encode(), f"value {n} ".encode() * (n % 7)) for n in range(1000)]


def pairs(entries: object) -> list[tuple[bytes, bytes]]:
    return list(zip(entries.keys.to_pylist(), entries.values.to_pylist(), strict=True))  # type: ignore[attr-defined]


class CountingStorage(MemoryStorage):
    """Counts the bytes read."""

    bytes_read = 0

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.bytes_read += length
        return super().read_range(path, offset, length)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("hbase", [False, True])
@pytest.mark.parametrize("codec", [1, 2])
@pytest.mark.parametrize(("block_bytes", "levels"), [(1 << 20, 1), (300, 1), (300, 2), (300, 4), (1, 3)])
def test_all_entries_come_back(hbase: bool, codec: int, block_bytes: int, levels: int) -> None:
    data = build_hfile(ENTRIES, block_bytes=block_bytes, codec=codec, hbase=hbase, levels=levels)
    file = read_hfile(data)
    assert file.num_entries == len(ENTRIES)
    assert pairs(file.scan()) == ENTRIES


def test_a_small_file_that_was_read_is_read_again_when_it_changes() -> None:
    storage = MemoryStorage("hfile-changes")
    first, second = (build_hfile([(b"k", value)], codec=2) for value in (b"one", b"two"))
    for data, value in ((first, b"one"), (second, b"two"), (first, b"one")):
        storage.put("f", data)
        assert pairs(open_hfile(storage, "f", len(data)).lookup([b"k"])) == [(b"k", value)]
    assert open_hfile(storage, "f", len(first)) is open_hfile(storage, "f", len(first))
    storage.put("f", first[:40])
    with pytest.raises(CorruptFileError, match="too early"):
        open_hfile(storage, "f", len(first))


def test_a_block_is_searched_for_the_keys_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search makes a hash table of what is sought: all keys in each block would take keys times blocks."""
    file = read_hfile(build_hfile(ENTRIES, block_bytes=300))
    sought: list[int] = []
    with_keys = Entries.with_keys

    def noted(self: Entries, wanted: pa.Array) -> Entries:
        sought.append(len(wanted))
        return with_keys(self, wanted)

    monkeypatch.setattr(Entries, "with_keys", noted)
    wanted = [key + more for key, _ in ENTRIES[::3] for more in (b"", b"x")]
    assert pairs(file.lookup(wanted)) == ENTRIES[::3]
    assert len(sought) > 50
    assert sum(sought) <= len(wanted)


@pytest.mark.parametrize("levels", [1, 3])
def test_look_ups_find_what_is_there(levels: int) -> None:
    file = read_hfile(build_hfile(ENTRIES, block_bytes=400, levels=levels))
    assert pairs(file.lookup([])) == []
    assert pairs(file.lookup([b"", b"a", b"key-", b"zzz"])) == []
    wanted = [ENTRIES[n][0] for n in (999, 0, 1, 500, 501, 0)]
    assert pairs(file.lookup([*wanted, b"key-00500x"])) == [ENTRIES[n] for n in (0, 1, 500, 501, 999)]
    assert pairs(file.lookup(key for key, _ in ENTRIES)) == ENTRIES
    assert pairs(file.lookup_prefixes([b"key-0012"])) == ENTRIES[120:130]
    assert pairs(file.lookup_prefixes([b"key-0012", b"a", b"key-00125", b"key-0000"])) == [
        *ENTRIES[:10],
        *ENTRIES[120:130],
    ]
    assert pairs(file.lookup_prefixes([b""])) == ENTRIES
    assert pairs(file.lookup_prefixes([b"kez"])) == pairs(file.lookup_prefixes([])) == []


@pytest.mark.parametrize(
    "values",
    [
        [b"x" * 70_000, b"y"],  # a length whose high bytes are not zero
        [struct.pack(">iih", 13, 2, 1) + b"k" * 20, b"y"],  # what looks like an entry within one
        [b"", struct.pack(">iih", 12, 0, 0)],
        [bytes(300), bytes(7)],
    ],
)
def test_values_that_hide_where_entries_begin(values: list[bytes]) -> None:
    entries = [(f"key-{n}".encode(), value) for n, value in enumerate(values * 3)]
    assert pairs(read_hfile(build_hfile(entries)).scan()) == entries


def test_each_block_is_decoded_once_however_many_prefixes_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def counted(payload: bytes, source: ByteSource) -> Entries:
        decoded.append(len(payload))
        return parse_entries(payload, source)

    monkeypatch.setattr("hudi_py.formats.hfile.reader.parse_entries", counted)
    file = read_hfile(build_hfile(ENTRIES))
    assert len(file.lookup_prefixes(f"key-{number:04}".encode() for number in range(50))) == 500
    assert len(decoded) == 1


def test_a_look_up_reads_only_the_blocks_which_can_hold_the_keys() -> None:
    entries = [(f"{n:08}".encode(), bytes([n % 251]) * 500) for n in range(20_000)]
    data = build_hfile(entries, block_bytes=1 << 16, codec=2)
    storage = CountingStorage("memory://hfile")
    storage.put("f", data)
    file = open_hfile(storage, "f", len(data))
    assert pairs(file.lookup([b"00000007"])) == [entries[7]]
    assert storage.bytes_read < 250_000 < len(data)
    assert pairs(file.lookup([b"00019999", b"00010000"])) == [entries[10_000], entries[19_999]]
    assert storage.bytes_read < 500_000


def test_a_part_of_a_file() -> None:
    data = build_hfile(ENTRIES)
    storage = MemoryStorage("memory://part")
    storage.put("log", b"head" + data + b"tail")
    assert pairs(open_hfile(storage, "log", len(data), offset=4).scan()) == ENTRIES


def test_info_and_meta_blocks() -> None:
    bloom = BloomFilter.from_keys(pa.array(["a", "b"]), BloomConfig(num_entries=10))
    meta = {"bloomFilter": bloom.encode().encode()}
    file = read_hfile(build_hfile([], info={"schema": b'"string"', "bloomFilterTypeCode": b"DYNAMIC_V0"}, meta=meta))
    assert file.schema == '"string"'
    assert pairs(file.scan()) == []
    assert pairs(file.lookup([b"a"])) == []
    assert file.meta_block("other") is None
    found = file.bloom_filter()
    assert found is not None
    assert found.might_contain(pa.array(["a", "zzz"])).tolist() == [True, False]
    assert read_hfile(build_hfile([])).bloom_filter() is None


@pytest.mark.parametrize(("codec", "name"), [(3, "SNAPPY"), (6, "ZSTD"), (99, "codec 99")])
def test_other_codecs_are_refused_by_name(codec: int, name: str) -> None:
    with pytest.raises(UnsupportedTableError, match=name):
        read_hfile(build_hfile(ENTRIES, codec=codec))


def test_other_versions_are_refused() -> None:
    data = build_hfile(ENTRIES)[:-1] + b"\2"
    with pytest.raises(UnsupportedTableError, match="version 2"):
        read_hfile(data)
    with pytest.raises(UnsupportedTableError, match="MAX_MEMSTORE_TS_KEY"):
        read_hfile(build_hfile(ENTRIES, info={"MAX_MEMSTORE_TS_KEY": struct.pack(">q", 5)}))


def test_a_block_cannot_claim_more_than_it_can_hold() -> None:
    data = bytearray(build_hfile(ENTRIES))
    data[12:16] = struct.pack(">i", 1 << 27)
    with pytest.raises(CorruptFileError, match="claims to decompress"):
        read_hfile(bytes(data)).scan()
    data[12:16] = struct.pack(">i", (1 << 31) - 1)
    with pytest.raises(CorruptFileError, match="more than"):
        read_hfile(bytes(data)).scan()
    bomb = bytearray(build_hfile([(b"k", bytes(1 << 20))]))
    bomb[12:16] = struct.pack(">i", 1000)
    with pytest.raises(CorruptFileError, match="does not decompress"):
        read_hfile(bytes(bomb)).scan()


def test_keys_which_do_not_ascend_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="ascend"):
        read_hfile(build_hfile([(b"b", b""), (b"a", b"")])).scan()
    with pytest.raises(CorruptFileError, match="ascend"):
        read_hfile(build_hfile([(b"b", b""), (b"a", b"")], block_bytes=1)).scan()
    with pytest.raises(CorruptFileError, match="ascend"):
        read_hfile(build_hfile([(b"a", b""), (b"a", b"")])).scan()


@pytest.mark.parametrize("codec", [1, 2])
def test_a_file_that_was_cut_off_is_refused(codec: int) -> None:
    data = build_hfile(ENTRIES[:20], codec=codec, block_bytes=100, levels=2)
    for length in [*range(0, len(data), 97), len(data) - 1]:
        with pytest.raises(HudiError):
            read_hfile(data[:length]).scan()


def test_entry_lengths_are_checked() -> None:
    for at, value in [(0, -1), (0, 5), (4, -1), (4, 1 << 30), (8, 77)]:
        data = bytearray(build_hfile(ENTRIES[:3], codec=2))
        width = ">h" if at == 8 else ">i"
        struct.pack_into(width, data, HEADER_LENGTH + at, value)
        with pytest.raises(CorruptFileError):
            read_hfile(bytes(data)).scan()
