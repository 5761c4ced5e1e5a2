"""Files of a few kilobytes that would take gigabytes, minutes or the process: refused, by an error of ours."""

from __future__ import annotations

import bz2
import json
import lzma
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import hudi_py
from hudi_py.errors import ConfigError, CorruptFileError, HudiError, UnsupportedTableError
from hudi_py.formats.avro import read_container, write_container
from hudi_py.formats.avro.types import arrow_schema
from hudi_py.formats.base.files import iter_base_batches, read_footer
from hudi_py.formats.base.lance import _damage_named
from hudi_py.formats.varint import varint
from hudi_py.model.limits import SCHEMA, UNPACKED, limit, parse_json
from hudi_py.model.names import parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.storage import LocalStorage, MemoryStorage
from hudi_py.timeline.archived import archive_files
from hudi_py.timeline.history import manifest_numbers

MANY = "9" * 5000
TEXT = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < 5


def container(schema: Any, count: int, block: bytes, codec: str = "null") -> bytes:
    header = {b"avro.codec": codec.encode(), b"avro.schema": json.dumps(schema).encode()}
    sized = b"".join(varint(len(part) << 1) + part for pair in header.items() for part in pair)
    sync = b"s" * 16
    return b"".join((b"Obj\x01\x04", sized, b"\0", sync, varint(count << 1), varint(len(block) << 1), block, sync))


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": deflated,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "snappy": lambda data: pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
}


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_unpack_up_to_the_limit(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = varint(1_000_000 << 1) + b"x" * 1_000_000
    data = container(TEXT, 1, CODECS[codec](block), codec)
    assert read_container(data)[1] == [{"a": "x" * 1_000_000}]
    monkeypatch.setenv(UNPACKED, "500000")
    if codec != "null":  # what is there may be as large as it is
        with pytest.raises(CorruptFileError, match="unpacks to more than 500000 bytes .HUDI_PY_MAX_UNPACKED_BYTES"):
            read_container(data, context="t")


def nested(levels: int) -> dict[str, Any]:
    """A schema that names each level twice: 2 kB for twenty."""
    schema: dict[str, Any] = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, levels + 1):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"r{level - 1}"}]
        schema = {"type": "record", "name": f"r{level}", "fields": fields}
    return schema


def within_itself() -> bytes:
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "r"]}]}
    return container(schema, 1, b"\x02" * 1_000 + b"\0")


def deep(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": schema}]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (container({**TEXT, "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}, 1,
                   varint(1 << 20) + b"\0"), "a list of items without bytes"),
        (container({**TEXT, "fields": []}, 1 << 40, b""), "claims 1099511627776 records in 0 bytes"),
        (container(TEXT, 1 << 40, b"\0"), "claims 1099511627776 records in 1 bytes"),
        (within_itself(), "its record 'r' contains itself"),
        (container(nested(20), 1, b"\0" * (1 << 20)), r"\d+ fields in \d+ levels"),
        (container(deep(400), 1, b"\0"), "nested deeper than 200 levels"),
        (b"Obj\x01" + varint(1 << 50), "its header is incomplete"),
        (container(TEXT, 1, b"\0", "lz4"), "its compression is 'lz4'"),
        (b"Obj\x01\x02\x16avro.schema" + varint(40_000) + b"[" * 20_000, "nests too deeply"),
    ],
)  # fmt: skip
def test_containers(data: bytes, why: str) -> None:
    with pytest.raises(HudiError, match=why):
        read_container(data)


def test_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(json.dumps(nested(20))) < 2100
    with pytest.raises(UnsupportedTableError, match=f"supported: 100000 fields .{SCHEMA} in the environment"):
        arrow_schema(nested(20))
    assert len(arrow_schema(nested(10))) == 2
    monkeypatch.setenv(SCHEMA, "1000")
    with pytest.raises(UnsupportedTableError, match="supported: 1000 fields"):
        arrow_schema(nested(10))
    monkeypatch.setenv(SCHEMA, "many")
    with pytest.raises(ConfigError, match="Cannot use HUDI_PY_MAX_SCHEMA_FIELDS='many'"):
        limit(SCHEMA)


@pytest.mark.parametrize("change", ["newest commit", "properties", "definitions", "history"])
def test_tables(tmp_path: Path, change: str) -> None:
    """Opened, read and examined, each gives an error of ours or an answer."""
    path = tmp_path / "t"
    hudi_py.write(path, pa.table({"id": ["1"], "v": [1]}), record_key="id")
    deepest = "[" * 50_000 + "]" * 50_000
    properties = path / ".hoodie" / "hoodie.properties"
    if change == "properties":
        properties.write_text(properties.read_text().replace("table.version=9", f"table.version={MANY}"))
    elif change == "definitions":
        folder = path / ".hoodie" / ".index_defs"
        folder.mkdir(exist_ok=True)
        (folder / "index.json").write_text(deepest)
        with properties.open("a") as file:
            file.write("\nhoodie.table.index.defs.path=.hoodie/.index_defs/index.json\n")
    elif change == "history":
        (path / ".hoodie" / "timeline" / "history" / f"manifest_{MANY[:200]}").write_text("{}")
    else:
        (commit,) = (path / ".hoodie" / "timeline").glob("*.commit")
        schema = json.dumps(nested(20))
        commit.write_text(json.dumps({"operationType": "UPSERT", "extraMetadata": {"schema": schema}}))
    tried: list[Callable[[], Any]] = [
        lambda: hudi_py.open_table(path).scan().to_table(),
        lambda: hudi_py.open_table(path).indexes.list(),
        lambda: hudi_py.open_table(path).instants(archived=True),
        lambda: hudi_py.doctor(path),
        lambda: hudi_py.write(path, pa.table({"id": ["2"], "v": [1]})),
    ]
    for attempt in tried:
        try:
            attempt()
        except HudiError:
            continue


def test_numbers_of_thousands_of_digits() -> None:
    assert parse_log_file_name(f".f_1.log.{MANY}_0-0-0") is None
    assert manifest_numbers([f"manifest_{MANY}", "manifest_3"]) == [3]
    storage = MemoryStorage("numbers")
    storage.put(f"a/.commits_.archive.{MANY}", b"")
    assert archive_files(storage, "a") == []
    config = TableConfig({"hoodie.table.version": MANY, "hoodie.timeline.layout.version": MANY})
    assert (config.version, config.layout) == (-1, 1)
    with pytest.raises(ValueError, match="nests too deeply"):
        parse_json("[" * 100_000)
    with pytest.raises(ValueError, match=r"limit \(4300"):
        parse_json(MANY)


def test_parquet_pages_that_grow_too_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": ["x" * 1_000_000] * 20})
    pq.write_table(rows, tmp_path / "f.parquet", compression="zstd", use_dictionary=False)
    storage = LocalStorage(str(tmp_path))
    assert sum(batch.num_rows for batch in iter_base_batches(storage, "f.parquet", None, batch_rows=100)) == 20
    monkeypatch.setenv(UNPACKED, "1000000")
    with pytest.raises(CorruptFileError, match=r"column 'a' claims to unpack \d+ bytes to 2\d+; if the file is sound"):
        read_footer(storage, "f.parquet")


def test_orc_rows_that_the_file_has_no_bytes_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orc.write_table(pa.table({"a": pa.repeat(0, 1_000_000)}), tmp_path / "f.orc", compression="zstd")
    storage = LocalStorage(str(tmp_path))
    assert sum(batch.num_rows for batch in iter_base_batches(storage, "f.orc", None)) == 1_000_000
    monkeypatch.setenv(UNPACKED, "7999999")
    for columns in (None, []):
        with pytest.raises(CorruptFileError, match=r"claims 1000000 rows in \d+ bytes; .* to more than 8000000"):
            list(iter_base_batches(storage, "f.orc", columns))


@pytest.mark.parametrize("content", [b"", b"LANC", b"x" * 100, b"\0" * 96 + b"LANC", b"\xff" * 96 + b"LANC"])
def test_lance_files_that_are_none(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("lance")
    (tmp_path / "f.lance").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"Cannot read base file f\.lance"):
        read_footer(LocalStorage(str(tmp_path)), "f.lance")


def test_a_panic_of_pylance_is_damage() -> None:
    panic = type("PanicException", (BaseException,), {})  # as pyo3 makes it: no Exception
    with pytest.raises(CorruptFileError, match=r"Cannot read base file f\.lance: called unwrap; it is damaged"):  # noqa: SIM117
        with _damage_named("f.lance"):
            raise panic("called unwrap\nstack")
    with pytest.raises(KeyboardInterrupt), _damage_named("f.lance"):
        raise KeyboardInterrupt


def test_containers_are_read_as_before() -> None:
    records = [{"a": text} for text in ("", "b", "c" * 1000)]
    assert read_container(write_container(TEXT, records))[1] == records
