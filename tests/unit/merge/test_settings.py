from __future__ import annotations

import pytest

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.merge.settings import (
    COMMIT_TIME,
    EVENT_TIME,
    PartialUpdate,
    Payload,
    merge_settings,
)
from hudi_py.model.properties import TableConfig

PAYLOADS = "org.apache.hudi.common.model."
EVENT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"


def config(version: int, **properties: str) -> TableConfig:
    named = {key.replace("__", "."): value for key, value in properties.items()}
    return TableConfig({"hoodie.table.name": "t", "hoodie.table.version": str(version), **named})


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        (config(9, hoodie__record__merge__mode="COMMIT_TIME_ORDERING"), COMMIT_TIME),
        (
            config(9, hoodie__record__merge__mode="EVENT_TIME_ORDERING", hoodie__table__ordering__fields="ts"),
            EVENT_TIME,
        ),
        (config(6), COMMIT_TIME),
        (config(6, hoodie__table__precombine__field="ts"), EVENT_TIME),
        (
            config(
                6,
                hoodie__table__precombine__field="ts",
                hoodie__compaction__payload__class=PAYLOADS + "OverwriteWithLatestAvroPayload",
                hoodie__compaction__record__merger__strategy=EVENT_ID,
            ),
            COMMIT_TIME,
        ),
        (config(6, hoodie__compaction__payload__class=PAYLOADS + "DefaultHoodieRecordPayload"), EVENT_TIME),
        (config(8, hoodie__record__merge__strategy__id=COMMIT_ID), COMMIT_TIME),
        (config(8, hoodie__record__merge__strategy__id=EVENT_ID), EVENT_TIME),
    ],
)
def test_modes(table: TableConfig, mode: str) -> None:
    assert merge_settings(table).mode == mode


def test_ordering_fields_matter_in_event_time_only() -> None:
    event = merge_settings(config(6, hoodie__table__precombine__field="ts"))
    assert event.ordering_fields == ("ts",)
    assert event.by_event_time
    commit = merge_settings(
        config(9, hoodie__record__merge__mode="COMMIT_TIME_ORDERING", hoodie__table__ordering__fields="ts")
    )
    assert commit.ordering_fields == ()
    assert not commit.by_event_time


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (config(6, hoodie__compaction__payload__class="com.example.Mine"), "com.example.Mine"),
        (config(8, hoodie__record__merge__strategy__id="00000000-0000-0000-0000-000000000000"), "00000000-0000"),
        (config(9, hoodie__record__merge__mode="CUSTOM"), "CUSTOM"),
        (
            config(
                9,
                hoodie__record__merge__mode="EVENT_TIME_ORDERING",
                hoodie__table__partial__update__mode="GUESS",
            ),
            "GUESS",
        ),
    ],
)
def test_custom_merging_is_refused(table: TableConfig, found: str) -> None:
    with pytest.raises(UnsupportedTableError, match=found):
        merge_settings(table)


def test_delete_field_and_marker_go_together() -> None:
    prefix = "hoodie__record__merge__property__"
    both = {prefix + "hoodie__payload__delete__field": "op", prefix + "hoodie__payload__delete__marker": "d"}
    settings = merge_settings(config(9, hoodie__record__merge__mode="EVENT_TIME_ORDERING", **both))
    assert (settings.delete_field, settings.delete_marker) == ("op", "d")
    with pytest.raises(ConfigError, match=r"hoodie.payload.delete.marker"):
        merge_settings(config(6), {"hoodie.payload.delete.field": "op"})


def test_payload_classes_of_older_versions() -> None:
    table = config(
        6,
        hoodie__table__precombine__field="_event_seq",
        hoodie__compaction__payload__class=Payload.MYSQL_DEBEZIUM.value,
        hoodie__compaction__record__merger__strategy=EVENT_ID,
    )
    settings = merge_settings(table)
    assert settings.payload is Payload.MYSQL_DEBEZIUM
    assert (settings.delete_field, settings.delete_marker) == ("_change_operation_type", "d")
    assert {"_event_seq", "_change_operation_type", "_hoodie_is_deleted"} <= set(settings.columns)


def test_partial_update_modes_of_version_9() -> None:
    prefix = "hoodie__record__merge__property__"
    table = config(
        9,
        hoodie__record__merge__mode="EVENT_TIME_ORDERING",
        hoodie__table__partial__update__mode="FILL_UNAVAILABLE",
        **{prefix + "hoodie__write__partial__update__unavailable__value": "gone"},
    )
    settings = merge_settings(table)
    assert (settings.partial, settings.unavailable) == (PartialUpdate.FILL_UNAVAILABLE, "gone")
    kept = config(9, hoodie__table__partial__update__mode="KEEP_VALUES")
    assert not merge_settings(kept).folds


def test_a_merger_is_named_by_option_only() -> None:
    own = config(9, hoodie__record__merge__mode="CUSTOM", hoodie__compaction__payload__class="com.example.Mine")
    with pytest.raises(UnsupportedTableError, match=r"com.example.Mine.*hoodie.py.record.merger"):
        merge_settings(own)
    assert merge_settings(own, {"hoodie.py.record.merger": "tests.unit.merge.mergers:Cheaper"}).merger_columns == (
        "price",
    )
    with pytest.raises(ConfigError, match="module:Class"):
        merge_settings(own, {"hoodie.py.record.merger": "mine.Merger"})
    with pytest.raises(ConfigError, match="remove the option"):
        merge_settings(config(6), {"hoodie.py.record.merger": "mine:Merger"})
