"""Keys of the metadata table. Values marked so are Apache Hudi's, read from its files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.metadata import keys


def test_ids_are_those_of_apache_hudi() -> None:
    assert keys.column_id("name") == "F5SYxeUa1U8="
    assert keys.partition_id("x") == "wRnP+I5Ah7A="
    assert keys.partition_id("") == keys.partition_id(".") == "FXThHwelITM="
    assert keys.column_stats_key("name", "x", "f") == "F5SYxeUa1U8=wRnP+I5Ah7A=" + keys.file_id("f")
    assert len(keys.file_id("any")) == 24


@pytest.mark.parametrize(
    ("text", "seed", "digest"),
    [
        # vectors of the reference implementation of XXH64
        ("", 0, "ef46db3751d8e999"),
        ("a", 0, "d24ec4f1a98c6e5b"),
        ("Nobody inspects the spammish repetition", 0, "fbcea83c8a378bf1"),
    ],
)
def test_hash(text: str, seed: int, digest: str) -> None:
    assert keys.hash64(text, seed).hex() == digest


def test_file_groups_are_those_of_apache_hudi() -> None:
    assert keys.file_groups(["2", "1", "3", "5"], 10).tolist() == [0, 9, 1, 3]
    assert keys.file_groups(["anything"], 1).tolist() == [0]


@given(st.lists(st.text(max_size=8)), st.integers(1, 2000))
def test_every_key_has_a_group(texts: list[str], count: int) -> None:
    groups = keys.file_groups([t for t in texts if t.isprintable()], count)
    assert all(0 <= group < count for group in groups.tolist())


def test_secondary_keys() -> None:
    assert keys.secondary_prefix("a$b") == "a\\$b$"
    assert keys.secondary_prefix(None) == "\0$"
    assert keys.record_key_of_secondary("\0$3") == "3"


@given(st.text(), st.text())
def test_secondary_keys_come_apart(value: str, key: str) -> None:
    escaped = keys.secondary_prefix(key)[:-1]
    assert keys.record_key_of_secondary(keys.secondary_prefix(value) + escaped) == key


def test_partition_keys() -> None:
    assert [keys.partition_of_key(keys.partition_key(path)) for path in ("", "a/b", "x=1")] == ["", "a/b", "x=1"]
