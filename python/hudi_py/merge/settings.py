"""How a table merges the versions of a record, resolved from its properties (`HoodieTableConfig`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.model.properties import TableConfig

COMMIT_TIME = "COMMIT_TIME_ORDERING"
EVENT_TIME = "EVENT_TIME_ORDERING"
CUSTOM = "CUSTOM"

EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"

_PAYLOADS = "org.apache.hudi.common.model."
_EVENT_TIME_PAYLOADS = frozenset({_PAYLOADS + "DefaultHoodieRecordPayload", _PAYLOADS + "EventTimeAvroPayload"})
_COMMIT_TIME_PAYLOADS = frozenset({_PAYLOADS + "OverwriteWithLatestAvroPayload"})

DELETE_FIELD = "hoodie.payload.delete.field"
DELETE_MARKER = "hoodie.payload.delete.marker"
PROPERTY_PREFIX = "hoodie.record.merge.property."
IS_DELETED = "_hoodie_is_deleted"

SUPPORTED = (
    "supported are COMMIT_TIME_ORDERING and EVENT_TIME_ORDERING without partial updates, and the payload classes "
    "OverwriteWithLatestAvroPayload, DefaultHoodieRecordPayload and EventTimeAvroPayload"
)


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """Which of two versions of a record wins, and which rows are deletes."""

    mode: str
    """`COMMIT_TIME_ORDERING`: the later wins. `EVENT_TIME_ORDERING`: the greater ordering value, ties to the later."""
    ordering_fields: tuple[str, ...] = ()
    """Compared lexicographically; empty in COMMIT_TIME_ORDERING."""
    delete_field: str | None = None
    """Column which marks a row as a delete when its text equals `delete_marker`."""
    delete_marker: str | None = None

    @property
    def by_event_time(self) -> bool:
        """False where the later version always wins, which it does in event time without ordering fields too."""
        return self.mode == EVENT_TIME and bool(self.ordering_fields)

    @property
    def marker_columns(self) -> tuple[str, ...]:
        """Columns which may mark a row as a delete, apart from `_hoodie_operation`."""
        return (IS_DELETED, self.delete_field) if self.delete_field else (IS_DELETED,)


def merge_settings(config: TableConfig, options: Mapping[str, str] | None = None) -> MergeSettings:
    """The table's merge settings.

    Args:
        config: the table's properties.
        options: may give `hoodie.payload.delete.field` and `hoodie.payload.delete.marker` where the table does not
            store them (versions 6 and 8).

    Raises:
        UnsupportedTableError: the table merges by a custom class or by partial updates.
        ConfigError: only one of delete field and delete marker is given.
    """
    mode = _resolve_mode(config)
    if mode not in (COMMIT_TIME, EVENT_TIME):
        shown = config.payload_class or config.merge_strategy_id or mode
        key = "hoodie.compaction.payload.class" if config.payload_class else "hoodie.record.merge.mode"
        raise UnsupportedTableError(f"Table '{config.name}' merges records by {key}={shown}; {SUPPORTED}")
    partial = config.properties.get("hoodie.table.partial.update.mode", "").strip()
    if partial:
        raise UnsupportedTableError(
            f"Table '{config.name}' has hoodie.table.partial.update.mode={partial}; {SUPPORTED}"
        )
    field = _merge_property(config, options, DELETE_FIELD)
    marker = _merge_property(config, options, DELETE_MARKER)
    if bool(field) != bool(marker):
        given, missing = (DELETE_FIELD, DELETE_MARKER) if field else (DELETE_MARKER, DELETE_FIELD)
        raise ConfigError(f"Table '{config.name}' has {given}={field or marker} but no {missing}; set both or neither")
    ordering = config.ordering_fields if mode == EVENT_TIME else ()
    return MergeSettings(mode, ordering, field or None, marker or None)


def _merge_property(config: TableConfig, options: Mapping[str, str] | None, key: str) -> str:
    stored = config.properties.get(PROPERTY_PREFIX + key) or config.properties.get(key)
    return (stored or (options or {}).get(key) or "").strip()


def _resolve_mode(config: TableConfig) -> str:
    """`HoodieTableConfig.inferMergingConfigsForPreV9Table`, 1.2.0; version 9 stores the mode itself."""
    if config.version >= 9 and config.merge_mode:
        return config.merge_mode
    by_payload = _mode_of_payload(config.payload_class)
    by_strategy = _mode_of_strategy(config.merge_strategy_id)
    if by_payload is None and by_strategy is None:
        return config.merge_mode or (EVENT_TIME if config.ordering_fields else COMMIT_TIME)
    first, second = (by_strategy, by_payload) if config.version >= 8 else (by_payload, by_strategy)
    return first or second or CUSTOM


def _mode_of_payload(payload: str) -> str | None:
    if not payload:
        return None
    if payload in _EVENT_TIME_PAYLOADS:
        return EVENT_TIME
    return COMMIT_TIME if payload in _COMMIT_TIME_PAYLOADS else CUSTOM


def _mode_of_strategy(strategy: str) -> str | None:
    if not strategy:
        return None
    return {EVENT_TIME_STRATEGY: EVENT_TIME, COMMIT_TIME_STRATEGY: COMMIT_TIME}.get(strategy, CUSTOM)
