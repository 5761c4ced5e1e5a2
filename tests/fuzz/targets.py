"""What is fed with damaged bytes. A target gives a value or raises a `HudiError`; anything else is a failure."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import random
import re
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from hudi_py.errors import HudiError
from hudi_py.formats.avro import decode_log_content, read_container
from hudi_py.formats.avro.types import arrow_schema
from hudi_py.formats.base.files import iter_base_batches, read_footer
from hudi_py.formats.hfile import read_hfile
from hudi_py.formats.keys.bloom import BloomConfig, BloomFilter
from hudi_py.formats.log import BlockType, HeaderKey, decode_deletes, read_blocks, read_content
from hudi_py.formats.varint import varint
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig, parse_properties
from hudi_py.schema.internal import parse_history, parse_internal_schema
from hudi_py.storage import LocalStorage, MemoryStorage, memory
from hudi_py.table import Table
from hudi_py.timeline import properties
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.clustering_records import decode_clustering_plan
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import (
    decode_commit_metadata,
    decode_compaction_plan,
    decode_rollback_metadata,
    decode_rollback_plan,
)
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.times import parse_instant, table_zone
from tests.fuzz import corpus
from tests.fuzz.mutate import mutated

# a damaged file is waited for, in case that it is being written
properties._PAUSE_SECONDS = 0

_UTC: Final = table_zone(TableConfig({"hoodie.table.timeline.timezone": "UTC"}))


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    make: Callable[[random.Random], Any]
    """An input from a source of chance."""
    run: Callable[[Any], None]
    weight: int
    """Its share of the inputs."""


def _bytes_of(*kinds: str) -> Callable[[random.Random], bytes]:
    def make(rng: random.Random) -> bytes:
        return mutated(rng, [seed for kind in kinds for seed in corpus.seeds(kind)])

    return make


def _memory(**files: bytes) -> MemoryStorage:
    memory._STORES.pop("fuzz", None)
    storage = MemoryStorage("fuzz")
    for path, data in files.items():
        storage.put(path, data)
    return storage


def run_properties(data: bytes) -> None:
    config = TableConfig(parse_properties(data.decode("latin-1")))
    for name in dir(TableConfig):
        if not name.startswith("_") and isinstance(getattr(TableConfig, name), property):
            getattr(config, name)
    table_zone(config)


def run_commit(data: bytes) -> None:
    decode_commit_metadata(data)


def run_plan(data: bytes) -> None:
    for decode in (decode_compaction_plan, decode_clustering_plan):
        _tried(decode, data)


def run_clean(data: bytes) -> None:
    for decode in (decode_rollback_plan, decode_rollback_metadata):
        _tried(decode, data)


def run_container(data: bytes) -> None:
    read_container(data)


def _tried(decode: Callable[[bytes], Any], data: bytes) -> None:
    try:
        decode(data)
    except HudiError:
        return


_FILE_ID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}-[0-9]+")


def _log_name(data: bytes) -> str:
    """The name of a log whose rows name a file group: those of another one are refused."""
    found = _FILE_ID.search(data)
    return "f" if found is None else f".{found[0].decode()}_001.log.1_0-0-0"


def run_log(data: bytes) -> None:
    name = _log_name(data)
    storage = _memory(**{name: data})
    for block in read_blocks(storage, name, len(data)):
        content = read_content(storage, block)
        if block.type is BlockType.DELETE:
            _tried(lambda data: decode_deletes(data, context="f"), content)
        elif block.type in (BlockType.AVRO, BlockType.CDC):
            _tried(lambda data, block=block: _avro(data, block.header.get(HeaderKey.SCHEMA, "")), content)
        elif block.type is BlockType.HFILE:
            _tried(lambda data: read_hfile(data).scan(), content)


def _avro(content: bytes, schema: str) -> None:
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        return  # the readers of blocks tell it their way
    decode_log_content([content], parsed, context="f")


def make_avro(rng: random.Random) -> tuple[bytes, str]:
    schema, content = rng.choice(_avro_blocks())
    return mutated(rng, [content]), schema


def make_avro_schema(rng: random.Random) -> tuple[bytes, str]:
    schema, content = rng.choice(_avro_blocks())
    return content, mutated(rng, [schema.encode()]).decode("utf-8", "replace")


def run_avro(given: tuple[bytes, str]) -> None:
    content, schema = given
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        return
    _tried(lambda _: arrow_schema(parsed), b"")
    decode_log_content([content], parsed, context="f")


_AVRO_BLOCKS: list[tuple[str, bytes]] = []


def _avro_blocks() -> list[tuple[str, bytes]]:
    if not _AVRO_BLOCKS:
        for data in corpus.seeds("log"):
            name = _log_name(data)
            storage = _memory(**{name: data})
            for block in read_blocks(storage, name, len(data)):
                if block.type is BlockType.AVRO:
                    _AVRO_BLOCKS.append((block.header[HeaderKey.SCHEMA], read_content(storage, block)))
    return _AVRO_BLOCKS


def make_deletes(rng: random.Random) -> bytes:
    data = mutated(rng, corpus.seeds("kryo"))
    version = 1 if b"HoodieKey\xbb" in data[:60] else 2
    return struct.pack(">ii", version, len(data)) + data


def make_avro_deletes(rng: random.Random) -> bytes:
    data = mutated(rng, _DELETES)
    return struct.pack(">ii", 3, len(data)) + data


_DELETES: Final = (
    b"\x02\x02\x02\x32\x02\x02\x78\x04\x00\x00",
    b"\x04\x02\x04k1\x02\x02p\x06\x16\x02\x04k2\x00\x06\x18\x00",
    b"\x02\x02\x04k1\x02\x02p\x18\x02\x04\x06\x16\x0e\x04ab\x00\x00",
    b"\x02\x02\x04k1\x02\x02p\x12\x04\x01\x00\x00",
    b"\x02\x02\x04k1\x02\x02p\x0a\x00\x00\x00\x00\x00\x00\xf8\x3f\x00",
    b"\x00",
)


def run_deletes(data: bytes) -> None:
    found = decode_deletes(data, context="f")
    if found.ordering is not None:
        found.ordering.validate(full=True)


def run_parquet(data: bytes) -> None:
    storage = _memory(f=data)
    footer = read_footer(storage, "f")
    _tried(lambda _: footer.bloom, b"")
    for batch in iter_base_batches(storage, "f", None):
        batch.validate()


@functools.cache
def _grown(extension: str, rows: int, codec: str) -> bytes:
    """A base file whose few bytes have many equal rows."""
    table = pa.table({"k": pa.repeat("k", rows), "n": pa.nulls(rows, pa.int64()), "v": pa.repeat(1.5, rows)})
    sink = io.BytesIO()
    if extension == "parquet":
        pq.write_table(table, sink, compression=codec, use_dictionary=rows % 2 == 0, row_group_size=rows)
    elif extension == "orc":
        orc.write_table(table.select(["k", "v"]), sink, compression="zlib" if codec == "gzip" else "zstd")
    else:
        from lance.file import LanceFileWriter

        with tempfile.TemporaryDirectory() as folder:
            with LanceFileWriter(f"{folder}/f", table.schema) as writer:
                writer.write_batch(table)
            return Path(folder, "f").read_bytes()
    return sink.getvalue()


def make_bomb(rng: random.Random) -> tuple[str, bytes]:
    """A whole file that unpacks to much more than it has, damaged or not."""
    extension = rng.choice(("avro", "avro", "parquet", "parquet", "orc", "orc", "lance"))
    if extension == "avro":
        schema, block = rng.choice(_BOMBS)
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = packer.compress(block) + packer.flush()
        header = b"\x04\x14avro.codec\x0edeflate\x16avro.schema" + varint(len(schema) << 1) + schema + b"\0"
        count = varint(rng.choice((1, 2, 1 << 31, 1 << 62)) << 1)
        data = b"".join((b"Obj\x01", header, b"s" * 16, count, varint(len(packed) << 1), packed, b"s" * 16))
    else:
        if extension == "lance" and importlib.util.find_spec("lance") is None:
            extension = "orc"
        data = _grown(extension, 1 << rng.choice((4, 14, 20)), rng.choice(("gzip", "zstd")))
    if rng.random() < 0.7:
        data = mutated(rng, [data])
    return extension, data[: rng.choice((0, 40, len(data)))] if rng.random() < 0.1 else data


_BOMBS: Final = tuple(
    (json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}).encode(), block)
    for kind, block in (
        ("string", varint(1 << 26) + b"x" * (1 << 25)),
        ({"type": "array", "items": "null"}, varint(1 << 32) + b"\0"),
        ({"type": "array", "items": {"type": "record", "name": "e", "fields": []}}, varint(1 << 32) + b"\0"),
        ({"type": "array", "items": "boolean"}, varint(1 << 22) + b"\0" * ((1 << 21) + 1)),
        (["null", "r"], b"\x02" * (1 << 20) + b"\0"),
    )
)


def run_bomb(given: tuple[str, bytes]) -> None:
    extension, data = given
    if extension == "avro":
        read_container(data)
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"f.{extension}").write_bytes(data)
        storage = LocalStorage(folder)
        _tried(lambda _: read_footer(storage, f"f.{extension}"), b"")
        rows = 0
        for batch in iter_base_batches(storage, f"f.{extension}", None):
            rows += batch.num_rows
            if rows > 1 << 22:
                break


def run_hfile(data: bytes) -> None:
    file = read_hfile(data)
    _tried(lambda _: file.bloom_filter, b"")
    entries = file.scan()
    for key in entries.keys[:2].to_pylist():
        file.lookup([key])
        file.lookup_prefixes([key[:1], key])


def run_archive(data: bytes) -> None:
    config = TableConfig({"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"})
    storage = _memory(**{".hoodie/archived/.commits_.archive.1_1-0-1": data})
    archived_instants(storage, config, ArchiveQuery(metadata=True, plans=True))


def make_history(rng: random.Random) -> Mapping[str, bytes]:
    file = rng.choice(corpus.seeds("history"))
    name = "20200101000000000_20990101000000000_0.parquet"
    manifest = json.dumps({"files": [{"fileName": name, "fileLen": len(file)}]}).encode()
    files = {"_version_": b"1", "manifest_1": manifest, name: file}
    damaged = rng.choice(list(files))
    files[damaged] = mutated(rng, [files[damaged]])
    return {f".hoodie/timeline/history/{path}": data for path, data in files.items()}


def run_history(files: Mapping[str, bytes]) -> None:
    config = TableConfig({"hoodie.table.version": "8", "hoodie.timeline.layout.version": "2"})
    archived_instants(_memory(**files), config, ArchiveQuery(metadata=True, plans=True))


def make_bloom(rng: random.Random) -> tuple[str, str]:
    filters = [BloomFilter.from_keys(pa.array(["a", "b"]), BloomConfig(4, 0.1, most)) for most in (4, 100)]
    text = mutated(rng, [each.encode().encode() for each in filters])
    return text.decode("latin-1"), rng.choice(("SIMPLE", "DYNAMIC_V0", "DYNAMIC_V0", "x"))


def run_bloom(given: tuple[str, str]) -> None:
    BloomFilter.decode(*given).might_contain(pa.array(["a", "b"]))


_NAMES: Final = (
    b"20240102030405006.commit.requested",
    b"20240102030405006_20240102030405007.deltacommit",
    b"20240102.inflight",
    b".f1-0_20240102030405006.log.3_0-1-2.cdc",
    b"f1-0_0-1-2_20240102030405006.parquet",
    b"2024-01-02T03:04:05.678+01:00",
    b"2024-01-02",
)


def make_name(rng: random.Random) -> str:
    return mutated(rng, _NAMES).decode("utf-8", "replace")


def run_name(text: str) -> None:
    for version in (0, 1, 2):
        Layout(version, ".hoodie").parse(text)
    parse_base_file_name(text)
    parse_log_file_name(text)
    parse_instant(text, _UTC)


_PLAIN_FIELD: Final = {"id": 1, "name": "a", "optional": True, "type": "string", "doc": None}
_DECIMALS: Final = {"type": "array", "element_id": 5, "element_optional": True, "element": "decimal(10, 2)"}
_MAP: Final = {"type": "map", "key_id": 3, "value_id": 4, "value_optional": True, "key": "string", "value": _DECIMALS}
_VERSION: Final = {"max_column_id": 5, "version_id": 2, "type": "record", "fields": [
    _PLAIN_FIELD, {**_PLAIN_FIELD, "id": 2, "name": "m", "type": _MAP},
]}  # fmt: skip


def make_internal(rng: random.Random) -> bytes:
    schemas = {"schemas": [{**_VERSION, "version_id": 1}, _VERSION]}
    return mutated(rng, [json.dumps(_VERSION).encode(), json.dumps(schemas).encode(), *corpus.seeds("schema")])


def run_internal(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    _tried(lambda _: parse_internal_schema(text), b"")
    parse_history(text)


def make_table(rng: random.Random) -> Mapping[str, bytes]:
    files = dict(corpus.table(rng.choice(corpus.SMALL_TABLES)))
    for _ in range(rng.choice((1, 1, 2))):
        path = rng.choice(sorted(files))
        if rng.random() < 0.05:
            del files[path]
        elif files[path]:
            files[path] = mutated(rng, [files[path]])
    return files


def run_table(files: Mapping[str, bytes]) -> None:
    storage = _memory(**files)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = Table(storage, load_table_config(storage), {})
        for query in ({}, {"query_type": "read_optimized"}, {"query_type": "incremental", "begin": "000"}):
            _tried(lambda _, query=query: table.scan(**query).to_table(), b"")


TARGETS: Final = {
    target.name: target
    for target in (
        Target("properties", _bytes_of("properties"), run_properties, 8),
        Target("commit", _bytes_of("commit"), run_commit, 8),
        Target("plan", _bytes_of("plan"), run_plan, 6),
        Target("clean", _bytes_of("clean"), run_clean, 4),
        Target("container", _bytes_of("plan", "clean"), run_container, 4),
        Target("names", make_name, run_name, 4),
        Target("log", _bytes_of("log", "metadata_log"), run_log, 20),
        Target("avro", make_avro, run_avro, 12),
        Target("avro_schema", make_avro_schema, run_avro, 6),
        Target("kryo", make_deletes, run_deletes, 10),
        Target("deletes", make_avro_deletes, run_deletes, 8),
        Target("parquet", _bytes_of("parquet"), run_parquet, 10),
        Target("bomb", make_bomb, run_bomb, 4),
        Target("hfile", _bytes_of("hfile"), run_hfile, 10),
        Target("archive", _bytes_of("archive"), run_archive, 4),
        Target("history", make_history, run_history, 3),
        Target("bloom", make_bloom, run_bloom, 3),
        Target("internal_schema", make_internal, run_internal, 3),
        Target("table", make_table, run_table, 3),
    )
}


def input_of(target: str, number: int) -> Any:
    """The input with a number; the same whenever and wherever it is made."""
    return TARGETS[target].make(random.Random(f"{target}:{number}"))
