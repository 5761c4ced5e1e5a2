"""Bloom filters under random keys: no false negatives, exact round trip, the answers of a plain reading."""

from __future__ import annotations

import base64
import contextlib
import struct

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.keys.bloom import DYNAMIC, SIMPLE, BloomConfig, BloomFilter
from hudi_py.formats.keys.hashing import Murmur, Texts, java_string_hash

KEYS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40), max_size=40)
CONFIGS = st.builds(
    BloomConfig, st.integers(1, 20), st.sampled_from([0.5, 0.1, 1e-3, 1e-9]), st.integers(1, 50),
    st.sampled_from([SIMPLE, DYNAMIC]),
)  # fmt: skip


def signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def murmur(data: bytes, seed: int) -> int:
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    value = (seed ^ len(data)) & mask
    for at in range(0, len(data) & ~3, 4):
        word = int.from_bytes(data[at : at + 4], "little") * m & mask
        value = (value * m & mask) ^ ((word ^ (word >> 24)) * m & mask)
    if len(data) & 3:
        for shift, byte in zip((0, 8, 16), reversed(data[len(data) & ~3 :]), strict=False):
            value ^= ((byte - 256 if byte > 127 else byte) << shift) & mask
        value = value * m & mask
    value = (value ^ (value >> 13)) * m & mask
    return signed(value ^ (value >> 15))


@given(KEYS, st.integers(-(2**31), 2**31 - 1))
def test_murmur(keys: list[str], seed: int) -> None:
    found = Murmur(Texts.of(pa.array(keys, pa.string()))).hash(seed)
    assert found.tolist() == [murmur(key.encode(), seed) for key in keys]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40)))
def test_java_hash_code(keys: list[str]) -> None:
    def plain(key: str) -> int:
        value = 0
        for (unit,) in struct.iter_unpack("<H", key.encode("utf-16-le")):
            value = 31 * value + unit
        return signed(value)

    assert java_string_hash(pa.array(keys, pa.string())).tolist() == [plain(key) for key in keys]


@given(KEYS, CONFIGS, st.integers(0, 40))
def test_no_false_negatives_and_exact_round_trip(keys: list[str], config: BloomConfig, split: int) -> None:
    column = pa.array(keys, pa.string())
    bloom = BloomFilter(config)
    bloom.add(column.slice(0, split))
    bloom.add(column.slice(split))
    text = bloom.encode()
    assert text == BloomFilter.from_keys(column, config).encode()
    read = BloomFilter.decode(text, config.type)
    assert read.encode() == text
    assert bloom.might_contain(column).all()
    assert read.might_contain(column).all()


@given(KEYS, KEYS, CONFIGS)
def test_answers_of_a_plain_reading(keys: list[str], asked: list[str], config: BloomConfig) -> None:
    bloom = BloomFilter.from_keys(pa.array(keys, pa.string()), config)
    data = base64.b64decode(bloom.encode())
    size = 13 + (config.bits + 7) // 8
    begin = 25 if config.type == DYNAMIC else 0
    rows = [data[at + 13 : at + size] for at in range(begin, len(data), size)]

    def positions(key: str) -> list[int]:
        seed, found = 0, []
        for _ in range(config.hashes):
            seed = murmur(key.encode(), seed)
            found.append(abs(seed) % config.bits)
        return found

    expected = [any(all(row[p >> 3] >> (p & 7) & 1 for p in positions(key)) for row in rows) for key in asked]
    assert bloom.might_contain(pa.array(asked, pa.string())).tolist() == expected


@given(KEYS, CONFIGS, st.data())
def test_damaged_filters_answer_or_raise(keys: list[str], config: BloomConfig, data: st.DataObject) -> None:
    damaged = bytearray(base64.b64decode(BloomFilter.from_keys(pa.array(keys, pa.string()), config).encode()))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, min(len(damaged), 40) - 1))] = data.draw(st.integers(0, 255))
    text = base64.b64encode(bytes(damaged[: data.draw(st.integers(0, len(damaged)))])).decode()
    with contextlib.suppress(CorruptFileError, UnsupportedTableError):
        BloomFilter.decode(text, config.type).might_contain(pa.array(keys, pa.string()))
