"""Delete blocks of versions 1 and 2, decoded from what Apache Hudi's own `SerializationUtils` wrote.

kryo_samples.json holds the bytes in hexadecimal. `table_*` come from log files which release 0.12.2 wrote, one
table for each type of the ordering field (the tables `mor_ordering` of tests/golden/old/make_tables.py). The others
are the output of `SerializationUtils.serialize` of hudi-common 0.12.1 with Kryo 4.0.2 (`utf8_0.13`: of 0.13.1),
called with arrays of `HoodieKey` or of `DeleteRecord.create(new HoodieKey("k" + i, "p"), value)`; `shared` holds
the same record and key several times.
"""

from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError, HudiError, UnsupportedTableError
from hudi_py.formats.log import Deletes, decode_deletes

SAMPLES = {
    name: bytes.fromhex(text)
    for name, text in json.loads((Path(__file__).parent / "kryo_samples.json").read_text()).items()
}
UTC = datetime.timezone.utc
ONE_KEY = SAMPLES["table_long"]


def version_of(data: bytes) -> int:
    return 1 if b"[Lorg.apache.hudi.common.model.HoodieKey\xbb" in data else 2


def decode(data: bytes, version: int | None = None) -> Deletes:
    content = struct.pack(">ii", version or version_of(data), len(data)) + data
    return decode_deletes(content, context="f.log at 0")


def test_keys_alone() -> None:
    found = decode(SAMPLES["keys_v1"])
    keys = ["", "schlüssel", "\U0001f600", "x" * 63, "y" * 64, "z" * 8300]
    assert found.keys.to_pylist() == keys
    assert found.partitions.to_pylist() == [None, "p", "p", "p", "p", "ü" * 100]
    assert found.ordering is None
    assert found.is_default.tolist() == [True] * 6


def test_no_records() -> None:
    found = decode(SAMPLES["none_v1"])
    assert (len(found), found.ordering, found.is_default.tolist()) == (0, None, [])


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("utf8_avro_1.8", pa.string(), ["abc", "grün", ""]),
        ("utf8_avro_1.11", pa.string(), ["abc", "grün", ""]),
        ("utf8_0.13", pa.string(), ["abc", "grün", ""]),
        ("string", pa.string(), ["abc", "grün", ""]),
        ("many", pa.int32(), [1, -1, 2**31 - 1, -(2**31)]),
        ("longs", pa.int64(), [0, 2**63 - 1, -(2**63), 2**33]),
        ("decimal", pa.decimal128(7, 3), [Decimal(0), Decimal("-1.5"), Decimal(0), Decimal(1000)]),
        ("date", pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    ],
)
def test_ordering_values(name: str, kind: pa.DataType, values: list[Any]) -> None:
    found = decode(SAMPLES[name])
    assert found.keys.to_pylist() == [f"k{at}" for at in range(len(values))]
    assert found.partitions.to_pylist() == ["p"] * len(values)
    assert found.ordering is not None
    assert found.ordering.type == kind
    assert found.ordering.to_pylist() == values
    assert not found.is_default.any()


def test_a_timestamp_in_milliseconds() -> None:
    ordering = decode(SAMPLES["timestamp"]).ordering
    assert ordering is not None
    assert ordering.type == pa.timestamp("us", "UTC")
    assert ordering.cast(pa.int64()).to_pylist() == [1715941230456000]


def test_null_and_the_int_zero_are_the_default() -> None:
    found = decode(SAMPLES["defaults"])
    assert found.ordering is None
    assert found.is_default.tolist() == [True] * 3


def test_references_to_records_and_keys() -> None:
    found = decode(SAMPLES["shared"])
    assert found.keys.to_pylist() == ["same"] * 3
    assert found.ordering is not None
    assert found.ordering.to_pylist() == [5, 6, 5]


DAY = datetime.date(2024, 5, 17)
MOMENT = int(datetime.datetime(2024, 5, 17, 10, 20, 30, 456789, UTC).timestamp()) * 1_000_000 + 456789


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", [-5, 70000, 100]),
        ("long", [5, -(2**50), 2**40]),
        ("float", [0.5, -3.0, 1.25]),
        ("double", [0.1, -7.5, 1e300]),
        ("string", ["b", "x" * 80, "grün"]),
        ("decimal", [Decimal("1.5"), Decimal(9999999999999999), Decimal("-123456789.0123")]),
        ("date", [DAY, DAY.replace(day=18), DAY.replace(year=1969)]),
        ("timestamp", [MOMENT, None, MOMENT + 3_600_000_000]),
        ("boolean", [True, True, True]),
    ],
)
def test_tables_of_release_0_12(kind: str, values: list[Any]) -> None:
    found = decode(SAMPLES[f"table_{kind}"])
    assert found.keys.to_pylist() == ["key 0", "key 2", "key 1"]
    assert found.partitions.to_pylist() == ["", "", ""]
    assert found.ordering is not None
    for actual, expected in zip(found.ordering.to_pylist(), values, strict=True):
        assert expected is None or actual == expected


@pytest.mark.parametrize(
    ("name", "shown"), [("short", "short"), ("byte", "byte"), ("char", "char"), ("sqldate", "java.sql.Date")]
)
def test_other_classes_are_refused_by_name(name: str, shown: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f"f.log at 0: .* version 2 is of the class {shown}; compact"):
        decode(SAMPLES[name])


def test_an_unknown_registered_class() -> None:
    data = ONE_KEY.replace(b"key \xb0\x09", b"key \xb0\x63")
    assert data != ONE_KEY
    with pytest.raises(UnsupportedTableError, match="registered as number 97"):
        decode(data)


def test_types_that_cannot_be_compared() -> None:
    data = ONE_KEY.replace(b"key \xb2\x09\xff\xff\xff\xff\xff\xff\xff\x03", b"key \xb2\x03\x01\x82x")
    with pytest.raises(UnsupportedTableError, match="of the types long and string"):
        decode(data)


def test_numbers_of_two_types_become_the_wider() -> None:
    data = ONE_KEY.replace(b"key \xb2\x09\xff\xff\xff\xff\xff\xff\xff\x03", b"key \xb2\x04?\x00\x00\x00")
    ordering = decode(data).ordering
    assert ordering is not None
    assert ordering.to_pylist() == [5.0, 0.5, float(2**40)]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "index out of range"),
        (b"\x00", "an object of the class None"),
        (ONE_KEY + b"\x00", "1 bytes after the last record"),
        (ONE_KEY[:-1], "index out of range"),
        (ONE_KEY.replace(b"DeleteRecord\xbb\x01\x04", b"DeleteRecord\xbb\x01\xff\x7f"), "16382 records claimed"),
        (ONE_KEY.replace(b"\x01\x05\x01key \xb2", b"\x01\x63\x01key \xb2"), "a reference to object 97 of"),
        (ONE_KEY.replace(b"\x01\x05\x01key \xb2", b"\x01\x02\x01key \xb2"), "which is not a java.lang.String"),
        (ONE_KEY.replace(b"\x01\x05\x01key \xb2", b"\x01\x05\x00"), "a record without a record key"),
        (SAMPLES["none_v1"][:2] + b"\xff\xff\xff\xff\x7f", "characters in 0 bytes"),
    ],
)
def test_corrupt_bytes(data: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=f"Cannot read deletes of f.log at 0: .*({what})"):
        decode(data, version_of(data) if len(data) > 50 else 2)


def test_keys_in_a_block_of_records() -> None:
    with pytest.raises(CorruptFileError, match="expected an array of org.apache.hudi.common.model.DeleteRecord"):
        decode(SAMPLES["keys_v1"], 2)


def test_few_bytes_that_stand_for_much_text() -> None:
    data = bytearray(SAMPLES["shared"][: SAMPLES["shared"].index(b"\x01\x04\x01\x01org") + 1])
    count = 100_000
    data += bytes((0x80 | (count + 1) & 0x7F, 0x80 | (count + 1) >> 7 & 0x7F, (count + 1) >> 14))
    data += (
        b"\x01\x01org.apache.hudi.common.model.DeleteRecor\xe4\x01\x01\x02org.apache.hudi.common.model.HoodieKe\xf9\x01"
    )
    size = 1_000_001
    data += b"\x00\x01" + bytes((0x80 | 0x40 | size & 0x3F, 0x80 | size >> 6 & 0x7F, size >> 13)) + b"k" * (size - 1)
    data += b"\x00" + (count - 1) * b"\x01\x01\x03"
    with pytest.raises(CorruptFileError, match="characters of keys"):
        decode(bytes(data))


@settings(max_examples=120)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_changed_bytes_give_records_or_an_error(name: str, data: st.DataObject) -> None:
    sample = bytearray(SAMPLES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(sample) - 1))
        sample[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
        if not sample:
            break
    try:
        found = decode(bytes(sample), version_of(SAMPLES[name]))
    except HudiError:
        return
    assert len(found.keys) == len(found.partitions) == len(found.is_default)
    found.keys.validate(full=True)
