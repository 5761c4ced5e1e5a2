"""Avro object container files."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.avro import read_container, write_container

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieInstantInfo",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "commitTime", "type": "string"},
        {"name": "action", "type": ["null", "string"], "default": None},
    ],
}
RECORDS = [{"commitTime": "20240101000000000", "action": "commit"}, {"commitTime": "2", "action": None}]


def test_round_trip_without_compression() -> None:
    data = write_container(SCHEMA, RECORDS)
    assert data.startswith(b"Obj\x01")
    assert b"avro.codec\x08null" in data
    schema, records = read_container(data)
    assert schema["name"].endswith("HoodieInstantInfo")
    assert [field["name"] for field in schema["fields"]] == ["commitTime", "action"]
    assert records == RECORDS
    assert read_container(write_container(SCHEMA, []))[1] == []
    assert "__fastavro_parsed_schema" not in SCHEMA


@pytest.mark.parametrize(
    "data", [b"", b"Obj\x01", b"{}", write_container(SCHEMA, RECORDS)[:-5], b"Obj\x01" + b"\xff" * 40]
)
def test_corrupt_files_are_named(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"commits/1\.commit") as found:
        read_container(data, context="commits/1.commit")
    assert "\n" not in str(found.value)


def test_every_damaged_byte_is_an_error_or_records() -> None:
    data = write_container(SCHEMA, RECORDS)
    for i in range(len(data)):
        for value in (0, 255, data[i] ^ 1):
            damaged = data[:i] + bytes([value]) + data[i + 1 :]
            try:
                _, records = read_container(damaged)
            except CorruptFileError:
                continue
            assert isinstance(records, list)


def test_a_compression_that_needs_another_package() -> None:
    data = write_container(SCHEMA, RECORDS).replace(b"avro.codec\x08null", b"avro.codec\x0csnappy")
    with pytest.raises((UnsupportedTableError, CorruptFileError), match=r"install|corrupt"):
        read_container(data)


def test_records_that_do_not_fit() -> None:
    with pytest.raises(SchemaMismatchError, match="HoodieInstantInfo"):
        write_container(SCHEMA, [{"commitTime": 5}])


def test_fastavro_is_loaded_on_use_only() -> None:
    script = "import sys, hudi_py.formats.avro; sys.exit('fastavro' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
