"""Properties of new tables in each version, and options that contradict an existing one."""

from __future__ import annotations

import errno

import pytest

from hudi_py.config import Options
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.storage import LocalStorage
from hudi_py.write.api import create_table
from hudi_py.write.table.properties import check_options, table_properties

WRITE = "hoodie.datasource.write."
KEYS, PARTITIONS, ORDERING = WRITE + "recordkey.field", WRITE + "partitionpath.field", "hoodie.table.ordering.fields"
KEYGEN, HIVE_STYLE, PAYLOAD = WRITE + "keygenerator.type", WRITE + "hive_style_partitioning", WRITE + "payload.class"
MODE, VERSION = "hoodie.write.record.merge.mode", "hoodie.write.table.version"
SLASHED = WRITE + "slash.separated.date.partitioning"
GIVEN = {"hoodie.table.name": "t", KEYS: "id", PARTITIONS: "pt", ORDERING: "ts"}


def options(changes: dict[str, object], given: dict[str, str] = GIVEN) -> Options:
    return Options.resolve({**given, **changes}, defaults={})


def of(version: int, changes: dict[str, object] | None = None) -> dict[str, str]:
    return table_properties(options({VERSION: version, **(changes or {})}))


def test_version_9_is_what_apache_hudi_1_2_stores():
    assert of(9, {HIVE_STYLE: True}) == {
        "hoodie.archivelog.folder": "history",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.populate.meta.fields": "true",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.format": "native",
        "hoodie.table.initial.version": "9",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.name": "t",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.partition.fields": "pt",
        "hoodie.table.partition_extractor_class": "org.apache.hudi.hive.HiveStylePartitionValueExtractor",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.timeline.timezone": "LOCAL",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "9",
        "hoodie.timeline.history.path": "history",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
    }


def test_version_8_stores_mode_strategy_payload_and_the_old_name_of_the_ordering_field():
    properties = of(8)
    assert properties["hoodie.table.precombine.field"] == "ts"
    assert "hoodie.table.ordering.fields" not in properties
    assert properties["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert properties["hoodie.record.merge.strategy.id"] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    assert properties["hoodie.compaction.payload.class"].endswith(".DefaultHoodieRecordPayload")
    assert properties["hoodie.table.initial.version"] == "8"


def test_version_6_has_no_keys_of_later_versions():
    properties = of(6)
    assert properties["hoodie.table.precombine.field"] == "ts"
    assert properties["hoodie.timeline.layout.version"] == "1"
    assert properties["hoodie.table.keygenerator.class"] == "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert properties["hoodie.compaction.payload.class"].endswith(".DefaultHoodieRecordPayload")
    assert properties["hoodie.archivelog.folder"] == "archived"
    for key in (
        "hoodie.record.merge.mode",
        "hoodie.table.initial.version",
        "hoodie.timeline.path",
        "hoodie.table.format",
    ):
        assert key not in properties


@pytest.mark.parametrize(
    ("keys", "partitions", "expected"),
    [
        ("a", "", "NON_PARTITION"),
        ("a,b", "", "NON_PARTITION"),
        ("a", "p", "SIMPLE"),
        ("a,b", "p", "COMPLEX"),
        ("a", "p,q", "COMPLEX"),
    ],
)
def test_the_key_generator_is_inferred(keys, partitions, expected):
    properties = of(9, {KEYS: keys, PARTITIONS: partitions})
    assert properties["hoodie.table.keygenerator.type"] == expected
    assert properties["hoodie.table.partition.fields"] == partitions


def test_merge_modes():
    assert of(9, {ORDERING: ""})["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert of(9, {MODE: "commit_time_ordering"})["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    payload = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    built_in = of(9, {PAYLOAD: payload})
    assert built_in["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert built_in["hoodie.table.legacy.payload.class"] == payload
    assert "hoodie.compaction.payload.class" not in built_in
    assert of(6, {PAYLOAD: payload})["hoodie.compaction.payload.class"] == payload
    assert of(9, {ORDERING: "a,b"})["hoodie.table.ordering.fields"] == "a,b"


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({VERSION: 7}, ConfigError, "version = '7'"),
        ({"hoodie.table.name": None}, ConfigError, "hoodie.table.name"),
        ({WRITE + "table.type": "MOR"}, ConfigError, "table.type = 'MOR'"),
        ({"hoodie.table.base.file.format": "hfile"}, ConfigError, "hfile"),
        ({WRITE + "keygenerator.class": "org.apache.hudi.keygen.GlobalDeleteKeyGenerator"}, ConfigError, "GlobalD"),
        ({KEYGEN: "TIMESTAMP", KEYS: "a,b"}, ConfigError, "CUSTOM, with name:TYPE"),
        ({KEYGEN: "CUSTOM"}, ConfigError, "CUSTOM and the partition field pt without a type"),
        ({PARTITIONS: "pt,ts:TIMESTAMP"}, ConfigError, "the partition field ts:TIMESTAMP with a type"),
        ({SLASHED: True, HIVE_STYLE: True}, ConfigError, "SIMPLE, hive-style; it goes with one"),
        ({SLASHED: True, PARTITIONS: "a,b"}, ConfigError, "it goes with one partition field"),
        ({KEYGEN: "NON_PARTITION"}, ConfigError, "NON_PARTITION"),
        ({KEYGEN: "SIMPLE", PARTITIONS: ""}, ConfigError, "SIMPLE"),
        ({KEYGEN: "SIMPLE", KEYS: "a,b"}, ConfigError, "COMPLEX"),
        ({PAYLOAD: "org.apache.hudi.common.model.ExpressionPayload"}, ConfigError, "Expression"),
        ({MODE: "CUSTOM"}, ConfigError, "CUSTOM"),
        ({MODE: "EVENT_TIME_ORDERING", ORDERING: ""}, ConfigError, "ordering"),
        (
            {
                MODE: "EVENT_TIME_ORDERING",
                PAYLOAD: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            },
            ConfigError,
            "payload class",
        ),
        ({"hoodie.table.timeline.timezone": "CET"}, ConfigError, "timezone = 'CET'"),
        (
            {"hoodie.partition.metafile.use.base.format": True, "hoodie.table.base.file.format": "ORC"},
            UnsupportedTableError,
            "Parquet only",
        ),
    ],
)
def test_refused(changes, error, named):
    with pytest.raises(error, match=named):
        table_properties(options(changes))


@pytest.mark.parametrize("version", [6, 8, 9])
def test_properties_of_key_generators(version):
    dates = {"hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP"}
    kept = {"hoodie.keygen.timebased.timestamp.type", "hoodie.table.recordkey.fields", "hoodie.table.partition.fields"}
    kept |= {"hoodie.table.keygenerator.type", "hoodie.datasource.write.slash.separated.date.partitioning"}

    def shown(changes):
        return {key: text for key, text in of(version, changes).items() if key in kept and text}

    def named(kind):
        return {"hoodie.table.keygenerator.type": kind} if version >= 8 else {}

    both = {"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": "pt"}
    assert shown({KEYGEN: "TIMESTAMP", **dates}) == {**both, **dates, **named("TIMESTAMP")}
    typed = {"hoodie.table.partition.fields": "pt" if version < 8 else "pt:timestamp"}
    assert shown({PARTITIONS: "pt:timestamp", **dates}) == {**both, **typed, **named("CUSTOM")}
    assert shown({KEYS: None}) == {"hoodie.table.partition.fields": "pt", **named("SIMPLE")}
    slashed = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
    assert shown({SLASHED: True}) == {**both, **slashed, **named("SIMPLE")}


def test_create_makes_the_folders_java_lists_and_the_loser_opens(tmp_path):
    storage = LocalStorage(str(tmp_path / "t"))
    config, created = create_table(storage, options({}))
    assert created
    assert (config.name, config.version, config.ordering_fields) == ("t", 9, ("ts",))
    for folder in ("timeline/history", ".aux", ".temp", ".schema"):
        assert (tmp_path / "t" / ".hoodie" / folder).is_dir()
    again, created = create_table(storage, options({}))
    assert not created
    assert again == config
    with pytest.raises(ConfigError, match="hoodie.datasource.write.table.type"):
        create_table(storage, options({WRITE + "table.type": "MERGE_ON_READ"}))


def test_every_contradiction_is_named_with_both_values(tmp_path):
    config, _ = create_table(LocalStorage(str(tmp_path)), options({}))
    check_options(config, options({}, {}))
    simple = {WRITE + "keygenerator.class": "org.apache.hudi.keygen.SimpleAvroKeyGenerator"}
    check_options(config, options({"hoodie.table.name": "T", KEYS: "id", **simple}, {}))
    asked = {
        "hoodie.table.name": "u",
        KEYS: "id,x",
        PARTITIONS: "",
        ORDERING: "v",
        KEYGEN: "COMPLEX",
        MODE: "COMMIT_TIME_ORDERING",
        HIVE_STYLE: True,
        VERSION: 6,
    }
    with pytest.raises(ConfigError) as error:
        check_options(config, options(asked))
    for text in (
        "hoodie.table.name: asked for u, the table has t",
        "recordkey.field: asked for id,x, the table has id",
        "partitionpath.field: asked for (none), the table has pt",
        "ordering.fields: asked for v, the table has ts",
        "keygenerator.type: asked for COMPLEX, the table has SIMPLE",
        "merge.mode: asked for COMMIT_TIME_ORDERING, the table has EVENT_TIME_ORDERING",
        "hive_style_partitioning: asked for true, the table has false",
        "table.version: asked for 6, the table has 9",
    ):
        assert text in str(error.value)


def test_an_ordering_field_for_a_table_without_one_is_let_pass(tmp_path):
    config, _ = create_table(LocalStorage(str(tmp_path)), options({ORDERING: None}))
    check_options(config, options({}))


TYPED = {PARTITIONS: "pt:SIMPLE,ts:TIMESTAMP"}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    ("asked", "differs"),
    [("pt,ts", False), ("pt:simple,TS:timestamp", False), ("pt:SIMPLE,ts:SIMPLE", True), ("ts,pt", True)],
)
def test_types_of_partition_fields_are_compared_where_both_have_some(tmp_path, version, asked, differs):
    config, _ = create_table(LocalStorage(str(tmp_path)), options({VERSION: version, **TYPED}))
    if differs and not (version == 6 and ":" in asked):  # version 6 does not store types
        with pytest.raises(ConfigError, match=f"partitionpath.field: asked for {asked}, the table has pt"):
            check_options(config, options({PARTITIONS: asked}))
    else:
        check_options(config, options({PARTITIONS: asked}))


class ReadOnlyStorage(LocalStorage):
    def put(self, path: str, data: bytes) -> None:
        raise OSError(errno.EROFS, "Read-only file system", path)


def test_a_folder_that_may_not_be_written_is_told(tmp_path):
    told = r"^Cannot create a table at file://.*: its folder cannot be written \(Read-only file system\); give "
    with pytest.raises(ConfigError, match=told) as raised:
        create_table(ReadOnlyStorage(str(tmp_path / "t")), options({PARTITIONS: None}))
    assert isinstance(raised.value.__cause__, OSError)
