"""Delete blocks: bytes written by Apache Hudi 0.15.0 and 1.2.0, every wrapper, corruption."""

from __future__ import annotations

import datetime as dt
import decimal
import struct

import numpy as np
import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.log import Deletes, decode_deletes, encode_deletes

# Written by Apache Hudi 1.2.0: rows "1" and "2" of an unpartitioned table upserted with _hoodie_is_deleted=true,
# one table for each type of the ordering column. Versions 6 and 9 have the same bytes.
WRITTEN = {
    "boolean": ("000000030000001004020231020002000202320200020100", pa.array([False, True])),
    "int": ("000000030000001004020231020004040202320200040600", pa.array([2, 3], pa.int32())),
    "float": ("000000030000001604020231020008000020400202320200080000604000", pa.array([2.5, 3.5], pa.float32())),
    "double": (
        "000000030000001e0402023102000a000000000000044002023202000a0000000000000c4000",
        pa.array([2.5, 3.5]),
    ),
    "string": ("00000003000000120402023102000e026202023202000e026300", pa.array(["b", "c"])),
    "bytes": ("00000003000000130402023102000c0462ff02023202000c026300", pa.array([b"b\xff", b"c"])),
    "decimal": (
        "000000030000001e040202310200120e07fe5cf2bea0000202320200120e0b8bdb9785200000",
        pa.array([decimal.Decimal("2.25"), decimal.Decimal("3.25")], pa.decimal128(30, 15)),
    ),
    "timestamp": (
        "000000030000001e0402023102000680898383e2f586060202320200068092fd83e2f5860600",
        pa.array([1704067201000000, 1704067202000000]),
    ),
    "several": (
        (
            "000000030000003204020231020018020606160e0473310680898383e2f5860600"
            "020232020018020606180e047332068092fd83e2f586060000"
        ),
        pa.StructArray.from_arrays(
            [pa.array([11, 12]), pa.array(["s1", "s2"]), pa.array([1704067201000000, 1704067202000000])],
            names=["0", "1", "2"],
        ),
    ),
    "several_with_nulls": (
        (
            "000000030000002e0402023102001802060616000680898383e2f5860600"
            "0202320200180206000e047332068092fd83e2f586060000"
        ),
        pa.StructArray.from_arrays(
            [pa.array([11, None]), pa.array([None, "s2"]), pa.array([1704067201000000, 1704067202000000])],
            names=["0", "1", "2"],
        ),
    ),
}


def decode(content: bytes) -> Deletes:
    return decode_deletes(content, context="f.log at 0")


@pytest.mark.parametrize("name", WRITTEN)
def test_blocks_written_by_apache_hudi(name: str) -> None:
    content, ordering = WRITTEN[name]
    deletes = decode(bytes.fromhex(content))
    assert deletes.keys.to_pylist() == ["1", "2"]
    assert deletes.partitions.to_pylist() == ["", ""]
    assert deletes.ordering is not None
    assert deletes.ordering.equals(ordering)
    assert not deletes.is_default.any()
    assert encode_deletes(deletes.keys, deletes.partitions, ordering).hex() == content


def test_null_ordering_value_written_by_apache_hudi() -> None:
    deletes = decode(bytes.fromhex("000000030000000f040202310200061602023202000000"))
    assert deletes.ordering is not None
    assert deletes.ordering.to_pylist() == [11, None]
    assert deletes.is_default.tolist() == [False, True]


def test_composite_keys_and_partitions_written_by_apache_hudi() -> None:
    content = (
        "000000030000004c0402226465766963653a313030312c7365713a30021c6461793d323032342d30322d3237040002226465766963"
        "653a313030302c7365713a30021c6461793d323032342d30322d3237040000"
    )
    deletes = decode(bytes.fromhex(content))
    assert deletes.keys.to_pylist() == ["device:1001,seq:0", "device:1000,seq:0"]
    assert deletes.partitions.to_pylist() == ["day=2024-02-27"] * 2
    assert deletes.ordering is None
    assert deletes.is_default.all()
    assert encode_deletes(deletes.keys, deletes.partitions, None).hex() == content


def test_reference_bytes_of_one_delete() -> None:
    content = encode_deletes(pa.array(["2"]), pa.array(["x"]), None)
    assert content[8:].hex(" ") == "02 02 02 32 02 02 78 04 00 00"
    assert struct.unpack(">ii", content[:8]) == (3, 10)


def test_no_deletes() -> None:
    content = encode_deletes(pa.array([], pa.string()), pa.array([], pa.string()), None)
    assert content == struct.pack(">ii", 3, 1) + b"\x00"
    deletes = decode(content)
    assert len(deletes) == 0
    assert deletes.ordering is None


@pytest.mark.parametrize(
    ("column", "read_back"),
    [
        (pa.array([1, -1, None, 2**31 - 1], pa.int32()), None),
        (pa.array([-5, 7, None, 9], pa.int8()), pa.array([-5, 7, None, 9], pa.int32())),
        (pa.array([1, -(2**63), 2**63 - 1, None]), None),
        (pa.array([0, 64, -64, 8191], pa.int64()), None),
        (
            pa.array([dt.date(1969, 12, 31), None, dt.date(2024, 2, 29), dt.date(1970, 1, 2)]),
            pa.array([-1, None, 19782, 1], pa.int32()),
        ),
        (pa.array([b"", b"\x00", None, b"x" * 300], pa.binary()), None),
        (pa.array(["", "ключ", None, "😀" * 50], pa.large_string()), pa.array(["", "ключ", None, "😀" * 50])),
        (pa.array([True, None, False, True]), None),
        (pa.array([float("nan"), float("inf"), None, -0.0], pa.float32()), None),
        (
            pa.array([1, None, 2, 3], pa.timestamp("ms", "UTC")),
            pa.array([1000, None, 2000, 3000], pa.int64()),
        ),
        (pa.array([1, None, 2, 3], pa.time64("us")), pa.array([1, None, 2, 3], pa.int64())),
    ],
)
def test_round_trip_of_types(column: pa.Array, read_back: pa.Array | None) -> None:
    keys = pa.array(["a", "", "ключ" * 40, "d"])
    partitions = pa.array(["", None, "p=1", "x" * 70])
    deletes = decode(encode_deletes(keys, partitions, column))
    expected = column if read_back is None else read_back
    assert deletes.keys.equals(keys)
    assert deletes.partitions.equals(partitions)
    assert deletes.ordering is not None
    assert deletes.ordering.type == expected.type
    assert str(deletes.ordering.to_pylist()) == str(expected.to_pylist())
    assert deletes.is_default.tolist() == [value is None for value in column.to_pylist()]


def test_int_zero_is_the_default_and_long_zero_is_not() -> None:
    keys = pa.array(["a", "b"])
    ints = decode(encode_deletes(keys, keys, pa.array([0, 5], pa.int32())))
    assert ints.is_default.tolist() == [True, False]
    assert ints.ordering is not None
    assert ints.ordering.to_pylist() == [None, 5]
    longs = decode(encode_deletes(keys, keys, pa.array([0, 5], pa.int64())))
    assert not longs.is_default.any()


@pytest.mark.parametrize(
    "text", ["0", "1", "-1", "127", "-128", "-129", "0.000000000000001", "999999999999999.999999999999999", "-0.5"]
)
def test_decimals_are_minimal_twos_complement(text: str) -> None:
    value = decimal.Decimal(text)
    content = encode_deletes(pa.array(["k"]), pa.array([""]), pa.array([value], pa.decimal128(38, 18)))
    unscaled = int(value.scaleb(15, decimal.Context(prec=60)))
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    expected = bytes([18, size * 2]) + unscaled.to_bytes(size, "big", signed=True)
    assert content[8 + len(b"\x02\x02\x02k\x02\x00") :] == expected + b"\x00"
    deletes = decode(content)
    assert deletes.ordering is not None
    assert deletes.ordering.to_pylist() == [value]


def test_sliced_and_chunked_columns_of_many_rows() -> None:
    count = 150_000
    keys = pa.chunked_array([pa.array([f"k{i}" for i in range(count)]), pa.array(["last"])])
    values = pa.array(np.arange(count + 6)).slice(5)
    deletes = decode(encode_deletes(keys, pa.repeat("p", count + 1), values))
    assert deletes.keys.equals(keys.combine_chunks())
    assert deletes.ordering is not None
    assert deletes.ordering.equals(pa.array(np.arange(5, count + 6)))


def record(key: bytes, ordering: bytes) -> bytes:
    return b"\x02" + bytes([2 * len(key)]) + key + b"\x00" + ordering


def content_of(*records: bytes, end: bytes = b"\x00") -> bytes:
    body = bytes([2 * len(records)]) + b"".join(records) + end
    return struct.pack(">ii", 3, len(body)) + body


def test_mixed_numbers_are_widened() -> None:
    deletes = decode(content_of(record(b"a", b"\x04\x0a"), record(b"b", b"\x06\x0c"), record(b"c", b"\x04\x00")))
    assert deletes.ordering is not None
    assert deletes.ordering.equals(pa.array([5, 6, None], pa.int64()))
    assert deletes.partitions.null_count == 3
    mixed = decode(content_of(record(b"a", b"\x04\x0a"), record(b"b", b"\x0a" + struct.pack("<d", 0.5))))
    assert mixed.ordering is not None
    assert mixed.ordering.equals(pa.array([5.0, 0.5]))


def test_wrappers_that_hudi_py_does_not_write() -> None:
    deletes = decode(content_of(record(b"a", b"\x16\x02"), record(b"b", b"\x00")))
    assert deletes.ordering is not None
    assert deletes.ordering.equals(pa.array([1, None], pa.timestamp("us", "UTC")))
    times = decode(content_of(record(b"a", b"\x14\x04")))
    assert times.ordering is not None
    assert times.ordering.equals(pa.array([2], pa.int64()))
    local_date = decode(content_of(record(b"a", b"\x18\x02\x02\x18\x04\x00")))
    assert local_date.ordering is not None
    assert local_date.ordering.to_pylist() == [{"0": dt.date(1970, 1, 3)}]


def test_array_in_blocks_with_their_size() -> None:
    body = b"\x03\x0c" + record(b"a", b"\x04\x02") + b"\x01\x0c" + record(b"b", b"\x04\x04") + b"\x00"
    deletes = decode(struct.pack(">ii", 3, len(body)) + b"\x01" + body[1:])
    assert deletes.keys.to_pylist() == ["a", "b"]


def test_types_that_cannot_be_compared() -> None:
    with pytest.raises(UnsupportedTableError, match=r"f\.log at 0: .* LONG and STRING"):
        decode(content_of(record(b"a", b"\x06\x0a"), record(b"b", b"\x0e\x02x")))


def test_a_later_version() -> None:
    with pytest.raises(UnsupportedTableError, match="f.log at 0: delete block version 4"):
        decode(struct.pack(">ii", 4, 1) + b"\x00")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack(">ii", 3, 5) + b"\x00",
        struct.pack(">ii", 0, 1) + b"\x00",
        struct.pack(">ii", 3, 0),
        content_of(end=b"\x00\x00"),
        content_of(record(b"a", b"\x04\x00"), end=b""),
        content_of(record(b"a", b"\x04\x00"), end=b"\xfe\xff\xff\xff\x0f"),
        content_of(b"\x00\x00\x04\x00"),
        content_of(b"\x02\x01\x00\x04\x00"),
        content_of(b"\x02\xfe\xff\xff\xff\x0f\x00\x04\x00"),
        content_of(record(b"\xff\xfe", b"\x04\x00")),
        content_of(record(b"a", b"\x05\x00")),
        content_of(record(b"a", b"\x1a\x00")),
        content_of(record(b"a", b"\x02\x02")),
        content_of(record(b"a", b"\x04" + b"\xff" * 11 + b"\x00")),
        content_of(record(b"a", b"\x04\xff\xff\xff\xff\xff\x01")),
        content_of(record(b"a", b"\x12\x00")),
        content_of(record(b"a", b"\x12\x22" + b"\x01" * 17)),
        content_of(record(b"a", b"\x12\x20" + b"\x7f" * 16)),
        content_of(record(b"a", b"\x18\x04")),
        content_of(record(b"a", b"\x18\x00")),
        content_of(record(b"a", b"\x18\x02\xfe\xff\xff\xff\x0f\x00")),
        content_of(record(b"a", b"\x18\x02\x02\x1a\x00\x00")),
        content_of(record(b"a", b"\x18\x02\x02\x04\x02\x00"), record(b"b", b"\x18\x02\x04\x04\x02\x04\x02\x00")),
    ],
)
def test_corrupt_content(content: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"^Cannot read deletes of f\.log at 0: "):
        decode(content)


def test_what_cannot_be_encoded() -> None:
    key = pa.array(["a"])
    with pytest.raises(SchemaMismatchError, match="1 record keys are null"):
        encode_deletes(pa.array([None], pa.string()), key, None)
    with pytest.raises(SchemaMismatchError, match="ordering value of type list"):
        encode_deletes(key, key, pa.array([[1]]))
    with pytest.raises(SchemaMismatchError, match=r"decimal128\(38, 0\).*decimal128\(30, 15\)"):
        encode_deletes(key, key, pa.array([decimal.Decimal(10**20)], pa.decimal128(38, 0)))
