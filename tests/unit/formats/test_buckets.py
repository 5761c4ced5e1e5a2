"""The buckets of record keys, as Apache Hudi's bucket index finds them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.keys.buckets import bucket_number, bucket_numbers, hash_values

MANY = (1 << 31) - 1


def numbers(keys: list[str], hashed: tuple[str, ...], fields: tuple[str, ...], count: int) -> list[int]:
    return bucket_numbers(pa.array(keys, pa.string()), hashed, fields, count).tolist()


def java_hash(values: list[str | None]) -> int:
    total = 1
    for value in values:
        own = 0
        data = (value or "").encode("utf-16-le")
        for at in range(0, len(data), 2):
            own = (31 * own + int.from_bytes(data[at : at + 2], "little")) & 0xFFFFFFFF
        total = (31 * total + own) & 0xFFFFFFFF
    return (total & 0x7FFFFFFF) % MANY


def test_keys_written_by_apache_hudi() -> None:
    """Numbers are those of the files of Apache Hudi 1.2.0."""
    assert numbers(["1", "abc"], ("id",), ("id",), 8) == [0, 1]
    assert numbers(["a:1,b:x"], ("a", "b"), ("a", "b"), 8) == [0]
    assert numbers(["a:1,b:x"], ("b",), ("a", "b"), 8) == [7]
    assert numbers([], ("a",), ("a", "b"), 8) == []


@pytest.mark.parametrize(
    ("key", "hashed", "values"),
    [
        ("a", ["k"], ["a"]),
        ("k:1", ["k"], ["k:1"]),
        ("x,y", ["k"], ["x,y"]),
        ("a,b:c", ["k"], ["a,b:c"]),
        ("k:1,b", ["k"], ["1,b"]),
        ("1,2:3,4", ["s"], ["1,2:3,4"]),
        ("i:1,s:a,b", ["i", "s"], ["1", "a,b"]),
        ("i:__null__,s:__empty__", ["i", "s"], [None, ""]),
        ("n:v:0,i:3", ["i"], ["3"]),
        ("t:10:20:30,i:3", ["t", "i"], ["10:20:30", "3"]),
        ("i:3,t:10:20:30", ["t", "i"], ["3", "10:20:30"]),
        ("s:1,2:3,4,i:6", ["i"], ["6"]),
    ],
)
def test_values_that_are_hashed(key: str, hashed: list[str], values: list[str | None]) -> None:
    assert hash_values(key, hashed) == values


@pytest.mark.parametrize("key", ["a,x:b:c", "i:1,t:10:20", "k:1:2,b"])
def test_a_key_that_apache_hudi_cannot_take_apart_is_refused(key: str) -> None:
    """Its loop over the colons of a key would not end."""
    with pytest.raises(SchemaMismatchError, match="cannot split it at"):
        numbers([key], ("i",), ("i", "t"), 8)


PART = st.text(st.sampled_from("ab:,é😀_"), min_size=1, max_size=4) | st.sampled_from(["__null__", "__empty__"])


@given(st.lists(st.tuples(PART, PART, PART), max_size=6), st.sets(st.sampled_from("xyz"), min_size=1))
def test_all_at_once_as_one_by_one(rows: list[tuple[str, str, str]], chosen: set[str]) -> None:
    fields = ("x", "y", "z")
    hashed = tuple(name for name in fields if name in chosen)
    keys = [",".join(f"{name}:{part}" for name, part in zip(fields, row, strict=True)) for row in rows]
    expected: list[int] = []
    for key in keys:
        try:
            expected.append(java_hash(hash_values(key, hashed)))
        except SchemaMismatchError:
            with pytest.raises(SchemaMismatchError):
                numbers(keys, hashed, fields, MANY)
            return
    assert numbers(keys, hashed, fields, MANY) == expected


def test_numbers_of_file_ids() -> None:
    assert bucket_number("00000012-bfdf-4a49-a600-4f7adce7b226-0") == 12
    assert bucket_number("0000001a-bfdf-4a49-a600-4f7adce7b226-0") is None
