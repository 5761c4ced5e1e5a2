"""Values in `hoodie.properties` that are none: refused when the table is opened, never taken for another."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.model.properties import TableConfig
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import create_table_config

PLAIN = {"hoodie.table.name": "t", "hoodie.table.version": "9", "hoodie.table.recordkey.fields": "id"}
BROKEN = [
    ("hoodie.populate.meta.fields", "flase"),
    ("hoodie.populate.meta.fields", "1"),
    ("hoodie.populate.meta.fields", ""),
    ("hoodie.populate.meta.fields", "true "),
    ("hoodie.datasource.write.hive_style_partitioning", "yes"),
    ("hoodie.datasource.write.partitionpath.urlencode", "on"),
    ("hoodie.datasource.write.drop.partition.columns", "tru"),
    ("hoodie.table.cdc.enabled", "t"),
    ("hoodie.table.multiple.base.file.formats.enable", "TRUE!"),
    ("hoodie.bootstrap.index.enable", "no"),
    ("hoodie.partition.metafile.use.base.format", "0"),
    ("hoodie.table.type", "COPY_ON_RIGHT"),
    ("hoodie.table.format", "iceberg"),
    ("hoodie.table.base.file.format", "CSV"),
    ("hoodie.table.timeline.timezone", "PST"),
    ("hoodie.timeline.layout.version", "two"),
    ("hoodie.timeline.layout.version", "-1"),
    ("hoodie.record.merge.mode", "LATEST"),
    ("hoodie.table.keygenerator.type", "SIMPEL"),
    ("hoodie.table.version", "nine"),
    ("hoodie.table.version", "9.0"),
]
FINE = [
    ("hoodie.populate.meta.fields", "TRUE"),
    ("hoodie.populate.meta.fields", "False"),
    ("hoodie.table.format", "Native"),
    ("hoodie.table.format", ""),
    ("hoodie.table.timeline.timezone", "utc"),
    ("hoodie.record.merge.mode", ""),
    ("hoodie.table.keygenerator.type", "COMPLEX_AVRO"),
    ("hoodie.table.keygenerator.type", "SPARK_SQL"),
    ("hoodie.table.base.file.format", "orc"),
]


def table(path: Path, **more: str) -> str:
    assert create_table_config(open_storage(path), {**PLAIN, **more})
    return str(path)


@pytest.mark.parametrize(("key", "value"), BROKEN)
def test_a_value_that_is_none_is_refused(tmp_path: Path, key: str, value: str) -> None:
    path = table(tmp_path / "t", **{key: value})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(hudi_py.UnsupportedTableError) as opened:
        hudi_py.open_table(path)
    with pytest.raises(hudi_py.UnsupportedTableError) as written:
        hudi_py.write(path, pa.table({"id": ["a"]}))
    for refused in (opened, written):
        assert str(refused.value).startswith(f"Cannot open the table at file://{path}: it has {key}=")
        assert value in str(refused.value)
        assert "supported" in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("key", "value"), FINE)
def test_a_value_in_any_case_is_taken(tmp_path: Path, key: str, value: str) -> None:
    assert hudi_py.open_table(table(tmp_path / "t", **{key: value})).properties[key] == value


def test_all_broken_values_are_reported_at_once(tmp_path: Path) -> None:
    path = table(tmp_path / "t", **{"hoodie.table.format": "delta", "hoodie.populate.meta.fields": "nope"})
    with pytest.raises(hudi_py.UnsupportedTableError, match="fields=nope; .* and hoodie.table.format=delta"):
        hudi_py.open_table(path)


def test_flags_are_read_in_any_case() -> None:
    key = "hoodie.datasource.write.hive_style_partitioning"
    assert TableConfig({key: "True"}).hive_style
    assert not TableConfig({key: "FALSE"}).hive_style
