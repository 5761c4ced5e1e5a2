"""Hash functions against values computed by Java 17 and Apache Hudi 1.2.0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError
from hudi_py.formats.keys.hashing import Murmur, Texts, avro_utf8_hash, java_string_hash, xx_hash64

# key, String.hashCode, MurmurHash of the UTF-8 bytes with seed 0 and with seed -123456789
KEYS = [
    ("a", 97, -1838653602, -660579645),
    ("ab", 3105, 1525573013, -1350732610),
    ("abc", 96354, 1775488903, -266368160),
    ("abcd", 2987074, 646393889, -585429739),
    ("key:1", 101943766, -1253316655, -404718355),
    ("id:7,name:é", 1076921934, -794251751, 1905922657),
    ("ключ", 33309882, 1599728837, 1710234207),
    ("😀", 1772899, -842402043, 1885028301),
    ("\ufffdz", 2031645, 70222456, -1213064738),
    ("日本語のキー", -841196058, -238504260, 1286277809),
    ("trip-000012", 604406985, -787222509, -272112344),
    ("x\x00y", 115441, -1733057587, -1885332068),
    ("0", 48, 1111412596, 2080914555),
    ("zzzzzzzzzzzzzzzzzzzzzz", -2096236608, 125553103, -1165551976),
    ("ÿ", 255, 1724310515, 1272280361),
    ("þÿþ", 252253, 1050585317, 1089467081),
    ("last", 3314326, 2012566493, 2080428369),
]
TEXTS = [row[0] for row in KEYS]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_java_hash_code(kind: pa.DataType) -> None:
    hashes = java_string_hash(pa.array(TEXTS, kind))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [row[1] for row in KEYS]


def test_java_hash_code_of_ascii_slices_nulls_and_chunks() -> None:
    column = pa.array(["skipped", "abc", None, "", "trip-000012", "skipped"])
    expected = [96354, 0, 0, 604406985]
    assert java_string_hash(column.slice(1, 4)).tolist() == expected
    assert java_string_hash(pa.chunked_array([column.slice(1, 1), column.slice(2, 3)])).tolist() == expected
    assert java_string_hash(pa.array([], pa.string())).tolist() == []
    assert java_string_hash(pa.chunked_array([], pa.string())).tolist() == []


def test_java_hash_code_of_a_long_text() -> None:
    assert java_string_hash(pa.array(["".join(chr(0x400 + at) for at in range(1000)), "a"])).tolist() == [
        1958951412,
        97,
    ]


def test_java_hash_code_refuses_what_is_not_utf8() -> None:
    broken = pa.array([b"ok", b"\xff\xfe"], pa.binary())
    with pytest.raises(CorruptFileError, match="Cannot hash 2 strings: not UTF-8"):
        java_string_hash(broken)


def test_murmur_with_one_seed_and_with_seeds() -> None:
    murmur = Murmur(Texts.of(pa.array(TEXTS)))
    assert murmur.hash(0).tolist() == [row[2] for row in KEYS]
    assert murmur.hash(-123456789).tolist() == [row[3] for row in KEYS]
    seeds = np.where(np.arange(len(KEYS)) % 2 == 0, 0, -123456789).astype(np.int32)
    assert murmur.hash(seeds).tolist() == [row[2 + at % 2] for at, row in enumerate(KEYS)]


@pytest.mark.parametrize("length", [1, 3, 4, 8])
def test_murmur_of_equal_lengths(length: int) -> None:
    some = [row for row in KEYS if len(row[0].encode()) == length]
    assert some
    assert Murmur(Texts.of(pa.array([row[0] for row in some]))).hash(0).tolist() == [row[2] for row in some]


def test_texts_of_a_slice_hold_only_its_bytes() -> None:
    texts = Texts.of(pa.array(["x" * 1000, "ab", "c"]).slice(1))
    assert len(texts.data) == 3
    assert len(texts.take(np.array([1]))) == 1


def test_xx_hash64() -> None:
    # by the specification's implementation
    assert xx_hash64(pa.array(["", "abc", "xxhash"])).tolist() == [
        0xEF46DB3751D8E999,
        0x44BC2CF5AD770999,
        0x32DD38952C4BC720,
    ]


def test_hashes_of_avro_texts_are_over_signed_bytes() -> None:
    texts = pa.array(["", "a", None, "key8", "é"])
    expected = [0, 97, 0, 3288505, (0xC3 - 256) * 31 + (0xA9 - 256)]
    assert avro_utf8_hash(texts).tolist() == expected
    assert avro_utf8_hash(texts.slice(3)).tolist() == expected[3:]
