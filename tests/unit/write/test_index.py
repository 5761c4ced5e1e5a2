"""Both indexes find exactly the keys that base files hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.formats import lookup
from hudi_py.formats.base.parquet_writer import BaseFileWriter
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.names import BaseFileName, FileId, PartitionPath
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.write.index import IndexSettings, base_files
from hudi_py.write.index.base_files import BaseFileIndex
from hudi_py.write.index.other_indexes import check_index
from hudi_py.write.rows import TaggedRows
from tests.support.spread import merging

P = PartitionPath("p")
SCHEMA = pa.schema([("_hoodie_record_key", pa.string())])
BLOOM = IndexSettings("BLOOM", reads_filters=True)
INDEXES = [IndexSettings("SIMPLE"), BLOOM, replace(BLOOM, prune_by_ranges=False)]


def base_slice(storage: Storage, name: str, keys: Sequence[str], *, footer: bool = True) -> FileSlice:
    file_id = FileId(name)
    base = BaseFile(P, BaseFileName(file_id, "0-0-0", "1"), 1)
    bloom = BloomConfig(num_entries=100, fpp=0.01) if footer else None
    with BaseFileWriter(storage, base.path, SCHEMA, "{}", bloom=bloom) as writer:
        writer.write(pa.record_batch([pa.array(keys, pa.string())], schema=SCHEMA))
    return FileSlice(P, file_id, "1", base)


def tag(index: BaseFileIndex, slices: Sequence[FileSlice], keys: Sequence[str]) -> TaggedRows:
    return index.tag(pa.table([pa.array(keys, pa.string())], schema=SCHEMA), P, slices)


def memory() -> Storage:
    return MemoryStorage()


@pytest.mark.parametrize("settings", INDEXES, ids=str)
def test_rows_by_slice(settings: IndexSettings) -> None:
    storage = memory()
    slices = [
        base_slice(storage, "a", ["k1", "k2", "k3"]),
        base_slice(storage, "b", ["k5", "k2"]),  # k2 is there twice
        base_slice(storage, "c", ["x"]),
        base_slice(storage, "d", ["k9"], footer=False),
    ]
    tagged = tag(BaseFileIndex(storage, settings, threads=2), slices, ["k9", "k2", "new", "k1", "k2"])
    found = {str(slice_.file_id): rows.tolist() for slice_, rows in tagged.found}
    assert found == {"a": [1, 3, 4], "b": [1, 4], "d": [0]}
    assert tagged.new.tolist() == [2]


@given(
    files=st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=6), max_size=6),
    keys=st.lists(st.text(max_size=3), max_size=12),
    settings=st.sampled_from(INDEXES),
    unique=st.booleans(),
    at_once=st.sampled_from([1, 4, 1 << 20]),
)
def test_any_keys(files: list[list[str]], keys: list[str], settings: IndexSettings, unique: bool, at_once: int) -> None:
    storage = memory()
    keys = list(dict.fromkeys(keys)) if unique else keys
    slices = [base_slice(storage, f"f{number}", held) for number, held in enumerate(files)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(base_files, "_BATCH_ROWS", at_once)
        tagged = tag(BaseFileIndex(storage, settings), slices, keys)
    found = {str(slice_.file_id): rows.tolist() for slice_, rows in tagged.found}
    expected = {f"f{number}": [row for row, key in enumerate(keys) if key in held] for number, held in enumerate(files)}
    assert found == {name: rows for name, rows in expected.items() if rows}
    everywhere = {key for held in files for key in held}
    assert tagged.new.tolist() == [row for row, key in enumerate(keys) if key not in everywhere]


def test_what_is_sought_in_smaller_files_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash table of all keys sought for each file would take keys times files."""
    storage = memory()
    slices = [base_slice(storage, f"f{number}", [f"a{number}", f"z{number}"]) for number in range(12)]
    keys = [f"{letter}{number}" for letter in "ayz" for number in range(12)]
    hashed: list[int] = []
    hashes = lookup._text_hashes

    def noted(texts: pa.StringArray) -> Any:
        hashed.append(len(texts))
        return hashes(texts)

    monkeypatch.setattr(lookup, "_text_hashes", noted)
    tagged = tag(BaseFileIndex(storage, INDEXES[0]), slices, keys)
    assert [rows.tolist() for _, rows in tagged.found] == [[number, 24 + number] for number in range(12)]
    assert tagged.new.tolist() == list(range(12, 24))
    assert sum(hashed) == len(keys) + 2 * len(slices)


def test_no_keys() -> None:
    storage = memory()
    tagged = tag(BaseFileIndex(storage, INDEXES[0]), [base_slice(storage, "a", ["k"])], [])
    assert tagged.found == ()
    assert tagged.new.dtype == np.int64
    assert not len(tagged.new)


def test_the_first_key_of_a_file_is_shown() -> None:
    storage = memory()
    shown: list[tuple[str, str]] = []
    slices = [base_slice(storage, "a", ["k:2", "k:1"])]
    index = BaseFileIndex(storage, INDEXES[0], check_key=lambda base, key: shown.append((base.name.file_id, key)))
    tag(index, slices, ["k:1"])
    assert shown == [("a", "k:1")]


def slice_named(name: str) -> FileSlice:
    file_id = FileId(name)
    return FileSlice(P, file_id, "1", BaseFile(P, BaseFileName(file_id, "0-0-0", "1"), 1))


def test_random_ids_of_digits_are_no_bucket_numbers() -> None:
    check_index([slice_named("12345678-bfdf-4a49-a600-4f7adce7b226-0")], "p")
    check_index(
        [slice_named("00000001-bfdf-4a49-a600-4f7adce7b226-0"), slice_named("a2345678-bfdf-4a49-a600-4f7adce7b226-0")],
        "p",
    )
    with pytest.raises(ConfigError, match="bucket numbers, as 00000001-bfdf"):
        check_index([slice_named("00000001-bfdf-4a49-a600-4f7adce7b226-0")], "p")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("version", "index", "door"),
    [(9, "SIMPLE", "merge"), (8, "BLOOM", "insert"), (6, "SIMPLE", "bulk_insert"), (9, "BLOOM", "merge in tasks")],
)
def test_a_key_that_was_deleted_in_logs_and_inserted_anew(version: int, index: str, door: str, tmp_path: Path) -> None:
    """The old file group has the key in its base file still, and does not count."""
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": "0"}
    keys = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
    path = tmp_path / "t"

    def rows(ts: int, *ids: str) -> list[dict[str, Any]]:
        return [{"id": key, "p": "x", "ts": ts, "v": ts} for key in ids]

    def shown() -> list[tuple[str, int]]:
        found = hudi_py.open_table(path).scan(["id", "v"]).to_table().to_pylist()
        return sorted((row["id"], row["v"]) for row in found)

    hudi_py.write(path, rows(1, "a", "b"), options=options, table_type="mor", table_version=version, **keys)
    table = hudi_py.open_table(path, options)
    table.delete(rows(2, "a"))
    if door.startswith("merge"):
        source, on = pa.Table.from_pylist(rows(3, "a")), "t.id = s.id AND t.p = s.p"
        merge = table.merge(source, on) if door == "merge" else merging(source, on, path, options)
        assert merge.when_not_matched_insert_all().execute().num_inserted == 1
    else:
        getattr(table, door)(rows(3, "a"))
    table.upsert(rows(4, "a", "c"))
    assert shown() == [("a", 4), ("b", 1), ("c", 4)]
    table.delete(rows(5, "a"))
    assert shown() == [("b", 1), ("c", 4)]
    table.upsert(rows(6, "a", "b"))
    assert shown() == [("a", 6), ("b", 6), ("c", 4)]
    assert table.metadata.verify().ok
