"""Changes the properties of a table for another version, step by step.

Sources: `TwoToThreeUpgradeHandler`, `FiveToSixUpgradeHandler`, 0.15.0; `SevenToEightUpgradeHandler`,
`EightToNineUpgradeHandler`, `NineToEightDowngradeHandler`, `EightToSevenDowngradeHandler`, 1.2.0. In Apache Hudi, every
step starts from the properties of the original table. Here, each step starts from the result of the step before, so one
call from 6 to 9 has the same result as two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.config import table as table_config
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.merge.settings import (
    COMMIT_TIME,
    CUSTOM,
    DELETE_FIELD,
    DELETE_MARKER,
    EVENT_TIME,
    PARTIAL_UPDATE_MODE,
    PAYLOAD_STRATEGY,
    PROPERTY_PREFIX,
    UNAVAILABLE_VALUE,
    PartialUpdate,
    Payload,
)
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.properties import LAYOUTS_OF_VERSION
from hudi_py.write.rows.keygen import KeyGeneratorType, infer_keygen_type, parse_keygen
from hudi_py.write.table.merging import merges_in_its_own_way, payload_for, replacement_of, strategy_of
from hudi_py.write.table.properties import stored_in

Changes = Mapping[str, str | None]
"""Properties to set; None removes the property."""

_VERSION: Final = "hoodie.table.version"
_LAYOUT: Final = "hoodie.timeline.layout.version"
_MODE: Final = "hoodie.record.merge.mode"
_STRATEGY: Final = "hoodie.record.merge.strategy.id"
_OLD_STRATEGY: Final = "hoodie.compaction.record.merger.strategy"
"""The key of releases before 1.0, which Apache Hudi writes beside the new one before version 9."""
_PAYLOAD: Final = "hoodie.compaction.payload.class"
_LEGACY_PAYLOAD: Final = "hoodie.table.legacy.payload.class"
_ORDERING: Final = "hoodie.table.ordering.fields"
_PRECOMBINE: Final = "hoodie.table.precombine.field"
_PARTITIONS: Final = "hoodie.table.partition.fields"
_KEYGEN_TYPE: Final = "hoodie.table.keygenerator.type"
_KEYGEN_CLASS: Final = "hoodie.table.keygenerator.class"
_KEYS: Final = "hoodie.table.recordkey.fields"
_METADATA: Final = "hoodie.table.metadata.partitions"
_METADATA_INFLIGHT: Final = "hoodie.table.metadata.partitions.inflight"
_INITIAL: Final = "hoodie.table.initial.version"
_FOLDER: Final = "hoodie.timeline.path"
_BOOTSTRAP_CLASS: Final = "hoodie.bootstrap.index.class"
_BOOTSTRAP_TYPE: Final = "hoodie.bootstrap.index.type"
_BOOTSTRAP_TYPES: Final[Mapping[str, str]] = {"HFileBootstrapIndex": "HFILE", "NoOpBootstrapIndex": "NO_OP"}
_METADATA_KEYGEN: Final = "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
_METADATA_KEYGEN_TYPE: Final = "HOODIE_TABLE_METADATA"
_DEFAULT: Final = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
_OVERWRITE: Final = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
_EVENT_TIME: Final = "org.apache.hudi.common.model.EventTimeAvroPayload"
_MERGE_PROPERTIES: Final = tuple(PROPERTY_PREFIX + key for key in (DELETE_FIELD, DELETE_MARKER, UNAVAILABLE_VALUE))
_KEPT: Final = frozenset({_PAYLOAD, _KEYGEN_CLASS, _PRECOMBINE, _ORDERING, _PARTITIONS, *_MERGE_PROPERTIES})
"""Keys whose change does not depend on the version alone, so that each step decides about them."""


def changed_properties(config: TableConfig, to: int, options: Options) -> dict[str, str | None]:
    """Returns the changes of the properties that bring a table to a version. The table may be a metadata table.

    Raises:
        ConfigError: an option that says what the properties do not is missing.
        UnsupportedTableError: the version cannot say how the table merges rows.
    """
    now = dict(config.properties)
    if config.layout == 0:  # files of layout 1 have the same names
        now[_LAYOUT] = "1"
    for source, target in steps(config.version, to):
        for key, value in _STEPS[source, target](TableConfig(now), options).items():
            if value is None:
                now.pop(key, None)
            else:
                now[key] = value
        now[_VERSION] = str(target)
    before = config.properties
    changes: dict[str, str | None] = {key: value for key, value in now.items() if before.get(key) != value}
    changes.update({key: None for key in before if key not in now})
    return dict(sorted(changes.items()))


def steps(version: int, to: int) -> list[tuple[int, int]]:
    """Returns the steps from a version to another one, each between neighbours."""
    low, high = sorted((version, to))
    path = [known for known in LAYOUTS_OF_VERSION if low <= known <= high]
    path = path if version <= to else path[::-1]
    return list(pairwise(path))


def check_keys(config: TableConfig, to: int, options: Options) -> None:
    """Refuses to take a table into or out of version 9 if its keys could have been written in two forms.

    Raises:
        ConfigError: it has the key generator COMPLEX with one key field, and the options do not say which form it has.
    """
    crosses = any(9 in step for step in steps(config.version, to))
    if not crosses or config.is_metadata_table or len(config.record_key_fields) != 1:
        return
    option = table_config.COMPLEX_NEW_ENCODING
    if _keygen_type(config) is KeyGeneratorType.COMPLEX and not options.given(option):
        raise ConfigError(
            f"Cannot change table '{config.name}' from version {config.version} to {to}: it has the key generator "
            f"COMPLEX with the single key field {config.record_key_fields[0]}, whose keys are 'field:value' in some "
            f"releases and the value in others, and writers of version 9 may take another form than its files have; "
            f"give {option.key}=true if its keys are values, or false if all its writers will keep 'field:value'",
            key=option.key,
        )


def _keygen_type(config: TableConfig) -> KeyGeneratorType | None:
    """Returns the key generator; None if it is not one of Apache Hudi's that can be written."""
    try:
        keygen = parse_keygen(config.keygen_type, config.keygen_class)
    except UnsupportedTableError:
        return None
    return keygen or infer_keygen_type(config.record_key_fields, config.typed_partition_fields)


def _two_to_three(config: TableConfig, options: Options) -> Changes:
    changes: dict[str, str | None] = {
        option.key: str(options.get(option)).lower()
        for option in (table_config.HIVE_STYLE, table_config.URL_ENCODE)
        if not config.properties.get(option.key)
    }
    if not config.keygen_type and not config.keygen_class:
        given = [options.get(option) for option in (table_config.KEYGEN_TYPE, table_config.KEYGEN_CLASS)]
        chosen = parse_keygen(*(text or "" for text in given))
        keygen = chosen or infer_keygen_type(config.record_key_fields, config.partition_fields)
        changes[_KEYGEN_CLASS] = keygen.java_class
    return changes


def _nothing_stored(config: TableConfig, options: Options) -> Changes:
    """Returns no changes: the versions differ in what releases do, or in the checksum, which each update writes."""
    return {}


def _five_to_six(config: TableConfig, options: Options) -> Changes:
    changes: dict[str, str | None] = {}
    if not config.record_key_fields:
        keys = options.get(table_config.RECORD_KEY)
        if not keys:
            raise ConfigError(
                f"Cannot upgrade table '{config.name}' to version 6: it does not store its record key; give "
                f"{table_config.RECORD_KEY.key}",
                key=table_config.RECORD_KEY.key,
            )
        changes[_KEYS] = ",".join(keys)
    return {**changes, _METADATA: None, _METADATA_INFLIGHT: None}


def _six_to_eight(config: TableConfig, options: Options) -> Changes:
    changes: dict[str, str | None] = {_LAYOUT: "2"}
    for key, value in ((_INITIAL, str(config.version)), (_FOLDER, "timeline")):
        if key not in config.properties:
            changes[key] = value
    if not config.keygen_type:
        changes[_KEYGEN_TYPE] = _type_of_keygen(config)
    bootstrap = config.properties.get(_BOOTSTRAP_CLASS, "").rpartition(".")[2]
    if bootstrap in _BOOTSTRAP_TYPES and _BOOTSTRAP_TYPE not in config.properties:
        changes[_BOOTSTRAP_TYPE] = _BOOTSTRAP_TYPES[bootstrap]
    if _keygen_type(config) is KeyGeneratorType.CUSTOM:
        changes[_PARTITIONS] = _typed_partitions(config, options)
    mode, payload = _merging_of_8(config)
    strategy = strategy_of(mode)
    return {**changes, _MODE: mode, _STRATEGY: strategy, _OLD_STRATEGY: strategy, _PAYLOAD: payload or None}


def _type_of_keygen(config: TableConfig) -> str:
    if config.is_metadata_table:
        return _METADATA_KEYGEN_TYPE
    keygen = _keygen_type(config)
    return "USER_PROVIDED" if keygen is None else keygen.value


def _typed_partitions(config: TableConfig, options: Options) -> str:
    """Returns the partition fields with their types, which version 6 does not store."""
    given = options.get(table_config.PARTITION_PATH)
    typed = given if all(":" in item for item in given) and given else config.typed_partition_fields
    names = tuple(field.split(":", 1)[0] for field in typed)
    if not all(":" in field for field in typed) or names != config.partition_fields:
        raise ConfigError(
            f"Cannot upgrade table '{config.name}' to version 8: it has the key generator CUSTOM, and versions before "
            f"8 do not store the types of its partition fields {','.join(config.partition_fields)}; give "
            f"{table_config.PARTITION_PATH.key}, such as {config.partition_fields[0]}:SIMPLE",
            key=table_config.PARTITION_PATH.key,
        )
    return ",".join(typed)


def _merging_of_8(config: TableConfig) -> tuple[str, str]:
    """Returns merge mode and payload class in version 8 for a table of version 6.

    Tables with logs and an ordering field compare it among log records, whatever the payload class, so they get event
    time, as in Apache Hudi. Apache Hudi also uses EventTimeAvroPayload for commit time without logs, which would change
    which row wins.
    """
    payload = config.payload_class
    if payload not in ("", _DEFAULT, _OVERWRITE, _EVENT_TIME):
        return CUSTOM, payload
    if not payload and config.merge_strategy_id == PAYLOAD_STRATEGY:
        return CUSTOM, payload
    if config.is_mor and config.ordering_fields:
        return EVENT_TIME, _DEFAULT
    return (COMMIT_TIME, _OVERWRITE) if payload == _OVERWRITE else (EVENT_TIME, _DEFAULT)


def _eight_to_nine(config: TableConfig, options: Options) -> Changes:
    if config.is_metadata_table:
        return {}
    payload = config.payload_class
    replacement = replacement_of(payload) if payload else None
    changes: dict[str, str | None] = {}
    if replacement is not None:
        changes |= {_MODE: replacement.mode, _LEGACY_PAYLOAD: payload, _PAYLOAD: None, _STRATEGY: None}
        if payload not in (_DEFAULT, _OVERWRITE, _EVENT_TIME):
            changes |= _merge_properties(payload)
        else:
            changes[_MODE] = config.merge_mode or replacement.mode
    elif config.merge_mode and config.merge_mode != CUSTOM:
        changes[_STRATEGY] = None
    if not merges_in_its_own_way(payload):
        field, marker = (options.get(option) for option in (read_config.DELETE_FIELD, read_config.DELETE_MARKER))
        if field and marker:
            changes |= {PROPERTY_PREFIX + DELETE_FIELD: field, PROPERTY_PREFIX + DELETE_MARKER: marker}
    ordering = replacement.ordering_fields if replacement is not None else ()
    ordering = ordering or config.ordering_fields
    if ordering:
        changes |= {_ORDERING: ",".join(ordering), _PRECOMBINE: None}
    return changes


def _merge_properties(payload: str) -> Changes:
    """Returns the properties that replace a payload class with its own way of merging in version 9, besides its
    mode."""
    replacement = replacement_of(payload)
    assert replacement is not None, payload
    changes: dict[str, str | None] = {}
    if replacement.partial is not None:
        changes[PARTIAL_UPDATE_MODE] = replacement.partial.value
    if replacement.partial is PartialUpdate.FILL_UNAVAILABLE:
        changes[PROPERTY_PREFIX + UNAVAILABLE_VALUE] = table_config.UNAVAILABLE_VALUE.default
    if replacement.deletes is not None:
        field, marker = replacement.deletes
        changes |= {PROPERTY_PREFIX + DELETE_FIELD: field, PROPERTY_PREFIX + DELETE_MARKER: marker}
    return changes


def _nine_to_eight(config: TableConfig, options: Options) -> Changes:
    if config.is_metadata_table:
        return {}
    gone = {key for key in config.properties if key not in stored_in(8) and key in stored_in(9)}
    changes: dict[str, str | None] = dict.fromkeys(gone - _KEPT)
    ordering = config.ordering_fields
    mode = config.merge_mode or (EVENT_TIME if ordering else COMMIT_TIME)
    if mode != CUSTOM:
        payload = _payload_of_8(config, mode)
        if merges_in_its_own_way(payload):
            mode = CUSTOM
            changes |= dict.fromkeys(_MERGE_PROPERTIES)
            sequence = Payload(payload).sequence_column
            ordering = (sequence,) if sequence is not None else ordering
        changes[_PAYLOAD] = payload
        changes |= {_MODE: mode, _STRATEGY: strategy_of(mode), _OLD_STRATEGY: strategy_of(mode)}
    if len(ordering) == 1:
        changes |= {_PRECOMBINE: ordering[0], _ORDERING: None}
    return changes


def _payload_of_8(config: TableConfig, mode: str) -> str:
    """Returns the payload class for a table of version 9 that merges by mode."""
    legacy = config.properties.get(_LEGACY_PAYLOAD, "").strip()
    if legacy:
        return legacy
    partial = config.properties.get(PARTIAL_UPDATE_MODE, "").strip().upper()
    deletes = tuple(config.properties.get(PROPERTY_PREFIX + key, "") for key in (DELETE_FIELD, DELETE_MARKER))
    payload = payload_for(mode, partial, config.ordering_fields, deletes if all(deletes) else None)  # type: ignore[arg-type]
    if payload is None:
        raise UnsupportedTableError(
            f"Cannot downgrade table '{config.name}' to version 8: it has {PARTIAL_UPDATE_MODE}={partial} with "
            f"{_MODE}={mode}, for which older versions have no payload class with the same ordering fields and marks "
            "of deletes; write its rows to a new table"
        )
    return payload


def _eight_to_six(config: TableConfig, options: Options) -> Changes:
    gone = {key for key in config.properties if key not in stored_in(6) and key in stored_in(8)}
    changes: dict[str, str | None] = dict.fromkeys(gone - _KEPT)
    changes[_LAYOUT] = "1"
    if config.merge_strategy_id:
        changes[_OLD_STRATEGY] = config.merge_strategy_id
    if not config.payload_class and config.merge_mode in (COMMIT_TIME, EVENT_TIME):
        changes[_PAYLOAD] = payload_for(config.merge_mode, "", (), None)
    if config.is_metadata_table:
        return {**changes, _KEYGEN_CLASS: _METADATA_KEYGEN}
    keygen = _keygen_type(config)
    if keygen is not None and not config.keygen_class:
        changes[_KEYGEN_CLASS] = keygen.java_class
    if keygen is KeyGeneratorType.CUSTOM:
        changes[_PARTITIONS] = ",".join(config.partition_fields)
    return changes


_STEPS: Final[Mapping[tuple[int, int], Callable[[TableConfig, Options], Changes]]] = {
    (2, 3): _two_to_three,
    (3, 4): _nothing_stored,
    (4, 5): _nothing_stored,
    (5, 6): _five_to_six,
    (6, 8): _six_to_eight,
    (8, 9): _eight_to_nine,
    (9, 8): _nine_to_eight,
    (8, 6): _eight_to_six,
}
