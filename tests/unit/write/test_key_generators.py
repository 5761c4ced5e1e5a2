"""Whole tables with other key generators than simple and complex ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import load_table_config

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.metadata.enable": "false"}
DATES = {
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    "hoodie.keygen.timebased.timezone": "UTC",
}
TIMESTAMP = {**QUICK, **DATES, "hoodie.datasource.write.keygenerator.type": "TIMESTAMP"}
ROWS: list[dict[str, Any]] = [
    {"k": "a", "t": 1_700_000_000, "c": "x", "v": 1},
    {"k": "b", "t": None, "c": None, "v": 2},
]


def shown(path: Path, *names: str) -> list[tuple[Any, ...]]:
    table = hudi_py.open_table(path).scan(list(names)).to_table()
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True), key=repr)


def test_keys_are_generated_where_no_column_is_the_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for operation in (None, "insert", "bulk_insert", "upsert"):
        hudi_py.write(path, ROWS, operation, QUICK, partition_by="c")
    config = load_table_config(open_storage(path))
    assert (config.record_key_fields, config.keygen_type) == ((), "SIMPLE")
    keys = hudi_py.open_table(path).scan(["_hoodie_record_key"]).to_table().column(0).to_pylist()
    assert len(set(keys)) == len(keys) == 8
    assert all(re.fullmatch(r"\d{17}_\d+_\d+", key) for key in keys)
    table = hudi_py.open_table(path)
    table.update({"v": "v + 10"}, where="k = 'a'", options=QUICK)
    table.delete("k = 'b'", options=QUICK)
    assert shown(path, "k", "v", "c") == [("a", 11, "x")] * 4
    hudi_py.write(path, ROWS[1:], "insert_overwrite_table", QUICK)
    assert shown(path, "k", "v") == [("b", 2)]


@pytest.mark.parametrize(
    ("operation", "options", "message"),
    [
        ("delete", {}, "Cannot delete rows by their keys in the table 't', whose record keys are generated"),
        ("insert", {"hoodie.combine.before.insert": "true"}, "Cannot combine rows of one key"),
        ("insert", {"hoodie.datasource.insert.dup.policy": "drop"}, "Cannot look for known keys"),
        ("insert", {"hoodie.index.type": "BUCKET"}, "Cannot use hoodie.index.type = 'BUCKET'"),
        ("upsert", {"hoodie.datasource.write.recordkey.field": "k"}, "recordkey.field: asked for k, the table has"),
    ],
)
def test_what_needs_keys_of_columns(tmp_path: Path, operation: str, options: dict[str, str], message: str) -> None:
    path = tmp_path / "t"
    hudi_py.write(path, ROWS, None, QUICK)
    with pytest.raises(ConfigError, match=re.escape(message)):
        hudi_py.write(path, ROWS, operation, {**QUICK, **options})


def test_a_table_of_dates_keeps_its_generator(tmp_path: Path) -> None:
    path = tmp_path / "t"
    hudi_py.write(path, ROWS, None, TIMESTAMP, record_key="k", partition_by="t")
    assert shown(path, "k", "t", "_hoodie_partition_path") == [("a", "1700000000", "2023/11"), ("b", None, "1970/01")]
    hudi_py.write(path, [{**ROWS[0], "v": 5}], "upsert", QUICK)
    hudi_py.write(path, [{"k": "b", "t": None}], "delete", QUICK)
    assert shown(path, "k", "v") == [("a", 5)]
    for key, text in (("output.dateformat", "yyyy/mm"), ("timestamp.type", "SCALAR")):
        options = {**QUICK, f"hoodie.keygen.timebased.{key}": text}
        with pytest.raises(ConfigError, match=f"timebased.{key}: asked for {text}, the table has"):
            hudi_py.write(path, ROWS, "upsert", options)
    with pytest.raises(SchemaMismatchError, match="its year is not one of 1 to 9999"):
        hudi_py.write(path, [{**ROWS[0], "t": 2**60}], "upsert", QUICK)


@pytest.mark.parametrize("version", [6, 9])
def test_a_custom_generator_is_given_with_each_write(tmp_path: Path, version: int) -> None:
    path, options = tmp_path / "t", {**QUICK, **DATES}
    encoded = {**options, "hoodie.datasource.write.partitionpath.urlencode": "true"}
    hudi_py.write(path, ROWS, None, encoded, record_key="k", partition_by="c:SIMPLE,t:timestamp", table_version=version)
    paths = [("a", "x/2023%2F11"), ("b", "__HIVE_DEFAULT_PARTITION__/1970%2F01")]
    assert shown(path, "k", "_hoodie_partition_path") == paths
    hudi_py.write(path, ROWS, "upsert", options, partition_by="c:SIMPLE,t:timestamp")
    assert shown(path, "k", "_hoodie_partition_path") == paths
    with pytest.raises(ConfigError, match="Cannot find out how|needs hoodie.keygen.timebased.timestamp.type"):
        hudi_py.write(path, ROWS, "upsert", QUICK)
    if version == 9:
        with pytest.raises(ConfigError, match="asked for c:TIMESTAMP,t:timestamp, the table has c:SIMPLE,t:timestamp"):
            hudi_py.write(path, ROWS, "upsert", options, partition_by="c:TIMESTAMP,t:timestamp")


def test_slashed_dates_are_read_and_pruned_as_dates(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {**QUICK, "hoodie.datasource.write.slash.separated.date.partitioning": "true"}
    data = [{"k": "a", "d": "2024-01-02"}, {"k": "b", "d": "2024-01-03"}, {"k": "c", "d": None}]
    hudi_py.write(path, data, None, options, record_key="k", partition_by="d")
    hudi_py.write(path, data[:1], "upsert", QUICK)
    assert shown(path, "k", "d", "_hoodie_partition_path") == [
        ("a", "2024-01-02", "2024/01/02"),
        ("b", "2024-01-03", "2024/01/03"),
        ("c", None, "__HIVE_DEFAULT_PARTITION__"),
    ]
    scan = hudi_py.open_table(path).scan(["k"], filter="d = '2024-01-03'")
    assert scan.to_table()["k"].to_pylist() == ["b"]
    assert len(scan.plan().splits) == 2  # the null partition may hold any value
    with pytest.raises(ConfigError, match="date.partitioning: asked for false, the table has true"):
        hudi_py.write(path, data, "upsert", {**options, next(reversed(options)): "false"})


def test_keys_partitions_and_ordering_of_structs(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows: list[dict[str, Any]] = [
        {"s": {"k": "a", "p": "x", "o": 2}, "v": 1},
        {"s": {"k": "b", "p": None, "o": 2}, "v": 2},
    ]
    hudi_py.write(path, rows, None, QUICK, record_key="s.k", partition_by="s.p", ordering_by="s.o", table_type="mor")
    later = [{"s": {"k": "a", "p": "x", "o": 1}, "v": 10}, {"s": {"k": "b", "p": None, "o": 3}, "v": 20}]
    hudi_py.write(path, later, "upsert", QUICK)
    assert shown(path, "_hoodie_record_key", "_hoodie_partition_path", "v") == [
        ("a", "x", 1),
        ("b", "__HIVE_DEFAULT_PARTITION__", 20),
    ]
    with pytest.raises(ConfigError, match="for record key field 's'"):
        hudi_py.open_table(path).update({"s": "s"}, options=QUICK)
    hudi_py.write(path, [{"s": rows[0]["s"]}], "delete", QUICK)
    assert shown(path, "_hoodie_record_key") == [("b",)]
