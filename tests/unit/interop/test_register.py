"""What is registered of a table with a catalog in the manner of Hive, and what is brought up to date."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import hudi_py
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.interop.catalogs.described import hive_type, spark_type
from hudi_py.interop.catalogs.entry import CatalogError, IncompatibleError, TableEntry
from hudi_py.interop.catalogs.partitions import extractor
from tests.support.catalogs import FAST, MemoryCatalog, made, registered

KEYS = {"record_key": "id", "ordering_by": "ts", "partition_by": "city"}
ROWS = [{"id": 1, "ts": 1, "city": "oslo"}, {"id": 2, "ts": 1, "city": "lima"}]


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog()


def test_a_table_and_its_partitions(catalog: MemoryCatalog, tmp_path: Path) -> None:
    path = made(tmp_path / "trips", ROWS, **KEYS)
    (done,) = registered(catalog, path)
    result = hudi_py.open_table(path).history().to_pylist()[-1]
    assert (done.catalog, done.name, done.instant) == ("hms", "default.trips", result["instant"])
    assert (done.done, done.partitions_added) == ("created", 2)
    entry = catalog.tables["trips"]
    assert [(each.name, each.type) for each in entry.columns[5:]] == [("id", "bigint"), ("ts", "bigint")]
    assert [(each.name, each.type) for each in entry.partition_columns] == [("city", "string")]
    assert entry.format.input_format == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert entry.serde_parameters == {
        "path": f"file://{path}",
        "hoodie.query.as.ro.table": "false",
        "serialization.format": "1",
    }
    found = dict(entry.parameters)
    schema = json.loads(found.pop("spark.sql.sources.schema.part.0"))
    assert [each["name"] for each in schema["fields"]][5:] == ["id", "ts", "city"]
    assert found == {
        "spark.sql.sources.provider": "hudi",
        "spark.sql.sources.schema.numParts": "1",
        "spark.sql.sources.schema.numPartCols": "1",
        "spark.sql.sources.schema.partCol.0": "city",
        "last_commit_time_sync": result["instant"],
        "last_commit_completion_time_sync": result["completion_time"],
        "hudi_writer_version": "1.2.0",
    }
    assert catalog.known["trips"] == {(city,): f"file://{path}/{city}" for city in ("oslo", "lima")}
    catalog.calls.clear()
    assert registered(catalog, path)[0].done == "unchanged"
    assert catalog.calls == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"t_ro": ("", "true"), "t_rt": ("realtime", "false"), "t": ("realtime", "false")}),
        ({"skip_ro_suffix": True}, {"t": ("", "true"), "t_rt": ("realtime", "false")}),
        ({"table.strategy": "RO"}, {"t": ("", "true")}),
        ({"table.strategy": "rt"}, {"t": ("realtime", "false")}),
        (
            {"hoodie.meta.sync.sync_snapshot_with_table_name": False},
            {"t_ro": ("", "true"), "t_rt": ("realtime", "false")},
        ),
    ],
)
def test_names_of_merge_on_read(
    catalog: MemoryCatalog, merge_on_read: str, options: dict[str, object], expected: dict[str, tuple[str, str]]
) -> None:
    registered(catalog, merge_on_read, **options)
    found = {
        name: (
            "realtime" if ".realtime.HoodieParquetRealtime" in entry.format.input_format else "",
            entry.serde_parameters["hoodie.query.as.ro.table"],
        )
        for name, entry in catalog.tables.items()
    }
    assert found == expected


@pytest.fixture(scope="module")
def merge_on_read(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(tmp_path_factory.mktemp("mor") / "t", [{"id": 1, "ts": 1}], record_key="id", table_type="mor")


def test_only_what_changed_is_registered(catalog: MemoryCatalog, tmp_path: Path) -> None:
    path = made(tmp_path / "t", ROWS, **KEYS)
    registered(catalog, path)
    catalog.tables["t"] = _with(catalog, "t", owner_note="kept")
    catalog.known["t"].clear()  # so that partitions which were not written since would show
    catalog.calls.clear()
    hudi_py.write(path, [{"id": 3, "ts": 1, "city": "rome"}], options=FAST)
    (done,) = registered(catalog, path)
    assert (done.done, done.partitions_added) == ("changed", 1)
    assert catalog.calls == ["add [('rome',)]", "alter t"]
    assert catalog.tables["t"].parameters["owner_note"] == "kept"
    assert registered(catalog, path, **{"hoodie.meta.sync.incremental": False})[0].partitions_added == 2


def test_deleted_partitions_are_dropped(catalog: MemoryCatalog, tmp_path: Path) -> None:
    path = made(tmp_path / "t", ROWS, **KEYS)
    registered(catalog, path)
    table = hudi_py.open_table(path, FAST)
    table.delete_partition("lima")
    assert registered(catalog, path)[0].partitions_dropped == 1
    assert set(catalog.known["t"]) == {("oslo",)}
    table.delete_partition("oslo")
    hudi_py.write(path, [{"id": 9, "ts": 1, "city": "oslo"}], options=FAST)
    assert registered(catalog, path)[0].partitions_dropped == 0
    assert set(catalog.known["t"]) == {("oslo",)}


def test_new_columns(catalog: MemoryCatalog, tmp_path: Path) -> None:
    path = made(tmp_path / "t", ROWS, **KEYS)
    registered(catalog, path)
    catalog.calls.clear()
    hudi_py.write(path, [{"id": 1, "ts": 2, "city": "oslo", "fare": 1.5}], options=FAST)
    assert registered(catalog, path)[0].columns_changed
    assert catalog.calls[0] == "alter t cascade"
    assert catalog.tables["t"].columns[-1].type == "double"
    assert '"fare"' in catalog.tables["t"].parameters["spark.sql.sources.schema.part.0"]


def test_columns_that_the_catalog_refuses(catalog: MemoryCatalog, tmp_path: Path) -> None:
    path = made(tmp_path / "t", ROWS, **KEYS)
    registered(catalog, path)
    catalog.strict = True
    hudi_py.write(path, [{"id": 1, "ts": 2, "city": "oslo", "fare": 1.5}], options=FAST)
    with pytest.raises(IncompatibleError):
        registered(catalog, path)
    assert registered(catalog, path, recreate_table_on_error=True)[0].done == "created"
    assert set(catalog.known["t"]) == {("oslo",), ("lima",)}


def test_a_table_that_moved_is_registered_anew(
    catalog: MemoryCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registered(catalog, made(tmp_path / "a" / "t", ROWS, **KEYS))
    path = made(tmp_path / "b" / "t", ROWS[:1], **KEYS)
    assert registered(catalog, path)[0].done == "created"
    assert catalog.known["t"] == {("oslo",): f"file://{path}/oslo"}
    assert "was registered with the location" in caplog.text
    catalog.tables["t"] = replace(catalog.tables["t"], parameters={}, location="file:///of/others")
    with pytest.raises(CatalogError, match="another table with this name, at file:///of/others"):
        registered(catalog, path)


def test_only_under_the_condition_of_a_change(catalog: MemoryCatalog, tmp_path: Path) -> None:
    path = made(tmp_path / "t", ROWS, **KEYS)
    registered(catalog, path)
    before = dict(catalog.tables["t"].parameters)
    hudi_py.write(path, ROWS, options=FAST)
    only = {"hoodie.datasource.meta_sync.condition.sync": True}
    assert registered(catalog, path, **only)[0].done == "noted"
    assert catalog.tables["t"].parameters == before
    assert registered(catalog, path)[0].done == "noted"
    assert catalog.tables["t"].parameters["last_commit_time_sync"] > before["last_commit_time_sync"]


def test_options_of_the_entry(catalog: MemoryCatalog, tmp_path: Path) -> None:
    path = made(tmp_path / "t", ROWS, **KEYS)
    registered(
        catalog,
        path,
        table="named",
        table_properties="a=1\nb = 2=3",
        serde_properties="c=4",
        schema_string_length_thresh=100,
        omit_metadata_fields=True,
        create_managed_table=True,
        **{"hoodie.meta_sync.spark.version": "4.0.1", "hoodie.meta.sync.no_partition_metadata": True},
    )
    entry = catalog.tables["named"]
    assert not entry.external
    assert [each.name for each in entry.columns] == ["id", "ts"]
    assert (entry.parameters["a"], entry.parameters["b"]) == ("1", "2=3")
    assert entry.serde_parameters["c"] == "4"
    parts = int(entry.parameters["spark.sql.sources.schema.numParts"])
    text = "".join(entry.parameters[f"spark.sql.sources.schema.part.{n}"] for n in range(parts))
    assert parts > 1
    assert json.loads(text)["fields"][0]["name"] == "id"
    assert entry.parameters["spark.sql.create.version"] == "4.0.1"
    assert catalog.known["named"] == {}
    registered(catalog, path, table="plain", sync_as_datasource=False)
    assert not [key for key in catalog.tables["plain"].parameters if key.startswith("spark.")]
    assert "path" not in catalog.tables["plain"].serde_parameters


def test_databases_and_errors(tmp_path: Path) -> None:
    path = made(tmp_path / "t", ROWS, **KEYS)
    lacking = MemoryCatalog(database="lake")
    with pytest.raises(CatalogError, match="no database lake; create it, or set .*auto_create_database=true"):
        registered(lacking, path, database="lake", auto_create_database=False)
    registered(lacking, path, database="lake")
    assert lacking.calls[0] == "create_database"
    with pytest.raises(ConfigError, match="property 'x': expected key=value"):
        registered(lacking, path, table="u", table_properties="x")
    with pytest.raises(ConfigError, match="the partition 'lima'.* of another form; set .*partition_extractor_class"):
        registered(
            lacking, path, table="v", partition_extractor_class="org.apache.hudi.hive.hivestylepartitionvalueextractor"
        )
    assert "v" not in lacking.tables


@pytest.mark.parametrize(
    ("name", "path", "values"),
    [
        ("MultiPartKeysValueExtractor", "a/b=c", ("a", "c")),
        ("MultiPartKeysValueExtractor", "", ()),
        ("MultiPartKeysValueExtractor", "a=b=c/d", None),
        ("MultiPartKeysValueExtractor", "a", None),
        ("SinglePartPartitionValueExtractor", "2026/01/02", ("2026-01-02",)),
        ("HiveStylePartitionValueExtractor", "p=x", ("x",)),
        ("HiveStylePartitionValueExtractor", "p=", None),
        ("SlashEncodedDayPartitionValueExtractor", "2026/1/2", ("2026-01-02",)),
        ("SlashEncodedDayPartitionValueExtractor", "y=2026/m=01/d=02", ("2026-01-02",)),
        ("SlashEncodedDayPartitionValueExtractor", "2026/01", None),
        ("SlashEncodedHourPartitionValueExtractor", "2026/01/02/03", ("2026-01-02-03",)),
        ("NonPartitionedExtractor", "a", ()),
    ],
)
def test_values_of_partition_columns(name: str, path: str, values: tuple[str, ...] | None) -> None:
    """As the classes of Apache Hudi 1.2.0."""
    columns = ("a", "b") if name.startswith("Multi") else ("a",)
    extract = extractor(f"org.apache.hudi.hive.{name}", columns)
    if values is None:
        with pytest.raises(ConfigError, match="Cannot register the partition"):
            extract(path)
    else:
        assert extract(path) == values


def _logical(kind: str, logical: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": logical, **more}


@pytest.mark.parametrize(
    ("avro", "hive", "spark"),
    [
        (["null", "int"], "int", '"integer"'),
        ("boolean", "boolean", '"boolean"'),
        ("float", "float", '"float"'),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string", '"string"'),
        ({"type": "fixed", "name": "F", "size": 3}, "binary", '"binary"'),
        (_logical("int", "date"), "date", '"date"'),
        (_logical("int", "time-millis"), "int", '"integer"'),
        (_logical("long", "time-micros"), "bigint", '"long"'),
        (_logical("long", "timestamp-micros"), "bigint", '"timestamp"'),
        (_logical("long", "local-timestamp-micros"), "bigint", '"timestamp_ntz"'),
        (_logical("string", "uuid"), "binary", '"string"'),
        (_logical("bytes", "decimal", precision=9, scale=2), "decimal(9,2)", '"decimal(9,2)"'),
        (
            {"type": "array", "items": ["null", "string"]},
            "array<string>",
            '{"type":"array", "elementType":"string","containsNull":true}',
        ),
        (
            {"type": "map", "values": "long"},
            "map<string,bigint>",
            '{"type":"map", "keyType":"string","valueType":"long","valueContainsNull":false}',
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "A$b", "type": "double"}]},
            "struct<a_dollar_b:double>",
            '{"type":"struct","fields":[{"name":"A$b","type":"double","nullable":false,"metadata":{}}]}',
        ),
    ],
)
def test_types(avro: object, hive: str, spark: str) -> None:
    """As `HiveSchemaUtil` and `SparkSchemaUtils`, 1.2.0."""
    assert hive_type(avro, timestamps=False) == hive
    assert spark_type(avro) == spark


def test_timestamps_and_unions() -> None:
    assert hive_type(_logical("long", "timestamp-millis"), timestamps=True) == "timestamp"
    with pytest.raises(UnsupportedTableError, match="no unions"):
        hive_type(["int", "string"], timestamps=False)


def _with(catalog: MemoryCatalog, name: str, **parameters: str) -> TableEntry:
    entry = catalog.tables[name]
    return replace(entry, parameters={**entry.parameters, **parameters})
