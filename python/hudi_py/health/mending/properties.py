"""Rewrites `hoodie.properties`, using only what the table's own files prove."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hudi_py.config import Option, Options
from hudi_py.config import table as config
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.health.properties import read_properties
from hudi_py.model.instant import Action
from hudi_py.model.layout import META_FOLDER, METADATA_TABLE, PROPERTIES, TIMELINE
from hudi_py.model.limits import parse_json
from hudi_py.model.names import join_path
from hudi_py.model.properties import CHECKSUM, NAME, TableConfig, checksum, damaged_keys, format_properties
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import decode_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.write.table.properties import table_properties

_METADATA_PROPERTIES: Final = f"{METADATA_TABLE}/{PROPERTIES}"
_ESSENTIAL: Final = frozenset(("hoodie.table.version", "hoodie.table.type", "hoodie.timeline.layout.version"))
"""Keys whose absence means that the file was truncated."""
_SUFFIX: Final = "_metadata"
_RECORD: Final = "_record"


def rebuilt_properties(storage: Storage, options: Options) -> dict[str, str]:
    """Returns the properties with damaged keys corrected, or with the checksum of a proven table name. If the file is
    missing: what timeline, folders and metadata table prove, plus options that are stored nowhere else.

    Args:
        options: of a write; `hoodie.datasource.write.recordkey.field` and the others that make a table.

    Raises:
        ConfigError: a property cannot be proved and is not given; names it.
    """
    properties, problem = read_properties(storage, PROPERTIES)
    if properties is None or (problem and not properties.keys() >= _ESSENTIAL):
        return _from_files(storage, options)
    if problem:
        names = set(_proved_names(storage))
        if properties.get(NAME) not in names and len(names) != 1:
            raise _unproved_error(
                storage, NAME, "neither the metadata table nor the schema of a commit names the table"
            )
        if properties.get(NAME) not in names:
            properties[NAME] = names.pop()
        properties[CHECKSUM] = str(checksum(properties))
    for key, known in damaged_keys(properties).items():
        value = properties.pop(key)
        if not value:  # the sign after the key was damaged too, so the value may be incomplete
            raise _unproved_error(storage, known, f"the value of {key!r} is empty")
        properties[known] = value
    return properties


def write_properties(storage: Storage, properties: Mapping[str, str]) -> None:
    """Writes the properties, and reads them back.

    Raises:
        HudiError: the table cannot be opened with them.
    """
    storage.put(PROPERTIES, format_properties(properties, "Restored by a repair").encode("ascii"))
    load_table_config(storage)


def _from_files(storage: Storage, options: Options) -> dict[str, str]:
    own, problem = read_properties(storage, _METADATA_PROPERTIES)
    known: dict[Option[Any], str] = {}
    if own is not None and not problem:
        own_config = TableConfig(own)
        known[config.TABLE_NAME] = own_config.name.removesuffix(_SUFFIX)
        known[config.TABLE_VERSION] = str(own_config.version)
    elif not options.given(config.TABLE_VERSION) or not options.given(config.TABLE_NAME):
        why = "the metadata table has no properties; give hoodie.table.name and hoodie.write.table.version"
        raise _unproved_error(storage, "hoodie.table.version", why)
    folders = [info for info in storage.list("") if info.is_dir and info.name != META_FOLDER]
    if folders:
        known[config.HIVE_STYLE] = "true" if all("=" in info.name for info in folders) else "false"
    else:
        known[config.PARTITION_PATH] = ""
    made = options.without(config.HIVE_STYLE).replace(known)
    for key, option in (
        ("hoodie.table.recordkey.fields", config.RECORD_KEY),
        ("hoodie.table.partition.fields", config.PARTITION_PATH),
        ("hoodie.table.ordering.fields", config.ORDERING),
    ):
        if not made.given(option):
            why = f"no file names these columns; give the option {option.key}, empty for none"
            raise _unproved_error(storage, key, why)
    version = TableConfig({"hoodie.table.version": str(made.get(config.TABLE_VERSION))})
    made = made.replace({config.TABLE_TYPE: _table_type(load_timeline(storage, version))})
    properties = table_properties(made)
    built = [
        info.name
        for info in storage.list(METADATA_TABLE)
        if info.is_dir and info.name != META_FOLDER and storage.list(info.path)
    ]
    return properties | ({"hoodie.table.metadata.partitions": ",".join(sorted(built))} if built else {})


def _table_type(timeline: Timeline) -> str:
    actions = {instant.action for instant in timeline.instants}
    return "MERGE_ON_READ" if actions & {Action.DELTA_COMMIT, Action.COMPACTION} else "COPY_ON_WRITE"


def _proved_names(storage: Storage) -> Iterator[str]:
    """Yields the table's names according to its metadata table and the schemas of its commits."""
    own, problem = read_properties(storage, _METADATA_PROPERTIES)
    if own is not None and not problem and own[NAME].endswith(_SUFFIX):
        yield own[NAME].removesuffix(_SUFFIX)
        return
    for folder, layout in ((META_FOLDER, Layout(1, "")), (TIMELINE, Layout(2, ""))):
        for info in storage.list(folder):
            instant = None if info.is_dir else layout.parse(info.name)
            if instant is None or not instant.completed:
                continue
            name = _record_name(storage, join_path(folder, info.name))
            if name:
                yield name


def _record_name(storage: Storage, path: str) -> str:
    """Returns the table's name in the Avro schema of a commit: records are called `<table>_record`."""
    try:
        schema: Any = parse_json(decode_commit_metadata(storage.read(path)).extra.get("schema", "null"))
    except (CorruptFileError, ValueError):
        return ""
    name = schema.get("name", "") if isinstance(schema, dict) else ""
    return str(name).removesuffix(_RECORD) if str(name).endswith(_RECORD) else ""


def _unproved_error(storage: Storage, key: str, why: str) -> ConfigError:
    return ConfigError(
        f"Cannot write {PROPERTIES} of {storage.uri} again: nothing proves {key}: {why}; restore the file from a copy, "
        "or write it by hand",
        key=key,
        path=PROPERTIES,
    )
