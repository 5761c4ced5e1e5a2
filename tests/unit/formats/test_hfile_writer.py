"""HFiles we write: they come back through the reader, and are those which Apache Hudi wrote of the same entries."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.hfile import HFileWriter, read_hfile, write_hfile
from hudi_py.formats.hfile.writer import CREATED
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.formats.log import BlockType, read_blocks, read_content
from hudi_py.storage import LocalStorage
from tests.golden import tables

BLOOM = BloomConfig(num_entries=10000)


def arrays(entries: list[tuple[bytes, bytes]]) -> tuple[pa.Array, pa.Array]:
    return pa.array([k for k, _ in entries], pa.binary()), pa.array([v for _, v in entries], pa.binary())


ENTRIES = [(f"key-{n:05}".encode(), f"value {n} ".encode() * (n % 7)) for n in range(1000)]


@pytest.mark.parametrize("name", ["v9_mor_mdt_compaction", "v9_mor_secondary_index", "v9_mor_all_types"])
def test_the_bytes_are_those_of_apache_hudi(name: str, tmp_path: Path) -> None:
    storage = LocalStorage(str(tables.load()[name].extract(tmp_path)))
    files = log_blocks = 0
    for info in storage.walk(".hoodie/metadata"):
        if info.name.endswith(".hfile"):
            contents = [(storage.read(info.path), True)]
            files += 1
        elif ".log." in info.name:
            blocks = [b for b in read_blocks(storage, info.path, info.size) if b.type is BlockType.HFILE]
            contents = [(read_content(storage, block), False) for block in blocks]
            log_blocks += len(blocks)
        else:
            continue
        for data, base in contents:
            file = read_hfile(data)
            entries = file.scan()
            (created,) = struct.unpack(">q", file.info[CREATED])
            assert data == write_hfile(
                entries.keys,
                entries.values,
                schema_json=file.schema or "",
                bloom=BLOOM if base else None,
                info={CREATED: struct.pack(">q", created)},
            )
    assert files
    assert log_blocks


@pytest.mark.parametrize("compression", ["GZ", "NONE"])
@pytest.mark.parametrize("block_bytes", [1, 300, 1 << 20])
@pytest.mark.sampled(3)
def test_batches_of_any_size_make_the_same_file(compression: str, block_bytes: int) -> None:
    def build(step: int) -> bytes:
        sink = io.BytesIO()
        writer = HFileWriter(
            sink,
            schema_json='"bytes"',
            compression=compression,  # type: ignore[arg-type]
            block_bytes=block_bytes,
            bloom=BLOOM,
            info={CREATED: struct.pack(">q", 7)},
        )
        for at in range(0, len(ENTRIES), step):
            writer.add(*arrays(ENTRIES[at : at + step]))
        assert writer.close() == len(sink.getvalue()) == writer.num_bytes
        assert writer.num_entries == len(ENTRIES)
        return sink.getvalue()

    data = build(1000)
    assert build(17) == data
    if block_bytes == 300:
        assert build(1) == data
    file = read_hfile(data)
    found = file.scan()
    assert list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)) == ENTRIES
    assert file.lookup([b"key-00500"]).values.to_pylist() == [ENTRIES[500][1]]
    assert file.info["minRecordKey"] == ENTRIES[0][0]
    assert file.info["maxRecordKey"] == ENTRIES[-1][0]
    assert file.info["hfile.LASTKEY"] == b"\0\x09" + ENTRIES[-1][0]
    bloom = file.bloom_filter()
    assert bloom is not None
    assert bloom.might_contain(pa.array(["key-00999", "other"])).tolist() == [True, False]


def test_slices_of_arrays_and_texts_are_taken() -> None:
    keys = pa.array(["x", "a", "b", "ü"])[1:]
    values = pa.array([b"0", b"1", b"", b"3"], pa.large_binary())[1:]
    found = read_hfile(write_hfile(keys, values, schema_json='"bytes"')).scan()
    assert found.keys.to_pylist() == [b"a", b"b", "ü".encode()]
    assert found.values.to_pylist() == [b"1", b"", b"3"]


@pytest.mark.parametrize("bloom", [None, BLOOM])
def test_a_file_without_entries(bloom: BloomConfig | None) -> None:
    none = pa.array([], pa.binary())
    file = read_hfile(write_hfile(none, none, schema_json='"bytes"', bloom=bloom))
    assert len(file.scan()) == file.num_entries == 0
    assert file.schema == '"bytes"'
    assert file.info["hfile.LASTKEY"] == b""
    assert ("minRecordKey" in file.info) == (bloom is not None)


def test_keys_that_do_not_ascend_are_refused() -> None:
    for keys in (["b", "a"], ["a", "a"]):
        with pytest.raises(CorruptFileError, match="ascend"):
            write_hfile(pa.array(keys), pa.array([b"", b""]), schema_json="")
    writer = HFileWriter(io.BytesIO(), schema_json="")
    writer.add(pa.array(["b"]), pa.array([b""]))
    for key in ("b", "a"):
        with pytest.raises(CorruptFileError, match="follows b'b'"):
            writer.add(pa.array([key]), pa.array([b""]))
    writer.add(pa.array([], pa.string()), pa.array([], pa.binary()))
    with pytest.raises(CorruptFileError, match="1 and 0 of them null"):
        writer.add(pa.array([None], pa.string()), pa.array([b""]))
    with pytest.raises(CorruptFileError, match="2 values"):
        writer.add(pa.array(["c"]), pa.array([b"", b""]))


def test_what_the_format_cannot_hold_is_refused() -> None:
    longest = pa.array([b"k" * 32767])
    assert len(read_hfile(write_hfile(longest, longest, schema_json="")).scan()) == 1
    with pytest.raises(UnsupportedTableError, match="a key of 32768 bytes"):
        write_hfile(pa.array([b"k" * 32768]), pa.array([b""]), schema_json="")
    with pytest.raises(UnsupportedTableError, match="an entry of 268435457 bytes"):
        write_hfile(pa.array([b""]), pa.array([bytes((1 << 28) - 20)]), schema_json="")
