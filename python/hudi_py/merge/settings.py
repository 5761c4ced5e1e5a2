"""Resolves how a table merges versions of a record from its properties (`HoodieTableConfig`, 1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.merge.merger import RECORD_MERGER, load_merger
from hudi_py.model.properties import TableConfig

COMMIT_TIME = "COMMIT_TIME_ORDERING"
EVENT_TIME = "EVENT_TIME_ORDERING"
CUSTOM = "CUSTOM"

EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"

_COMPLEX = re.compile(r"^COMPLEX|\bComplex(Avro)?KeyGenerator$")
_PAYLOADS = "org.apache.hudi.common.model."
_EVENT_TIME_PAYLOADS = frozenset({_PAYLOADS + "DefaultHoodieRecordPayload", _PAYLOADS + "EventTimeAvroPayload"})
_COMMIT_TIME_PAYLOADS = frozenset({_PAYLOADS + "OverwriteWithLatestAvroPayload"})

DELETE_FIELD = read_config.DELETE_FIELD.key
DELETE_MARKER = read_config.DELETE_MARKER.key
PROPERTY_PREFIX = "hoodie.record.merge.property."
PARTIAL_UPDATE_MODE = "hoodie.table.partial.update.mode"
UNAVAILABLE_VALUE = "hoodie.write.partial.update.unavailable.value"
IS_DELETED = "_hoodie_is_deleted"
DEBEZIUM_OPERATION = "_change_operation_type"
DMS_OPERATION = "Op"


class Payload(str, Enum):
    """Payload classes with their own way of merging, in merge mode CUSTOM of versions before 9."""

    PARTIAL_UPDATE = _PAYLOADS + "PartialUpdateAvroPayload"
    OVERWRITE_NON_DEFAULTS = _PAYLOADS + "OverwriteNonDefaultsWithLatestAvroPayload"
    AWS_DMS = _PAYLOADS + "AWSDmsAvroPayload"
    MYSQL_DEBEZIUM = _PAYLOADS + "debezium.MySqlDebeziumAvroPayload"
    POSTGRES_DEBEZIUM = _PAYLOADS + "debezium.PostgresDebeziumAvroPayload"

    @property
    def operation_column(self) -> str | None:
        """Returns the column by which the payload itself recognises deletes."""
        if self is Payload.AWS_DMS:
            return DMS_OPERATION
        return DEBEZIUM_OPERATION if self in (Payload.MYSQL_DEBEZIUM, Payload.POSTGRES_DEBEZIUM) else None

    @property
    def sequence_column(self) -> str | None:
        """Returns the column by which the payload compares versions, instead of the ordering fields."""
        return {Payload.MYSQL_DEBEZIUM: "_event_seq", Payload.POSTGRES_DEBEZIUM: "_event_lsn"}.get(self)


class PartialUpdate(str, Enum):
    """Which values mean that an update does not set a column (`PartialUpdateMode`, 1.2.0)."""

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    """Nulls."""
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
    """In string columns, a text from the table's properties. Apache Hudi 1.2.0 never finds it in binary columns."""


_PAYLOADS_OF = {payload.value: payload for payload in Payload}
# Delete field and marker of payload classes in versions before 9 (`HoodieTableConfig.getTableMergeProperties`)
_PAYLOAD_MARKERS = {
    Payload.AWS_DMS: (DMS_OPERATION, "D"),
    Payload.MYSQL_DEBEZIUM: (DEBEZIUM_OPERATION, "d"),
    Payload.POSTGRES_DEBEZIUM: (DEBEZIUM_OPERATION, "d"),
}
SUPPORTED = (
    "supported: COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, the payload classes OverwriteWithLatestAvroPayload, "
    "DefaultHoodieRecordPayload, EventTimeAvroPayload, "
    + ", ".join(payload.value.rpartition(".")[2] for payload in Payload)
    + f", and mergers in Python named by the option {RECORD_MERGER}"
)


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """Which of two versions of a record wins, which values it takes from the other, and which rows are deletes."""

    mode: str
    """`COMMIT_TIME_ORDERING`: the later wins. `EVENT_TIME_ORDERING`: the greater ordering value wins, of equal ones the
    later. `CUSTOM`: `payload` or `merger` decides."""
    ordering_fields: tuple[str, ...] = ()
    """Compared lexicographically; empty in COMMIT_TIME_ORDERING. `a.b` is the field `b` of struct `a`."""
    delete_field: str | None = None
    """Column that marks a row as a delete if its text equals `delete_marker`."""
    delete_marker: str | None = None
    partial: PartialUpdate | None = None
    """Which values of the winner are taken from the other version."""
    unavailable: str | None = None
    """The placeholder text in FILL_UNAVAILABLE."""
    payload: Payload | None = None
    """The payload class that merges, in mode CUSTOM."""
    merger: str | None = None
    """`module:Class` of the Python merger, in mode CUSTOM."""
    merger_columns: tuple[str, ...] = ()
    """Columns that the merger requires."""
    key_fields: tuple[str, ...] = ()
    """Columns that make up the record key if the files have no `_hoodie_record_key`; otherwise empty."""
    names_key: bool = False
    """Whether keys in delete blocks may have the form `field:value` of a single key field, which rows do not give."""
    fills_bytes: bool = False
    """Whether binary columns can have the placeholder, as where Apache Hudi merges Avro records: within an input, and
    into base files. Its readers compare text only."""

    @property
    def by_event_time(self) -> bool:
        """Returns whether ordering values decide. False if the later version always wins, as in EVENT_TIME_ORDERING
        without ordering fields."""
        return self.mode == EVENT_TIME and bool(self.ordering_fields)

    @property
    def ordered(self) -> bool:
        """Returns whether the mode, a payload or a merger compares ordering values."""
        return self.mode != COMMIT_TIME and bool(self.ordering_fields)

    @property
    def folds(self) -> bool:
        """Returns whether a merge combines two versions into a row, instead of choosing one."""
        return self.partial is not None or self.payload is not None or self.merger is not None

    def shown(self, config: TableConfig) -> str:
        """Describes what combines two versions into a row, for errors."""
        if self.partial is not None:
            return f"{PARTIAL_UPDATE_MODE}={self.partial.value}"
        if self.merger is not None:
            return f"{RECORD_MERGER}={self.merger}"
        return f"hoodie.compaction.payload.class={config.payload_class}"

    @property
    def marker_columns(self) -> tuple[str, ...]:
        """Returns columns that may mark a row as a delete, besides `_hoodie_operation`."""
        return (IS_DELETED, self.delete_field) if self.delete_field else (IS_DELETED,)

    @property
    def ordering_columns(self) -> tuple[str, ...]:
        """Returns the ordering fields and, for fields of structs, the struct columns."""
        return with_structs(self.ordering_fields)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Returns the key fields and, for fields of structs, the struct columns."""
        return with_structs(self.key_fields)

    @property
    def columns(self) -> tuple[str, ...]:
        """Returns columns that the merge needs besides the record key; a table may lack some."""
        own = (self.payload.operation_column, self.payload.sequence_column) if self.payload else ()
        named = (*self.ordering_columns, *self.marker_columns, *self.key_columns, *self.merger_columns)
        names = (*named, *(name for name in own if name))
        return tuple(dict.fromkeys(names))


def with_structs(fields: Sequence[str]) -> tuple[str, ...]:
    """Adds to fields of the form `a.b` the structs that may contain them."""
    return tuple(dict.fromkeys(part for name in fields for part in (name, name.partition(".")[0])))


def merge_settings(config: TableConfig, options: Mapping[str, str] | None = None) -> MergeSettings:
    """Resolves the table's merge settings.

    Args:
        options: may have `hoodie.payload.delete.field` and `hoodie.payload.delete.marker` for tables that do not store
            them (versions 6 and 8), and `hoodie.py.record.merger` for tables with a custom merger class.

    Raises:
        UnsupportedTableError: the table merges by an unknown class, and no merger is given.
        ConfigError: only one of delete field and delete marker is given; or a merger is given for a table that needs
            none, or cannot be loaded.
    """
    mode = _resolve_mode(config)
    payload = _PAYLOADS_OF.get(config.payload_class) if mode == CUSTOM else None
    merger = _merger(config, options, mode, payload)
    partial, unavailable = _partial_update(config, mode)
    field, marker = _delete_marker(config, options, payload)
    return MergeSettings(
        mode,
        () if mode == COMMIT_TIME else config.ordering_fields,
        field,
        marker,
        partial,
        unavailable,
        payload,
        merger,
        () if merger is None else tuple(load_merger(merger).required_columns),
        () if config.populates_meta_fields else config.record_key_fields,
        names_key=not config.populates_meta_fields
        and len(config.record_key_fields) == 1
        and bool(_COMPLEX.search(config.keygen_type or config.keygen_class)),
    )


def _merger(config: TableConfig, options: Mapping[str, str] | None, mode: str, payload: Payload | None) -> str | None:
    """Returns the custom merger of a table that merges by an unknown class."""
    merger = (options or {}).get(RECORD_MERGER, "").strip() or None
    if merger is not None:
        if mode != CUSTOM or payload is not None:
            raise ConfigError(
                f"Option {RECORD_MERGER} = '{merger}' does not apply: table '{config.name}' merges by "
                f"{payload.value if payload else mode}; remove the option"
            )
        if merger.count(":") != 1 or not all(part.strip() for part in merger.split(":")):
            raise ConfigError(f"Option {RECORD_MERGER} = '{merger}' is not valid: it must be `module:Class`")
    elif mode not in (COMMIT_TIME, EVENT_TIME) and payload is None:
        shown = config.payload_class or config.merge_strategy_id or mode
        key = "hoodie.compaction.payload.class" if config.payload_class else "hoodie.record.merge.mode"
        raise UnsupportedTableError(
            f"Table '{config.name}' merges records by {key}={shown}; {SUPPORTED}: set {RECORD_MERGER}=module:Class to "
            "one that merges as this class does"
        )
    return merger


def _delete_marker(
    config: TableConfig, options: Mapping[str, str] | None, payload: Payload | None
) -> tuple[str | None, str | None]:
    """Returns the field that marks a row as deleted, and its value."""
    field = _merge_property(config, options, DELETE_FIELD)
    marker = _merge_property(config, options, DELETE_MARKER)
    if payload in _PAYLOAD_MARKERS and not config.merges_by_mode:
        field, marker = _PAYLOAD_MARKERS[payload]
    if bool(field) != bool(marker):
        given, missing = (DELETE_FIELD, DELETE_MARKER) if field else (DELETE_MARKER, DELETE_FIELD)
        raise ConfigError(f"Table '{config.name}' has {given}={field or marker} but no {missing}; set both or neither")
    return field or None, marker or None


def _partial_update(config: TableConfig, mode: str) -> tuple[PartialUpdate | None, str | None]:
    stored = config.properties.get(PARTIAL_UPDATE_MODE, "").strip().upper()
    # KEEP_VALUES is how log blocks of partial updates merge anyway; complete rows lack no column
    if not stored or stored == "KEEP_VALUES" or mode == CUSTOM or not config.merges_by_mode:
        return None, None
    if stored not in PartialUpdate.__members__:
        known = ", ".join(PartialUpdate.__members__)
        raise UnsupportedTableError(
            f"Table '{config.name}' has {PARTIAL_UPDATE_MODE}={stored}; supported: {known}, or none"
        )
    unavailable = config.properties.get(PROPERTY_PREFIX + UNAVAILABLE_VALUE)
    return PartialUpdate(stored), unavailable if stored == PartialUpdate.FILL_UNAVAILABLE.value else None


def _merge_property(config: TableConfig, options: Mapping[str, str] | None, key: str) -> str:
    stored = config.properties.get(PROPERTY_PREFIX + key) or config.properties.get(key)
    return (stored or (options or {}).get(key) or "").strip()


def _resolve_mode(config: TableConfig) -> str:
    """Resolves the merge mode (`HoodieTableConfig.inferMergingConfigsForPreV9Table`, 1.2.0); version 9 stores it."""
    if config.merges_by_mode and config.merge_mode:
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
