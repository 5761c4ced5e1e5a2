"""Determines how a new table merges versions of a row: by the mode, strategy or payload class in the options.

Sources: `HoodieTableConfig.inferMergingConfigsForPreV9Table` and `inferMergingConfigsForV9TableCreation`, 1.2.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from hudi_py.config import Options
from hudi_py.config import table as table_config
from hudi_py.errors import ConfigError
from hudi_py.merge.settings import (
    COMMIT_TIME,
    COMMIT_TIME_STRATEGY,
    CUSTOM,
    DEBEZIUM_OPERATION,
    DMS_OPERATION,
    EVENT_TIME,
    EVENT_TIME_STRATEGY,
    PAYLOAD_STRATEGY,
    PartialUpdate,
    Payload,
)

_STRATEGIES = {EVENT_TIME: EVENT_TIME_STRATEGY, COMMIT_TIME: COMMIT_TIME_STRATEGY}
_MODES = {strategy: mode for mode, strategy in _STRATEGIES.items()}
_PAYLOADS = {
    EVENT_TIME: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    COMMIT_TIME: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
_CUSTOM_PAYLOADS = frozenset(payload.value.rpartition(".")[2] for payload in Payload)
"""Payload classes that merge in their own way before version 9."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The settings that replace a payload class in tables of version 9."""

    mode: str
    partial: PartialUpdate | None = None
    ordering_fields: tuple[str, ...] = ()
    deletes: tuple[str, str] | None = None
    """The column that marks deletes, and its text in them."""


_REPLACEMENTS = {
    "DefaultHoodieRecordPayload": Replacement(EVENT_TIME),
    "EventTimeAvroPayload": Replacement(EVENT_TIME),
    "OverwriteWithLatestAvroPayload": Replacement(COMMIT_TIME),
    "PartialUpdateAvroPayload": Replacement(EVENT_TIME, PartialUpdate.IGNORE_DEFAULTS),
    "OverwriteNonDefaultsWithLatestAvroPayload": Replacement(COMMIT_TIME, PartialUpdate.IGNORE_DEFAULTS),
    "AWSDmsAvroPayload": Replacement(COMMIT_TIME, deletes=(DMS_OPERATION, "D")),
    "PostgresDebeziumAvroPayload": Replacement(
        EVENT_TIME, PartialUpdate.FILL_UNAVAILABLE, ("_event_lsn",), (DEBEZIUM_OPERATION, "d")
    ),
    "MySqlDebeziumAvroPayload": Replacement(
        EVENT_TIME, ordering_fields=("_event_bin_file", "_event_pos"), deletes=(DEBEZIUM_OPERATION, "d")
    ),
}
"""By the name of a payload class (`HoodieTableConfig.inferMergingConfigsForV9TableCreation`, 1.2.0)."""


@dataclass(frozen=True, slots=True)
class NewMerging:
    """How a new table merges, in the terms of each table version."""

    mode: str
    ordering_fields: tuple[str, ...] = ()
    payload: str | None = None
    """The payload class that the options name."""
    partial: PartialUpdate | None = None
    unavailable: str | None = None
    """The text that stands for a value that is not known, with FILL_UNAVAILABLE."""
    deletes: tuple[str, str] | None = None
    """The column that marks deletes and its text in them, if the payload class defines them."""

    @classmethod
    def of(cls, options: Options, version: int) -> NewMerging:
        """Resolves the options of a new table. Raises ConfigError for options that contradict each other."""
        asked = asked_mode(options)
        payload = options.get(table_config.PAYLOAD_CLASS)
        replacement = None if payload is None else _REPLACEMENTS[_simple_name(payload)]
        if replacement is not None and asked not in (None, replacement.mode):
            raise ConfigError(
                f"Cannot create a table with the merge mode {asked} and the payload class {payload}, which stands for "
                f"{replacement.mode}; leave one of them out"
            )
        ordering = options.get(table_config.ORDERING)
        mode = replacement.mode if replacement is not None else asked
        mode = mode or (EVENT_TIME if ordering else COMMIT_TIME)
        if version >= 9 and replacement is not None and replacement.ordering_fields:
            ordering = replacement.ordering_fields
        if mode == EVENT_TIME and not ordering and (asked or _simple_name(payload or "") in _CUSTOM_PAYLOADS):
            raise ConfigError(
                f"Cannot create a table with {f'the payload class {payload}' if payload else f'the merge mode {mode}'} "
                "without an ordering field; set hoodie.table.ordering.fields"
            )
        partial = _partial_mode(options, version, replacement)
        unavailable = None
        if partial is PartialUpdate.FILL_UNAVAILABLE:
            unavailable = options.get(table_config.UNAVAILABLE_VALUE)
        return cls(mode, ordering, payload, partial, unavailable, None if replacement is None else replacement.deletes)

    @property
    def mode_before_9(self) -> str:
        """CUSTOM for payload classes that merge in their own way."""
        return CUSTOM if self._by_payload else self.mode

    @property
    def strategy_before_9(self) -> str:
        return PAYLOAD_STRATEGY if self._by_payload else _STRATEGIES[self.mode]

    @property
    def payload_before_9(self) -> str:
        return self.payload or _PAYLOADS[self.mode]

    @property
    def _by_payload(self) -> bool:
        return _simple_name(self.payload or "") in _CUSTOM_PAYLOADS


def replacement_of(payload: str) -> Replacement | None:
    """Returns the settings that replace a payload class in version 9; None for a class of the user's own."""
    return _REPLACEMENTS.get(_simple_name(payload))


def merges_in_its_own_way(payload: str) -> bool:
    """Returns whether a payload class is one of Apache Hudi's for which tables before version 9 have the mode
    CUSTOM."""
    return _simple_name(payload) in _CUSTOM_PAYLOADS


def strategy_of(mode: str) -> str:
    """Returns the id of the merger of a mode."""
    return _STRATEGIES.get(mode, PAYLOAD_STRATEGY)


def payload_for(
    mode: str, partial: str, ordering_fields: tuple[str, ...], deletes: tuple[str, str] | None
) -> str | None:
    """Returns the payload class by which tables before version 9 merge like one of version 9 with these settings; None
    if there is none."""
    if not partial:
        return _PAYLOADS.get(mode)
    for name, replacement in _REPLACEMENTS.items():
        if replacement.mode == mode and replacement.partial is not None and replacement.partial.value == partial:
            given = (replacement.ordering_fields or ordering_fields, replacement.deletes)
            if given == (ordering_fields, deletes):
                return next(own.value for own in Payload if _simple_name(own.value) == name)
    return None


def asked_mode(options: Options) -> str | None:
    """Returns the merge mode that the options name, or that of the strategy that they name."""
    return options.get(table_config.MERGE_MODE) or _MODES.get(options.get(table_config.MERGE_STRATEGY_ID) or "")


def _partial_mode(options: Options, version: int, replacement: Replacement | None) -> PartialUpdate | None:
    """Returns the partial update mode of a new table."""
    key, asked = table_config.PARTIAL_UPDATE_MODE.key, options.get(table_config.PARTIAL_UPDATE_MODE)
    if asked is not None and version < 9:
        raise ConfigError(
            f"Cannot create a table of version {version} with {key}={asked}, which tables have from "
            "version 9 on; give hoodie.datasource.write.payload.class, such as PartialUpdateAvroPayload"
        )
    implied = None if replacement is None else replacement.partial
    payload = options.get(table_config.PAYLOAD_CLASS) or ""
    if asked is not None and _simple_name(payload) in _CUSTOM_PAYLOADS and (implied is None or implied.value != asked):
        raise ConfigError(
            f"Cannot create a table with {key}={asked} and the payload class {payload}, which stands for "
            f"{implied.value if implied else 'none'}; leave one of them out"
        )
    partial = implied if asked is None else PartialUpdate(asked)
    partial = partial if version >= 9 else None
    if options.given(table_config.UNAVAILABLE_VALUE) and partial is not PartialUpdate.FILL_UNAVAILABLE:
        raise ConfigError(
            f"Cannot create a table with {table_config.UNAVAILABLE_VALUE.key}="
            f"{options.get(table_config.UNAVAILABLE_VALUE)} but without the partial update mode FILL_UNAVAILABLE, "
            f"which needs it; set {key}, in a table of version 9"
        )
    return partial


def _simple_name(payload: str) -> str:
    return payload.rpartition(".")[2]
