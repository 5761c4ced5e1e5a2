"""The formats on the files of the golden tables: what Apache Hudi wrote is read, and written again the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_py.formats.base.files import iter_base_batches, read_footer
from hudi_py.formats.base.parquet_writer import BaseFileWriter
from hudi_py.formats.keys.bloom import BloomConfig, BloomFilter
from hudi_py.formats.log import BlockType, HeaderKey, decode_deletes, encode_deletes, read_blocks, read_content
from hudi_py.storage import FileInfo, Storage, open_storage
from tests.golden.tables import Extracted, load


def base_files(storage: Storage) -> list[FileInfo]:
    found = [info for info in storage.walk() if info.name.endswith(".parquet") and not info.path.startswith(".hoodie/")]
    return sorted(found, key=lambda info: info.path)


def log_files(storage: Storage) -> list[FileInfo]:
    return [info for info in storage.walk() if info.name.startswith(".") and ".log." in info.name]


@pytest.mark.parametrize("name", sorted(name for name, table in load().items() if table.table_type == "MERGE_ON_READ"))
def test_log_files(golden: Extracted, name: str) -> None:
    storage = open_storage(str(golden(name)))
    found: Counter[BlockType] = Counter()
    for info in log_files(storage):
        for block in read_blocks(storage, info.path, info.size):
            found[block.type] += 1
            content = read_content(storage, block)
            assert len(content) == block.content_length
            if block.type is BlockType.DELETE:
                deletes = decode_deletes(content, context=info.path)
                assert encode_deletes(deletes.keys, deletes.partitions, deletes.ordering) == content
            if block.type is BlockType.COMMAND:
                assert block.is_rollback
                assert block.header[HeaderKey.TARGET_INSTANT_TIME] < block.header[HeaderKey.INSTANT_TIME]
    assert found[BlockType.CORRUPT] == (1 if name.endswith("torn_log") else 0)
    assert sum(found.values()) > 0


@pytest.mark.parametrize(
    "name", ["v6_cow_bloom_index", "v6_mor_ops", "v8_cow_composite_key", "v9_cow_keyless", "v9_mor_long_unicode_keys"]
)
def test_bloom_filters_and_key_ranges(golden: Extracted, name: str) -> None:
    storage = open_storage(str(golden(name)))
    for info in base_files(storage):
        footer = read_footer(storage, info.path)
        batches = iter_base_batches(storage, info.path, ["_hoodie_record_key"])
        keys = pa.chunked_array([batch.column(0) for batch in batches], pa.string())
        assert footer.bloom is not None
        assert footer.bloom.might_contain(keys).all()
        assert BloomFilter.from_keys(keys, BloomConfig()).encode() == footer.bloom_text
        assert (footer.min_key, footer.max_key) == (min(keys.to_pylist()), max(keys.to_pylist()))


@pytest.mark.parametrize("name", ["v6_cow_all_types", "v9_cow_all_types", "v6_mor_wide_types", "v9_cow_vector"])
def test_base_files_written_again(golden: Extracted, name: str, tmp_path: Path) -> None:
    storage = open_storage(str(golden(name)))
    target = open_storage(str(tmp_path))
    infos = base_files(storage)
    assert infos
    for info in infos:
        footer = read_footer(storage, info.path)
        table = pa.Table.from_batches(iter_base_batches(storage, info.path, None), footer.schema)
        assert table.num_rows == footer.num_rows
        schema_json = footer.metadata.get("parquet.avro.schema", "{}")
        with BaseFileWriter(target, info.path, table.schema, schema_json, bloom=BloomConfig()) as writer:
            writer.write(table)
        assert pa.Table.from_batches(iter_base_batches(target, info.path, None), footer.schema).equals(table)
        again = read_footer(target, info.path)
        assert (again.bloom_text, again.min_key, again.max_key) == (
            footer.bloom_text,
            footer.min_key,
            footer.max_key,
        )
        ours, theirs = (pq.ParquetFile(f"{root.uri.removeprefix('file://')}/{info.path}") for root in (target, storage))
        with ours, theirs:
            assert leaves(ours) == leaves(theirs)


def leaves(file: pq.ParquetFile) -> list[tuple[str, str, int, str, int, int]]:
    """What a Parquet reader sees of each column."""
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    return [
        (
            leaf.path.replace(".map.", ".key_value."),
            leaf.physical_type,
            leaf.length,
            str(leaf.logical_type.to_json()),
            leaf.max_definition_level,
            leaf.max_repetition_level,
        )
        for leaf in columns
    ]
