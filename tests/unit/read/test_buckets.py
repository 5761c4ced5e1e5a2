"""Buckets of record keys, as Apache Hudi hashes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.read.pruning.buckets import BucketHashing, buckets_of

ONE = TableConfig({"hoodie.table.recordkey.fields": "id"})
TWO = TableConfig({"hoodie.table.recordkey.fields": "a,b"})


@pytest.mark.parametrize(
    ("config", "fields", "key", "found"),
    [
        # Apache Hudi's, read from its files: "1" is in 0 of 8, "abc" in 1, (1, x) in 0, (x) in 7
        (ONE, (), "1", {0}),
        (ONE, (), "abc", {1}),
        (TWO, (), "a:1,b:x", {0}),
        (TWO, ("b",), "a:1,b:x", {7}),
        (TWO, ("c",), "a:1,b:x", None),
        (TWO, (), "a:1", None),
        (TWO, (), "a:1,b:x:y", None),
        (ONE, (), "x,y:z", None),
    ],
)
def test_buckets_of_keys(config: TableConfig, fields: tuple[str, ...], key: str, found: set[int] | None) -> None:
    assert BucketHashing(8, fields).of(key, config) == found


def test_a_key_with_its_column_may_be_in_either_bucket() -> None:
    buckets = BucketHashing(1 << 20, ())
    plain = buckets.of("5", ONE)
    paired = buckets.of("id:5", ONE)
    assert plain is not None
    assert paired is not None
    assert plain < paired
    assert len(paired) == 2


def piece(file_id: str, partition: str = "") -> FileSlice:
    return FileSlice(PartitionPath(partition), FileId(file_id), "1", None)


def test_slices() -> None:
    every = [piece(f"{number:08}-0000-0") for number in range(8)]
    assert BucketHashing(8, ()).slices(every, {0, 1}) == every[:2]
    assert BucketHashing(4, ()).slices(every, {0}) is None
    assert BucketHashing(8, ()).slices([*every, piece("11111111-2222-0")], {0}) is None
    assert BucketHashing(8, ()).slices([*every, piece("00000001-other-0")], {0}) is None
    assert BucketHashing(8, ()).of_keys(["1", "abc"], ONE) == {0, 1}
    assert BucketHashing(8, ()).of_keys(["1", "x,y:z"], ONE) is None


SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("fields", "equal", "found"),
    [
        (("b",), {"b": ["x"]}, {7}),
        (("b",), {"b": ["x", "q"]}, {0, 7}),
        (("b",), {"b": ["x,y"]}, None),
        (("b",), {"a": [1]}, None),
        (("a",), {"a": [1]}, None),  # texts of the other column may have commas
        (("a", "b"), {"a": [1], "b": ["x"]}, {0}),
        ((), {"a": [1], "b": ["x"]}, None),  # those are keys
    ],
)
def test_buckets_of_values(fields: tuple[str, ...], equal: dict[str, list[object]], found: set[int] | None) -> None:
    values = {name: frozenset(given) for name, given in equal.items()}
    assert BucketHashing(8, fields).of_values(values, TWO, SCHEMA) == found


def test_options() -> None:
    assert buckets_of({"hoodie.index.type": "bucket"}, 4, ()) == BucketHashing(4, ())
    assert buckets_of({"hoodie.index.type": "BUCKET"}, 0, ()) == BucketHashing(0, ())
    assert (
        buckets_of({"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, 4, ()) is None
    )
    assert buckets_of({}, 4, ()) is None
