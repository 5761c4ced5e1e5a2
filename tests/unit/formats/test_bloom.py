"""Bloom filters against filters written by Apache Hudi 1.2.0."""

from __future__ import annotations

import base64
import hashlib
import struct

import numpy as np
import pyarrow as pa
import pytest

from hudi_py.errors import ConfigError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.keys.bloom import DYNAMIC, SIMPLE, BloomConfig, BloomFilter
from tests.unit.formats.test_hashing import TEXTS

# BloomFilterFactory.createBloomFilter(entries, 0.01, 9, type) with the first `count` keys added, serializeToString
WRITTEN = [
    (4, SIMPLE, 0, "/////wAAAAcBAAAAJwAAAAAA"),
    (4, SIMPLE, 4, "/////wAAAAcBAAAAJ1iY3DM/"),
    (4, SIMPLE, 5, "/////wAAAAcBAAAAJ/iZ3DM/"),
    (4, SIMPLE, 9, "/////wAAAAcBAAAAJ/j7/b8/"),
    (4, SIMPLE, 17, "/////wAAAAcBAAAAJ/7///9/"),
    (4, DYNAMIC, 0, "/////wAAAAcBAAAAJwAAAAQAAAAAAAAAAf////8AAAAHAQAAACcAAAAAAA=="),
    (4, DYNAMIC, 4, "/////wAAAAcBAAAAJwAAAAQAAAAEAAAAAf////8AAAAHAQAAACdYmNwzPw=="),
    (4, DYNAMIC, 5, "/////wAAAAcBAAAAJwAAAAQAAAABAAAAAv////8AAAAHAQAAACdYmNwzP/////8AAAAHAQAAACegERgAAA=="),
    (
        4,
        DYNAMIC,
        9,
        "/////wAAAAcBAAAAJwAAAAQAAAABAAAAA/////8AAAAHAQAAACdYmNwzP/////8AAAAHAQAAACeg83wsO/////8AAAAHAQAAACdACEGIBA==",
    ),
    (
        4,
        DYNAMIC,
        17,
        "/////wAAAAcBAAAAJwAAAAQAAAAJAAAAA/////8AAAAHAQAAACdc/N63f/////8AAAAHAQAAACew83x8O/////8AAAAHAQAAACdW/XvOFw==",
    ),
    (5, SIMPLE, 9, "/////wAAAAcBAAAAMPbf579jbw=="),
    (5, DYNAMIC, 5, "/////wAAAAcBAAAAMAAAAAUAAAAFAAAAAf////8AAAAHAQAAADC02calY0s="),
    (5, DYNAMIC, 9, "/////wAAAAcBAAAAMAAAAAUAAAAEAAAAAv////8AAAAHAQAAADC02calY0v/////AAAABwEAAAAwZg7lOgIn"),
    (5, DYNAMIC, 17, "/////wAAAAcBAAAAMAAAAAUAAAAMAAAAAv////8AAAAHAQAAADC+28/n52v/////AAAABwEAAAAwdj/n/j7v"),
]


@pytest.mark.parametrize(("entries", "kind", "count", "text"), WRITTEN)
def test_filters_written_by_apache_hudi(entries: int, kind: str, count: int, text: str) -> None:
    config = BloomConfig(entries, 0.01, 9, kind)
    keys = pa.array(TEXTS[:count], pa.string())
    assert BloomFilter.from_keys(keys, config).encode() == text
    one_by_one = BloomFilter(config)
    for at in range(count):
        one_by_one.add(keys.slice(at, 1))
    assert one_by_one.encode() == text
    read = BloomFilter.decode(text, kind)
    assert read.type_code == kind
    assert read.encode() == text
    assert read.might_contain(keys).all()


def test_default_filter_of_a_base_file() -> None:
    """The footer of a base file by Apache Hudi 0.15.0 with these keys and default settings has this SHA-256."""
    bloom = BloomFilter.from_keys(pa.array(["trip-00030", "trip-00032", "trip-00031", "trip-00033"]), BloomConfig())
    digest = hashlib.sha256(bloom.encode().encode()).hexdigest()
    assert digest == "25dae1a1618bc0e8182b9581c9f2a5531130478d1be0ec76629a152d3df562dd"


def test_sizes_of_the_default() -> None:
    assert (BloomConfig().bits, BloomConfig().hashes) == (2587966, 30)


def test_a_missing_type_code_means_simple() -> None:
    assert BloomFilter.decode(WRITTEN[1][3], None).type_code == SIMPLE


@pytest.mark.parametrize("kind", [SIMPLE, DYNAMIC])
def test_many_keys(kind: str) -> None:
    keys = pa.array([f"key-{at * 7919 % 100_003}" for at in range(50_000)])
    bloom = BloomFilter.from_keys(keys, BloomConfig(20_000, 1e-4, 40_000, kind))
    assert bloom.might_contain(keys).all()
    absent = bloom.might_contain(pa.array([f"other-{at}" for at in range(20_000)]))
    assert absent.mean() < 0.15  # two and a half times the keys it is made for
    as_chunks = BloomFilter.from_keys(
        pa.chunked_array([keys.slice(0, 17), keys.slice(17, 39_983), keys.slice(40_000)]),
        BloomConfig(20_000, 1e-4, 40_000, kind),
    )
    assert as_chunks.encode() == bloom.encode()
    some = pa.array([f"other-{at}" for at in range(20_000)])
    none = some.filter(pa.array(~bloom.might_contain(some)))
    assert not bloom.might_contain_any(none)
    assert not bloom.might_contain_any(none[:0])
    for at in (0, 1, 7_003, len(none)):
        assert bloom.might_contain_any(pa.concat_arrays([none[:at], keys[:1], none[at:]]))
    pieces = BloomFilter(BloomConfig(20_000, 1e-4, 40_000, kind))
    for start in range(0, 50_000, 7_001):
        pieces.add(keys.slice(start, 7_001))
    assert pieces.encode() == bloom.encode()


@pytest.mark.parametrize("kind", [SIMPLE, DYNAMIC])
def test_a_filter_for_the_keys_that_there_are(kind: str) -> None:
    """It is what Apache Hudi makes with as many entries; beyond the number it is what it makes anyway."""
    config = BloomConfig(1_000, 1e-9, 2_000, kind, sized=True)
    keys = pa.array([f"key-{at}" for at in range(2_500)])
    for count in (0, 1, 2, 60, 999, 1_000, 1_001, 2_500):
        bloom = BloomFilter(config)
        for start in range(0, count, 400):
            bloom.add(keys.slice(start, min(400, count - start)))
        asked = BloomConfig(min(max(count, 1), 1_000), 1e-9, 2_000, kind)
        assert bloom.encode() == BloomFilter.from_keys(keys.slice(0, count), asked).encode()
        assert bloom.might_contain(keys.slice(0, count)).all()
        absent = pa.array([f"other-{at}" for at in range(20_000)])
        assert count > 1_000 or not bloom.might_contain(absent).any()
    assert BloomFilter.from_keys(pa.chunked_array([keys[:9], keys[9:60]]), config).might_contain(keys[:60]).all()
    assert len(BloomFilter.from_keys(keys[:1], config).encode()) < 100
    text = BloomFilter.from_keys(keys[:1_000], config).encode()
    assert BloomFilter.decode(text, kind).might_contain(keys[:1_000]).all()


def test_nulls_are_left_out() -> None:
    bloom = BloomFilter.from_keys(pa.array(["a", None, "b"]), BloomConfig(10, 1e-6))
    assert bloom.encode() == BloomFilter.from_keys(pa.array(["a", "b"]), BloomConfig(10, 1e-6)).encode()
    assert bloom.might_contain(pa.array(["a", None, "c"])).tolist() == [True, False, False]
    assert bloom.might_contain(pa.array([], pa.string())).dtype == np.bool_


def header(version: int = -1, hashes: int = 7, hash_type: int = 1, bits: int = 39) -> bytes:
    return struct.pack(">iibi", version, hashes, hash_type, bits)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", SIMPLE),
        (header()[:-1], SIMPLE),
        (header(), SIMPLE),
        (header() + bytes(6), SIMPLE),
        (header(hashes=0) + bytes(5), SIMPLE),
        (header(hashes=2**30) + bytes(5), SIMPLE),
        (header(bits=-39) + bytes(5), SIMPLE),
        (header(bits=2**31 - 1) + bytes(5), SIMPLE),
        (header(), DYNAMIC),
        (header() + struct.pack(">iii", 4, 0, 0), DYNAMIC),
        (header() + struct.pack(">iii", 4, 0, -1), DYNAMIC),
        (header() + struct.pack(">iii", 4, 0, 2**31 - 1), DYNAMIC),
        (header() + struct.pack(">iii", 4, 0, 1) + header(bits=38) + bytes(5), DYNAMIC),
    ],
)
def test_damaged_filters(data: bytes, kind: str) -> None:
    with pytest.raises(CorruptFileError, match=r"bloom filter of f\.parquet"):
        BloomFilter.decode(base64.b64encode(data).decode(), kind, context="f.parquet")


def test_text_that_is_not_base64() -> None:
    with pytest.raises(CorruptFileError, match=r"bloom filter of f\.parquet"):
        BloomFilter.decode("not base64 é", SIMPLE, context="f.parquet")


def test_filters_of_other_kinds() -> None:
    with pytest.raises(UnsupportedTableError, match="type 'QUOTIENT'"):
        BloomFilter.decode("", "QUOTIENT")
    for data in (header(version=3), header(hash_type=0)):
        with pytest.raises(UnsupportedTableError, match="supported: version -1 with hash 1"):
            BloomFilter.decode(base64.b64encode(data + bytes(5)).decode(), SIMPLE)


@pytest.mark.parametrize(
    ("entries", "rate", "kind", "message"),
    [(10, 0.1, "FAST", "type 'FAST'"), (0, 0.1, SIMPLE, "at least one"), (10, 1, SIMPLE, "between 0 and 1"),
     (10**9, 1e-9, SIMPLE, "the format allows")],
)  # fmt: skip
def test_wrong_configuration(entries: int, rate: float, kind: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BloomConfig(entries, rate, type=kind)
