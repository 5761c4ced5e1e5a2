"""What options ask of the metadata table, and the definitions of its indexes."""

from __future__ import annotations

import json
import uuid

import pytest

from hudi_py.config import Options
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.metadata.definitions import IndexDefinition, read_definitions
from hudi_py.metadata_write.partitions.named import drop_definitions, put_definition, source_fields, version_of
from hudi_py.metadata_write.partitions.registry import unwanted_partitions, wanted_partitions
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.properties import TableConfig
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.properties import create_table_config, load_table_config


def asked(**options: str) -> Options:
    given = {f"hoodie.metadata.{key.replace('_', '.')}": value for key, value in options.items()}
    return Options.resolve(given, defaults={})


def config(version: int = 9, *, partitioned: bool = True, partitions: str = "") -> TableConfig:
    return TableConfig(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "1" if version == 6 else "2",
            "hoodie.table.partition.fields": "p" if partitioned else "",
            "hoodie.table.metadata.partitions": partitions,
        }
    )


@pytest.mark.parametrize(
    ("version", "partitioned", "expected"),
    [
        (6, True, ("files", "column_stats")),
        (8, True, ("files", "column_stats", "partition_stats")),
        (9, True, ("files", "column_stats", "partition_stats")),
        (9, False, ("files", "column_stats")),
    ],
)
def test_defaults_are_those_of_apache_hudi_on_spark(version, partitioned, expected):
    assert wanted_partitions(asked(), config(version, partitioned=partitioned)) == expected


def test_indexes_come_in_the_order_in_which_apache_hudi_makes_them():
    indexes = asked(index_bloom_filter_enable="true", record_index_enable="true")
    assert wanted_partitions(indexes, config()) == (
        "files",
        "column_stats",
        "bloom_filters",
        "record_index",
        "partition_stats",
    )
    assert wanted_partitions(asked(index_column_stats_enable="false"), config()) == ("files",)
    assert wanted_partitions(asked(enable="false"), config()) == ()


def test_an_index_goes_only_where_its_option_is_false():
    table = config(partitions="bloom_filters,column_stats,files,partition_stats,record_index")
    assert unwanted_partitions(asked(), table) == ()
    assert unwanted_partitions(asked(index_column_stats_enable="false"), table) == (
        "column_stats",
        "partition_stats",
    )
    assert unwanted_partitions(asked(record_index_enable="false"), table) == ("record_index",)
    assert unwanted_partitions(asked(record_level_index_enable="false", record_index_enable="true"), table) == ()
    assert unwanted_partitions(asked(index_bloom_filter_enable="false", auto_delete_partitions="false"), table) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record_index_enable": "true", "record_level_index_enable": "true"}, "two record indexes"),
        (
            {"record_index_min_filegroup_count": "5", "record_index_max_filegroup_count": "4"},
            "minimum of 5 .* maximum of 4",
        ),
        ({"compact_max_delta_commits": "0"}, "at least 1"),
        ({"index_expression_options": "expr"}, "such as a=b, separated by commas; 'expr' has no value"),
    ],
)
def test_contradictions_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        MetadataTableWriter(asked(**options))


# -- definitions


@pytest.fixture
def storage():
    made = MemoryStorage(f"definitions-{uuid.uuid4()}")
    create_table_config(made, config().properties)
    return made


def test_definitions_are_stored_as_apache_hudi_stores_them(storage):
    found = load_table_config(storage)
    assert read_definitions(storage, found) == {}
    found = put_definition(storage, found, IndexDefinition("column_stats", "column_stats", ("id", "ts"), version="V2"))
    assert found.properties["hoodie.table.index.defs.path"] == ".hoodie/.index_defs/index.json"
    # as in a table by Apache Hudi 1.2.0, but for the columns
    assert json.loads(storage.read(".hoodie/.index_defs/index.json")) == {
        "indexDefinitions": {
            "column_stats": {
                "indexName": "column_stats",
                "indexType": "column_stats",
                "indexFunction": "column_stats",
                "sourceFields": ["id", "ts"],
                "indexOptions": {},
                "version": "V2",
            }
        }
    }


def test_a_definition_keeps_its_version(storage):
    found = put_definition(storage, load_table_config(storage), IndexDefinition("column_stats", version="V1"))
    found = put_definition(storage, found, IndexDefinition("column_stats", source_fields=("id",), version="V2"))
    there = read_definitions(storage, found)
    assert version_of(there, "column_stats", found) == "V1"
    assert source_fields(there, "column_stats") == ["id"]
    assert version_of({}, "column_stats", found) == "V2"
    assert version_of({}, "column_stats", config(8)) == "V1"
    assert version_of({"column_stats": {}}, "column_stats", found) == "V1"  # releases before 1.1 wrote none


def test_definitions_are_dropped_by_name(storage):
    found = put_definition(storage, load_table_config(storage), IndexDefinition("column_stats"))
    found = put_definition(storage, found, IndexDefinition("record_index", options={"isPartitioned": "true"}))
    drop_definitions(storage, found, ["column_stats", "other"])
    assert set(read_definitions(storage, found)) == {"record_index"}
    assert source_fields(read_definitions(storage, found), "column_stats") is None


@pytest.mark.parametrize("content", [b"nonsense", b'{"indexDefinitions": []}'])
def test_definitions_that_cannot_be_read(storage, content):
    storage.put(".hoodie/.index_defs/index.json", content)
    with pytest.raises(CorruptFileError, match=r"index\.json"):
        read_definitions(storage, load_table_config(storage))
