"""Reads, creates and updates `.hoodie/hoodie.properties`, which other processes may update at the same time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import NamedTuple

from hudi_py.errors import ConflictError, CorruptFileError, Remedy, TableNotFoundError, UnsupportedTableError
from hudi_py.model.layout import (
    ARCHIVE,
    AUXILIARY,
    BACKUP,
    MARKERS,
    META_FOLDER,
    OLD_ARCHIVE,
    PROPERTIES,
    SCHEMAS,
    TIMELINE,
)
from hudi_py.model.properties import (
    CHECKSUM,
    NAME,
    TableConfig,
    checksum,
    damaged_keys,
    format_properties,
    invalid_properties,
    parse_properties,
)
from hudi_py.storage import Storage

LAYOUTS_OF_VERSION = {2: (0, 1), 3: (0, 1), 4: (0, 1), 5: (0, 1), 6: (0, 1), 8: (2,), 9: (2,)}
"""Readable table versions, and the timeline layouts that each may have."""
WRITABLE_VERSIONS = (6, 8, 9)
_UPGRADE = Remedy("Table.upgrade()", cli="`hudi-py upgrade PATH`", sql="CALL upgrade_table")
_READS = 5
_PAUSE_SECONDS = 0.1


def load_table_config(storage: Storage) -> TableConfig:
    """Loads the table's properties; during an update, from the backup.

    Raises:
        TableNotFoundError: neither file exists.
        CorruptFileError: neither file is valid, or a key is damaged.
        UnsupportedTableError: the table version is not one of 2 to 6, 8 and 9, does not match the timeline layout, or
            a property has an unknown value.
    """
    content = _read(storage)
    config = TableConfig(dict(content.values))
    _check_keys(storage, content.damaged)
    _check_version(storage, config)
    _check_values(storage, config, content.invalid)
    return config


def create_table_config(storage: Storage, properties: Mapping[str, str]) -> bool:
    """Writes the properties of a new table, with their checksum; False if there is a table already."""
    if storage.stat(BACKUP) is not None:
        _recover(storage)
    text = format_properties(properties, _comment("Properties saved on"))
    created = storage.put_if_absent(PROPERTIES, text.encode("ascii"))
    storage.sync()
    return created


def make_table_folders(storage: Storage, properties: Mapping[str, str]) -> None:
    """Creates the folders that Java lists and expects to exist in a new table with these properties."""
    archive = f"{TIMELINE}/{ARCHIVE}" if properties["hoodie.timeline.layout.version"] == "2" else OLD_ARCHIVE
    for folder in (AUXILIARY, MARKERS, SCHEMAS, archive):
        # a storage creates a folder with its first file
        seed = f"{folder}/.hudi_py-init.tmp"
        storage.put(seed, b"")
        storage.delete(seed)


def update_table_config(storage: Storage, changes: Mapping[str, str | None]) -> TableConfig:
    """Sets keys, and removes those whose value is None; the caller must hold the table lock.

    The order of steps is Apache Hudi's (`HoodieTableConfig.modify`, 1.2.0): readers find a valid file at any time, and
    after a crash the next reader or writer continues with the old or the new properties.

    Raises:
        TableNotFoundError: there is no table.
        ConflictError: another process is updating the file.
        CorruptFileError: the file read back differs from the one written.
    """
    _recover(storage)
    before = _read(storage).values
    after = {key: value for key, value in before.items() if key not in changes}
    after.update({key: value for key, value in changes.items() if value is not None})
    if after == before:
        return load_table_config(storage)
    text = format_properties(after, _comment("Updated at")).encode("ascii")
    if not storage.put_if_absent(BACKUP, storage.read(PROPERTIES)):
        raise ConflictError(
            f"Cannot update the properties of the table at {storage.uri}: {BACKUP} appeared, so another process is "
            "updating them; acquire the table lock, then try again"
        )
    storage.delete(PROPERTIES)
    storage.put(PROPERTIES, text)
    if parse_properties(storage.read(PROPERTIES).decode("latin-1")).get(CHECKSUM) != str(checksum(after)):
        raise CorruptFileError(
            f"The properties just written to {storage.uri}/{PROPERTIES} read back with another checksum; {BACKUP} "
            "has the previous ones"
        )
    storage.delete(BACKUP)
    storage.sync()
    return load_table_config(storage)


_OF_PARTITION = frozenset("*?[{=")
"""Characters of wildcards, and of partitions such as city=oslo."""


def _read(storage: Storage) -> _Properties:
    seen = False
    for attempt in range(_READS):
        for path in (PROPERTIES, BACKUP):
            try:
                return _parse(storage.read(path))
            except FileNotFoundError:
                continue
            except CorruptFileError:
                seen = True
        if not seen and not storage.list(META_FOLDER):
            break
        if attempt < _READS - 1:
            # An update may have switched from one file to the other between the two reads
            time.sleep(_PAUSE_SECONDS)
    if seen:
        raise CorruptFileError(
            f"Cannot read the properties of the table at {storage.uri}: neither {PROPERTIES} nor its backup is valid "
            f"(expected a table name and a matching {CHECKSUM}); restore one of them"
        )
    raise TableNotFoundError(f"No Hudi table at {storage.uri}: {PROPERTIES} is missing; {_advice(storage.uri)}")


def _advice(uri: str) -> str:
    """Returns advice for a path without a table: older releases of Apache Hudi accepted partition paths with
    wildcards."""
    parts = uri.split("/")
    first = next((index for index, part in enumerate(parts) if not _OF_PARTITION.isdisjoint(part)), 0)
    if first == 0:
        return "check the path, or create the table first"
    return (
        f"give the base path of the table, as {'/'.join(parts[:first])} seems to be, and choose partitions by a "
        "filter: wildcards and partitions in paths are not taken"
    )


class _Properties(NamedTuple):
    """The content of a properties file, and its problems."""

    values: Mapping[str, str]
    damaged: Mapping[str, str]
    """See `damaged_keys`."""
    invalid: Mapping[str, tuple[str, ...]]
    """See `invalid_properties`."""


@lru_cache(maxsize=64)  # each action reads the same properties several times
def _parse(data: bytes) -> _Properties:
    properties = parse_properties(data.decode("latin-1"))
    stored = properties.get(CHECKSUM)
    if not properties.get(NAME) or (stored is not None and stored.strip() != str(checksum(properties))):
        raise CorruptFileError("no table name, or a checksum that does not match")
    return _Properties(properties, damaged_keys(properties), invalid_properties(properties))


def _recover(storage: Storage) -> None:
    """Completes an interrupted update, so that the main file is valid and there is no backup."""
    try:
        _parse(storage.read(PROPERTIES))
    except (FileNotFoundError, CorruptFileError):
        try:
            data = storage.read(BACKUP)
            _parse(data)
        except (FileNotFoundError, CorruptFileError):
            return
        storage.put(PROPERTIES, data)
    storage.delete(BACKUP)


def only_read(config: TableConfig) -> bool:
    """Returns whether a table must be upgraded before it is written."""
    return config.version not in WRITABLE_VERSIONS or config.layout == 0


def check_writable(config: TableConfig) -> None:
    """Raises UnsupportedTableError for tables that can only be read: older versions, timeline layout 0."""
    if only_read(config):
        raise UnsupportedTableError(
            f"Cannot write to table '{config.name}': it has hoodie.table.version={config.version} and timeline layout "
            f"{config.layout}; versions 6 (layout 1), 8 and 9 (layout 2) can be written, older ones only read; upgrade "
            f"it with {_UPGRADE}",
            remedies=(_UPGRADE,),
        )


def _check_version(storage: Storage, config: TableConfig) -> None:
    supported = "2 to 6 (timeline layouts 0 and 1), 8 and 9 (timeline layout 2)"
    layouts = LAYOUTS_OF_VERSION.get(config.version)
    if layouts is None:
        version = config.properties.get("hoodie.table.version", "none (releases before 0.6 did not write it)")
        raise UnsupportedTableError(
            f"Cannot open the table at {storage.uri}: it has hoodie.table.version={version}; supported: {supported}; "
            "upgrade or downgrade it with a release of Apache Hudi that reads it (before 2: one from 0.9 to 0.15)"
        )
    if config.layout not in layouts:
        raise UnsupportedTableError(
            f"Cannot open the table at {storage.uri}: it has hoodie.table.version={config.version} with "
            f"hoodie.timeline.layout.version={config.layout}; supported: {supported}; repair or upgrade it with "
            "Apache Hudi"
        )


def _check_keys(storage: Storage, damaged: Mapping[str, str]) -> None:
    if damaged:
        key, known = min(damaged.items())
        raise CorruptFileError(
            f"Cannot open the table at {storage.uri}: {PROPERTIES} has the unknown key {key!r}, which differs from "
            f"{known} in one character, and has no {known}; correct the file",
            path=PROPERTIES,
            key=key,
            expected=known,
        )


def _check_values(storage: Storage, config: TableConfig, invalid: Mapping[str, tuple[str, ...]]) -> None:
    if invalid:
        problems = "; and ".join(
            f"{key}={value if value and value == value.strip() else repr(value)}; supported: {', '.join(choices)}"
            for key, choices in invalid.items()
            for value in (config.properties[key],)
        )
        raise UnsupportedTableError(
            f"Cannot open the table at {storage.uri}: it has {problems}; correct {PROPERTIES} if the value is wrong"
        )


def _comment(text: str) -> str:
    """Formats the two comment lines that Java's `Properties.store` and Hudi write."""
    now = datetime.now(timezone.utc)
    return f"{text} {now.isoformat().replace('+00:00', 'Z')}\n#{now.strftime('%a %b %d %H:%M:%S UTC %Y')}"
