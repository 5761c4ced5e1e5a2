"""Changes of the version: properties step by step, completion times, plans of other services, and the doors."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError, ConflictError, UnsupportedTableError
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.services.upgrade.layouts import Completions, with_changes
from hudi_py.services.upgrade.properties import changed_properties, steps
from hudi_py.storage import LocalStorage, MemoryStorage
from hudi_py.timeline.properties import load_table_config, update_table_config
from tests.unit.metadata_write import memory_tables

MODEL = "org.apache.hudi.common.model."
EVENT, COMMIT, CUSTOM = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d", "0" * 8
BASE = {
    "hoodie.table.name": "t",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.precombine.field": "ts",
}


def at(version: int, properties: dict[str, str], options: dict[str, str] | None = None) -> dict[str, str]:
    """Properties, which are of a table of version 6, in another version."""
    config = TableConfig({**BASE, **properties})
    given = Options.resolve(options or {}, defaults={})
    return dict(with_changes(config, changed_properties(config, version, given)).properties)


@pytest.mark.parametrize(
    ("payload", "kind", "mode", "kept"),
    [
        ("OverwriteWithLatestAvroPayload", "COPY_ON_WRITE", "COMMIT_TIME_ORDERING", "OverwriteWithLatestAvroPayload"),
        ("OverwriteWithLatestAvroPayload", "MERGE_ON_READ", "EVENT_TIME_ORDERING", "DefaultHoodieRecordPayload"),
        ("EventTimeAvroPayload", "COPY_ON_WRITE", "EVENT_TIME_ORDERING", "DefaultHoodieRecordPayload"),
        ("", "COPY_ON_WRITE", "EVENT_TIME_ORDERING", "DefaultHoodieRecordPayload"),
        ("AWSDmsAvroPayload", "COPY_ON_WRITE", "CUSTOM", "AWSDmsAvroPayload"),
    ],
)
def test_merge_modes_of_version_8(payload: str, kind: str, mode: str, kept: str) -> None:
    given = {"hoodie.table.type": kind, **({"hoodie.compaction.payload.class": MODEL + payload} if payload else {})}
    found = at(8, given)
    assert found["hoodie.record.merge.mode"] == mode
    assert found["hoodie.compaction.payload.class"] == MODEL + kept
    assert found["hoodie.record.merge.strategy.id"] == found["hoodie.compaction.record.merger.strategy"]
    assert found["hoodie.record.merge.strategy.id"].startswith(
        {"COMMIT_TIME_ORDERING": COMMIT, "EVENT_TIME_ORDERING": EVENT, "CUSTOM": CUSTOM}[mode]
    )
    assert found["hoodie.table.initial.version"] == "6"
    assert found["hoodie.timeline.layout.version"] == "2"


def test_payload_classes_become_properties_and_come_back() -> None:
    given = {"hoodie.compaction.payload.class": f"{MODEL}debezium.MySqlDebeziumAvroPayload"}
    newest = at(9, given)
    assert newest["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert newest["hoodie.table.ordering.fields"] == "_event_bin_file,_event_pos"
    assert newest["hoodie.record.merge.property.hoodie.payload.delete.field"] == "_change_operation_type"
    assert newest["hoodie.table.legacy.payload.class"] == given["hoodie.compaction.payload.class"]
    assert "hoodie.compaction.payload.class" not in newest
    assert "hoodie.table.precombine.field" not in newest
    again = at(8, newest)
    assert again["hoodie.record.merge.mode"] == "CUSTOM"
    assert again["hoodie.table.precombine.field"] == "_event_seq"
    assert again["hoodie.compaction.payload.class"] == given["hoodie.compaction.payload.class"]
    assert not [key for key in again if "legacy" in key or "merge.property" in key or "ordering" in key]
    oldest = at(6, newest)
    assert oldest["hoodie.compaction.payload.class"] == given["hoodie.compaction.payload.class"]
    assert not [key for key in oldest if key.startswith("hoodie.record.merge")]


def test_a_table_of_version_9_gets_the_payload_class_that_merges_alike() -> None:
    made = {**BASE, "hoodie.table.version": "9", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    assert at(6, made)["hoodie.compaction.payload.class"] == MODEL + "DefaultHoodieRecordPayload"
    partial = {**made, "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    assert at(8, partial)["hoodie.compaction.payload.class"] == MODEL + "PartialUpdateAvroPayload"
    unavailable = {**made, "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE"}
    with pytest.raises(UnsupportedTableError, match="older versions have no payload class"):
        at(8, unavailable)


def test_types_of_partition_fields_are_asked_for() -> None:
    given = {
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
        "hoodie.table.partition.fields": "city,day",
    }
    with pytest.raises(ConfigError, match=r"give hoodie\.datasource\.write\.partitionpath\.field"):
        at(8, given)
    typed = "city:SIMPLE,day:TIMESTAMP"
    found = at(8, given, {"hoodie.datasource.write.partitionpath.field": typed})
    assert found["hoodie.table.partition.fields"] == typed
    assert found["hoodie.table.keygenerator.type"] == "CUSTOM"
    assert at(6, found)["hoodie.table.partition.fields"] == "city,day"


def test_steps() -> None:
    assert steps(6, 9) == [(6, 8), (8, 9)]
    assert steps(9, 6) == [(9, 8), (8, 6)]
    assert steps(8, 8) == []


def test_no_write_completes_after_a_later_compaction() -> None:
    """Files of a table that was copied are younger than its compactions."""
    times = Completions(("20240102000000000", "20240103000000000", "20240105000000000001"))
    copied = "20250101000000000"
    assert times.at(InstantTime("20240101000000000"), copied) == "20240101235959999"
    assert times.at(InstantTime("20240102000000000"), copied) == "20240102235959999"
    assert times.at(InstantTime("20240101000000000"), "20240101000001000") == "20240101000001000"
    assert times.at(InstantTime("20240105000000000"), copied) == copied  # of a metadata table, with its own compaction
    assert times.at(InstantTime("20240106000000000"), "20240105000000000") == "20240106000000000"


@pytest.mark.parametrize(("version", "to"), [(6, 9), (9, 6)])
def test_a_copied_table(version: int, to: int) -> None:
    """All its files have the time of the copy: logs stay with their base files."""
    storage = MemoryStorage(f"upgrade-{os.urandom(4).hex()}")
    for ts in range(1, 4):
        memory_tables.write(storage, memory_tables.rows(range(4), ts), version=version)
        hudi_py.open_table(storage.uri).compact()
    copy = MemoryStorage(f"upgrade-{os.urandom(4).hex()}")
    for info in storage.walk():
        copy.put(info.path, storage.read(info.path))
    table = hudi_py.open_table(copy.uri)
    before = memory_tables.read(copy)
    assert "completion times" in " ".join((table.upgrade if to > version else table.downgrade)(to).limits)
    assert memory_tables.read(copy) == before == dict.fromkeys(range(4), 3)
    for slice_ in hudi_py.open_table(copy.uri).files().to_pylist():
        assert not slice_["log_files"]


def test_a_metadata_table_that_was_made_anew_stays_in_use(tmp_path: Path) -> None:
    """The upgrade compacts one that has initial instants only, whose times are no points in time."""
    rows = [{"id": number, "ts": 1} for number in range(4)]
    for _ in range(2):
        hudi_py.write(tmp_path, rows, record_key="id", ordering_by="ts", table_version=6)
    table = hudi_py.open_table(tmp_path)
    table.metadata.rebuild()
    table.upgrade(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan().count() == 4
    assert table.metadata.verify().ok


def test_what_is_planned(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    index = {"hoodie.metadata.record.index.enable": "true"}
    for ts in (1, 2):
        memory_tables.write(storage, memory_tables.rows(range(4), ts), options=index)
    table = hudi_py.open_table(storage.uri)
    table.index("names", "name", using="secondary_index")
    found = table.downgrade(6, dry_run=True)
    assert load_table_config(storage).version == 9
    assert "2 file groups with logs compacted" in found.steps
    assert any("3 instants" in step and ".hoodie" in step for step in found.steps), found.steps
    assert any("by name" in limit for limit in found.limits)
    assert found.undo == "hudi-py upgrade PATH --to 9"
    assert found.properties["hoodie.table.version"] == "6"
    assert found.properties["hoodie.record.merge.mode"] is None
    table.downgrade(6)
    config = load_table_config(storage)
    assert set(config.metadata_partitions) == {"files", "record_index"}
    assert hudi_py.open_table(storage.uri).downgrade(6).reason == "the table has version 6 already"


def test_an_index_being_built_is_waited_for() -> None:
    storage = MemoryStorage(f"upgrade-{os.urandom(4).hex()}")
    memory_tables.write(storage, memory_tables.rows(range(4), 1))
    update_table_config(storage, {"hoodie.table.metadata.partitions.inflight": "record_index"})
    with pytest.raises(ConflictError, match=r"an index is being built \(record_index\)"):
        hudi_py.open_table(storage.uri).downgrade(8)
    assert load_table_config(storage).version == 9


def test_without_a_metadata_table() -> None:
    storage = MemoryStorage(f"upgrade-{os.urandom(4).hex()}")
    off = {"hoodie.metadata.enable": "false"}
    memory_tables.write(storage, memory_tables.rows(range(4), 1), version=6, options=off)
    before = memory_tables.read(storage)
    hudi_py.open_table(storage.uri, off).upgrade()
    assert memory_tables.read(storage) == before
    config = load_table_config(storage)
    assert (config.version, config.metadata_partitions) == (9, ())


def test_a_write_upgrades_if_it_is_asked_to() -> None:
    storage = MemoryStorage(f"upgrade-{os.urandom(4).hex()}")
    memory_tables.write(storage, memory_tables.rows(range(4), 1), version=6)
    row = memory_tables.rows([1], 2)
    hudi_py.write(storage.uri, row)
    assert load_table_config(storage).version == 6
    result = hudi_py.write(storage.uri, row, options={"hoodie.write.auto.upgrade": "true"})
    assert "upgrade" in result.services
    assert load_table_config(storage).version == 9
    assert memory_tables.read(storage) == {0: 1, 1: 2, 2: 1, 3: 1}
    assert "upgrade" not in hudi_py.write(storage.uri, row, options={"hoodie.write.auto.upgrade": "true"}).services


def test_what_a_killed_change_leaves_is_swept() -> None:
    """Of both layouts, by another call to the version that the table has."""
    storage = MemoryStorage(f"upgrade-{os.urandom(4).hex()}")
    memory_tables.write(storage, memory_tables.rows(range(4), 1))
    storage.put(".hoodie/20240101000000000.deltacommit", b"{}")
    storage.put(".hoodie/metadata/.hoodie/20240101000000000.deltacommit", b"{}")
    assert hudi_py.open_table(storage.uri).upgrade(9).reason == "the table has version 9 already"
    assert storage.stat(".hoodie/20240101000000000.deltacommit") is None
    assert storage.stat(".hoodie/metadata/.hoodie/20240101000000000.deltacommit") is None
    assert memory_tables.read(storage) == dict.fromkeys(range(4), 1)
