"""Values of the metadata table's records: columns to Avro binaries."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.formats.avro import decode_values
from hudi_py.metadata_write.encoding.records import (
    ALL_PARTITIONS_RECORD,
    ARROW_SCHEMA,
    COLUMN_STATS_RECORD,
    FILES_RECORD,
    SCHEMA_JSON,
    encode_values,
)

MAPS = ARROW_SCHEMA.field("filesystemMetadata").type
INFO = st.fixed_dictionaries({"size": st.integers(0, 2**62), "isDeleted": st.booleans()})


def test_the_record_of_all_partitions_is_that_of_apache_hudi() -> None:
    listing = pa.array([[("x", {"size": 0, "isDeleted": False}), ("y", {"size": 0, "isDeleted": False})]], MAPS)
    value = encode_values(ALL_PARTITIONS_RECORD, {"filesystemMetadata": listing})
    # from the metadata table of a table by Apache Hudi 1.2.0
    assert value.to_pylist() == [b"\0\0\0\0\0\0\x02\x02\x04\x02x\0\0\x02y\0\0\0\0\0\0\0"]


def test_a_record_of_statistics_is_that_of_apache_hudi() -> None:
    """Of a column `name` with values n1 to n5 in partition y, by Apache Hudi 1.2.0 (`partition_stats`, type 6)."""
    stats = {
        "fileName": "y",
        "columnName": "name",
        "minValue": {"member6": {"value": "n1"}},
        "maxValue": {"member6": {"value": "n5"}},
        "valueCount": 3,
        "nullCount": 0,
        "totalSize": 58,
        "totalUncompressedSize": 46,
        "isDeleted": False,
        "isTightBound": True,
        "valueType": {"typeOrdinal": 7, "additionalInfo": None},
    }
    value = encode_values(6, {"ColumnStatsMetadata": pa.array([stats], ARROW_SCHEMA.field("ColumnStatsMetadata").type)})
    assert value[0].as_py() == (
        b"\0\0\0\0\0\0\x0c\0\0\x02\x02\x02y\x02\x08name\x0e\x04n1\x0e\x04n5\x02\x06\x02\0\x02t\x02\\\0\x01\x02\x0e\0\0\0"
    )


@given(st.lists(st.dictionaries(st.text(max_size=20), INFO, max_size=5), min_size=1, max_size=20))
def test_files_come_back(rows: list[dict[str, dict[str, object]]]) -> None:
    values = encode_values(FILES_RECORD, {"filesystemMetadata": pa.array([list(row.items()) for row in rows], MAPS)})
    wanted = ["key", "type", "filesystemMetadata", "ColumnStatsMetadata"]
    read = pa.Table.from_batches(decode_values(values, json.loads(SCHEMA_JSON), wanted, context="test"))
    assert [dict(entries) for entries in read["filesystemMetadata"].to_pylist()] == rows
    assert read["type"].to_pylist() == [FILES_RECORD] * len(rows)
    assert read["key"].to_pylist() == [""] * len(rows)
    assert read["ColumnStatsMetadata"].null_count == len(rows)


def test_types_are_numbered_as_in_apache_hudi() -> None:
    assert (ALL_PARTITIONS_RECORD, FILES_RECORD, COLUMN_STATS_RECORD) == (1, 2, 3)
