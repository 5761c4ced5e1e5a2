"""The procedures that show contents or fate of files: instants as JSON, data files that are not Parquet, and deleted
files (`ExportInstantsProcedure`, `ShowInvalidParquetProcedure`, `ShowFileStatusProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from hudi_py.errors import ConfigError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.base.files import read_footer
from hudi_py.inspect.procedures.actions import TimelineEntry, active_entries, archived_entries
from hudi_py.inspect.procedures.shown import (
    Given,
    Opened,
    Rows,
    Shown,
    columns,
    data_files,
    limited,
    lister,
    needed_text,
    shown_path,
    text_of,
    texts_of,
)
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.storage import plain_uri
from hudi_py.timeline.records import decode_record, is_container

EXPORTED: Final = "clean,commit,deltacommit,rollback,savepoint,restore"
_PARQUET: Final = ".parquet"


def _export_instants(table: Opened, given: Given) -> Rows:
    """Lists name and content of the completed instants of some actions, oldest first, archived ones included.

    Raises:
        ConfigError: there is no such action.
    """
    known = {item.value: item for item in Action}
    names = [part.strip() for part in text_of(given, "actions").split(",") if part.strip()]
    for name in names:
        if name not in known:
            raise ConfigError(f"Cannot export instants of the action '{name}'; actions are {', '.join(known)}")
    actions = [known[name] for name in names]
    entries = [*archived_entries(table, *actions), *active_entries(table, *actions)]
    entries = [entry for entry in entries if entry.completed]
    entries.sort(key=lambda entry: entry.time, reverse=bool(given["desc"]))
    limit = limited(given)
    for entry in entries if limit < 0 else entries[:limit]:
        yield entry.file_name, _content_json(entry)


def _content_json(entry: TimelineEntry) -> str:
    """Returns the content of a completed instant as JSON, whatever its stored format."""
    data = entry.content() or b""
    if data and not is_container(data):
        return data.decode()
    record = decode_record(data, entry.described) if data else {}
    return json.dumps(record, indent=2, default=_plain_value, ensure_ascii=False)


def _plain_value(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _invalid_parquet(table: Opened, given: Given) -> Rows:
    """Lists the paths of files that cannot be opened as Parquet, by partition and name.

    Raises:
        ConfigError: the call asks to delete them.
    """
    if given["needDelete"]:
        raise ConfigError(
            f"Cannot delete files of {table.storage.uri}: needDelete => true is not supported; call the procedure "
            "without it, and see hudi-py doctor, which knows which of the files are needed"
        )
    paths = texts_of(given, "partitions")
    partitions = [path for path in lister(table).partitions() if not paths or path in paths]
    rows = ((shown_path(table, file),) for path in partitions for file in _parquet_files(table, path, given))
    return islice(rows, limited(given))


def _parquet_files(table: Opened, path: PartitionPath, given: Given) -> Iterator[str]:
    instants = texts_of(given, "instants")
    for instant, info in data_files(table, path):
        if info.name.endswith(_PARQUET) and (not instants or instant in instants):
            try:
                read_footer(table.storage, info.path)
            except (CorruptFileError, UnsupportedTableError):
                yield info.path
            except FileNotFoundError:  # deleted since the listing
                continue


def _file_status(table: Opened, given: Given) -> Rows:
    """Finds the action that deleted a file: cleans first, then rollbacks, then restores, the newest of each.

    Raises:
        ConfigError: the partition of a partitioned table is missing.
    """
    name, partition = needed_text(given, "file"), text_of(given, "partition").strip("/")
    if table.config.partition_fields and not partition:
        raise ConfigError(
            f"Cannot show the status of the file {name} of {table.storage.uri}: the table is partitioned; give "
            "partition => '...'"
        )
    for action in (Action.CLEAN, Action.ROLLBACK, Action.RESTORE):
        for entry in (*active_entries(table, action), *archived_entries(table, action)):
            if entry.completed and any(name in file for file in _deleted_files(entry.result())):
                yield "deleted", action.value, entry.time, "archived" if entry.archived else "active", ""
                return
    if table.storage.stat(join_path(partition, name)) is None:
        yield "unknown", "", "", "", ""
    else:
        path = shown_path(table, join_path(partition, name))
        yield "exist", "", "", "active", plain_uri(path)


def _deleted_files(record: Mapping[str, Any]) -> Iterator[str]:
    """Yields the files that a clean, rollback or restore deleted."""
    undone = (rollback for rollbacks in (record.get("hoodieRestoreMetadata") or {}).values() for rollback in rollbacks)
    for one in (record, *undone):
        for partition in (one.get("partitionMetadata") or {}).values():
            yield from partition.get("successDeleteFiles") or ()


PROCEDURES: Final = {
    "export_instants": Shown(
        {"table": None, "local_folder": None, "limit": -1, "actions": EXPORTED, "desc": False},
        columns("file_name text, content text"),
        _export_instants,
    ),
    "show_file_status": Shown(
        {"table": None, "path": None, "partition": None, "file": None, "filter": ""},
        columns("status text, action text, instant text, timeline text, full_path text"),
        _file_status,
    ),
    "show_invalid_parquet": Shown(
        {
            "path": None,
            "parallelism": 100,
            "limit": 100,
            "needDelete": False,
            "partitions": "",
            "instants": "",
            "filter": "",
        },
        columns("path text"),
        _invalid_parquet,
    ),
}
