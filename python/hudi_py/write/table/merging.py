"""How a new table merges versions of a row: what Apache Hudi stores of modes and payload classes, by table version.

Sources: `HoodieTableConfig.inferMergingConfigsForPreV9Table` and `inferMergingConfigsForV9TableCreation`, 1.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.merge.settings import (
    COMMIT_TIME,
    COMMIT_TIME_STRATEGY,
    CUSTOM,
    DEBEZIUM_OPERATION,
    DELETE_FIELD,
    DELETE_MARKER,
    EVENT_TIME,
    EVENT_TIME_STRATEGY,
    PARTIAL_UPDATE_MODE,
    PAYLOAD_STRATEGY,
    PROPERTY_PREFIX,
    UNAVAILABLE_VALUE,
    PartialUpdate,
    Payload,
)

_STRATEGIES = {EVENT_TIME: EVENT_TIME_STRATEGY, COMMIT_TIME: COMMIT_TIME_STRATEGY}
MODE_OF_STRATEGY = {strategy: mode for mode, strategy in _STRATEGIES.items()}
_PAYLOADS = {
    EVENT_TIME: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    COMMIT_TIME: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
_DELETE = {
    "Op": {PROPERTY_PREFIX + DELETE_FIELD: "Op", PROPERTY_PREFIX + DELETE_MARKER: "D"},
    DEBEZIUM_OPERATION: {
        PROPERTY_PREFIX + DELETE_FIELD: DEBEZIUM_OPERATION,
        PROPERTY_PREFIX + DELETE_MARKER: "d",
    },
}
_ORDERING = "hoodie.table.ordering.fields"
_IGNORE = {PARTIAL_UPDATE_MODE: PartialUpdate.IGNORE_DEFAULTS.value}
UNAVAILABLE_PROPERTY = PROPERTY_PREFIX + UNAVAILABLE_VALUE
_REPLACED: dict[str, tuple[str, dict[str, str]]] = {
    "DefaultHoodieRecordPayload": (EVENT_TIME, {}),
    "EventTimeAvroPayload": (EVENT_TIME, {}),
    "OverwriteWithLatestAvroPayload": (COMMIT_TIME, {}),
    "PartialUpdateAvroPayload": (EVENT_TIME, _IGNORE),
    "OverwriteNonDefaultsWithLatestAvroPayload": (COMMIT_TIME, _IGNORE),
    "AWSDmsAvroPayload": (COMMIT_TIME, _DELETE["Op"]),
    "PostgresDebeziumAvroPayload": (
        EVENT_TIME,
        {
            PARTIAL_UPDATE_MODE: PartialUpdate.FILL_UNAVAILABLE.value,
            UNAVAILABLE_PROPERTY: "__debezium_unavailable_value",
            _ORDERING: "_event_lsn",
            **_DELETE[DEBEZIUM_OPERATION],
        },
    ),
    "MySqlDebeziumAvroPayload": (EVENT_TIME, {_ORDERING: "_event_bin_file,_event_pos", **_DELETE[DEBEZIUM_OPERATION]}),
}
"""By payload class the merge mode and other properties of version 9 that take its place
(`HoodieTableConfig.inferMergingConfigsForV9TableCreation`, 1.2.0)."""
_CUSTOM_PAYLOADS = frozenset(payload.value.rpartition(".")[2] for payload in Payload)
"""Payload classes that merge in their own way before version 9."""


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """What a caller requires of the merges of a new table."""

    ordering_fields: tuple[str, ...] = ()
    merge_mode: str | None = None
    payload_class: str | None = None
    partial_update_mode: str | None = None
    unavailable_value: str | None = None


def merge_properties(spec: MergeSpec, version: int) -> dict[str, str]:
    """The properties of a new table that decide which row of a key wins, or how one is made of two.

    Raises:
        ConfigError: values which do not go together.
        UnsupportedTableError: a payload class or merge mode beyond this release.
    """
    ordering = spec.ordering_fields
    mode = spec.merge_mode.upper() if spec.merge_mode else None
    payload = (spec.payload_class or "").strip()
    name = payload.rpartition(".")[2]
    replacing: dict[str, str] = {}
    if payload:
        if name not in _REPLACED:
            raise UnsupportedTableError(
                f"Cannot create a table with the payload class {payload} (hoodie.datasource.write.payload.class); "
                f"supported are {', '.join(sorted(_REPLACED))}"
            )
        of_payload, replacing = _REPLACED[name]
        if mode not in (None, of_payload):
            raise ConfigError(
                f"Cannot create a table with the merge mode {mode} and the payload class {spec.payload_class}, which "
                f"stands for {of_payload}; leave one of them out"
            )
        mode = of_payload
    mode = mode or (EVENT_TIME if ordering else COMMIT_TIME)
    if mode not in _PAYLOADS:
        raise UnsupportedTableError(
            f"Cannot create a table with the merge mode {mode} (hoodie.record.merge.mode); supported are "
            + ", ".join(sorted(_PAYLOADS))
        )
    if version >= 9 and _ORDERING in replacing:
        ordering = tuple(replacing[_ORDERING].split(","))
    if mode == EVENT_TIME and not ordering and (spec.merge_mode or name in _CUSTOM_PAYLOADS):
        raise ConfigError(
            f"Cannot create a table with {f'the payload class {payload}' if payload else f'the merge mode {mode}'} "
            "without an ordering field; set hoodie.table.ordering.fields"
        )
    properties = _partial_update_mode(spec, version, replacing)
    if ordering:
        # releases before 1.1 know one ordering field, under this name
        single = version < 9 and len(ordering) == 1
        properties["hoodie.table.precombine.field" if single else _ORDERING] = ",".join(ordering)
    own = version < 9 and name in _CUSTOM_PAYLOADS
    if version >= 8:
        properties["hoodie.record.merge.mode"] = CUSTOM if own else mode
    if version < 9:
        properties["hoodie.compaction.payload.class"] = payload or _PAYLOADS[mode]
        if version == 8:
            properties["hoodie.record.merge.strategy.id"] = PAYLOAD_STRATEGY if own else _STRATEGIES[mode]
    elif payload:
        properties |= {"hoodie.table.legacy.payload.class": payload, **replacing, **properties}
    return properties


def _partial_update_mode(spec: MergeSpec, version: int, replacing: Mapping[str, str]) -> dict[str, str]:
    """The properties of a partial update mode that is asked for by its name."""
    mode, text = spec.partial_update_mode, spec.unavailable_value
    if mode is not None and version < 9:
        raise ConfigError(
            f"Cannot create a table of version {version} with {PARTIAL_UPDATE_MODE}={mode}, which tables have from "
            "version 9 on; give hoodie.datasource.write.payload.class, such as PartialUpdateAvroPayload"
        )
    if mode is not None and replacing and replacing.get(PARTIAL_UPDATE_MODE) != mode:
        raise ConfigError(
            f"Cannot create a table with {PARTIAL_UPDATE_MODE}={mode} and the payload class {spec.payload_class}, "
            f"which stands for {replacing.get(PARTIAL_UPDATE_MODE) or 'none'}; leave one of them out"
        )
    mode = mode or replacing.get(PARTIAL_UPDATE_MODE)
    fills = mode == PartialUpdate.FILL_UNAVAILABLE.value and version >= 9
    if text is not None and not fills:
        raise ConfigError(
            f"Cannot create a table with {UNAVAILABLE_VALUE}={text} but without the partial update mode "
            f"FILL_UNAVAILABLE, which needs it; set {PARTIAL_UPDATE_MODE}, in a table of version 9"
        )
    properties = {} if spec.partial_update_mode is None else {PARTIAL_UPDATE_MODE: spec.partial_update_mode}
    if fills and (text is not None or spec.partial_update_mode is not None):
        properties[UNAVAILABLE_PROPERTY] = text or "__debezium_unavailable_value"
    return properties
