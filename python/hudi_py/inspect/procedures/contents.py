"""The procedures that show contents or fate of files: instants as JSON, data files that are not Parquet, deleted files,
the files that a table was bootstrapped from, and what folders hold, whether of a table or not
(`ExportInstantsProcedure`, `ShowInvalidParquetProcedure`, `ShowFileStatusProcedure`, `ShowBootstrapMappingProcedure`,
`ShowBootstrapPartitionsProcedure`, `ShowFsPathDetailProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

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
from hudi_py.schema.patterns import matching_paths
from hudi_py.storage import FileInfo, Storage, plain_uri
from hudi_py.storage.tree import list_folders
from hudi_py.timeline.records import decode_record, is_container
from hudi_py.view.bootstrap import BootstrapMapping, bootstrap_mappings, has_bootstrap_index

_WILDCARDS: Final = frozenset("*?[{\\")
_UNITS: Final = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_NO_QUOTA: Final = -1
"""What Hadoop's file systems without quotas answer."""


class _Content(NamedTuple):
    num_folders: int
    num_files: int
    num_bytes: int


def _path_details(opened: Opened, given: Given) -> Rows:
    """Lists the paths that a path or glob matches, or the children of a path, with the size of what is below them: the
    largest first, or those with the most files.

    Raises:
        ConfigError: there is nothing at a path.
    """
    needed_text(given, "path")
    base, pattern = _parted(opened)
    if given["is_sub"] and pattern:
        raise ConfigError(
            f"Cannot show the paths below {opened.path}: is_sub => true takes no wildcards; add /* to the path instead"
        )
    entries = base.storage.list("") if given["is_sub"] else list(_matched(base, pattern))
    if not entries and not pattern:
        raise ConfigError(f"Cannot show {opened.path}: there is no such file or folder, or nothing in it")
    contents = [(_content(base.storage, entry), shown_path(base, entry.path)) for entry in entries]
    contents.sort(key=lambda entry: entry[0].num_bytes if given["sort"] else entry[0].num_files, reverse=True)
    for content, path in contents[: limited(given)]:
        size = content.num_bytes
        yield (content.num_folders, content.num_files, size, _size_text(size), path, size, _NO_QUOTA, _NO_QUOTA)


def _parted(opened: Opened) -> tuple[Opened, str]:
    """Splits a glob into the folder above its first wildcard, and the rest."""
    parts = opened.path.rstrip("/").split("/")
    first = next((place for place, part in enumerate(parts) if not _WILDCARDS.isdisjoint(part)), len(parts))
    base = "/".join(parts[:first]) or "/"
    return Opened(base, opened.options), "/".join(parts[first:])


def _matched(base: Opened, pattern: str) -> Iterator[FileInfo]:
    """Yields the files and folders that a glob matches; without one, the folder itself if it exists."""
    if not pattern:
        root = base.storage.stat("")
        if root is not None or base.storage.list(""):
            yield FileInfo("", 0 if root is None or root.is_dir else root.size, 0, root is None or root.is_dir)
        return
    parts, matched = pattern.split("/"), [FileInfo("", 0, 0, True)]
    for part in parts:
        below = [info for folder in matched if folder.is_dir for info in base.storage.list(folder.path)]
        matching = set(matching_paths(part, [info.name for info in below], "path"))
        matched = [info for info in below if info.name in matching]
    yield from matched


def _content(storage: Storage, entry: FileInfo) -> _Content:
    """Counts what is at and below an entry; a folder counts itself."""
    if not entry.is_dir:
        return _Content(0, 1, entry.size)
    if not storage.is_local:  # one listing instead of one for each folder; there are no empty folders
        files = list(storage.walk(entry.path))
        folders = {entry.path} | {above for info in files for above in _folders_of(info.path, entry.path)}
        return _Content(len(folders), len(files), sum(info.size for info in files))
    tree = [
        children
        for _, children in list_folders(
            storage, lambda _, children: [info.path for info in children if info.is_dir], entry.path
        )
    ]
    sizes = [info.size for children in tree for info in children if not info.is_dir]
    return _Content(len(tree), len(sizes), sum(sizes))


def _folders_of(path: str, top: str) -> Iterator[str]:
    """Yields the folders of a file below the top one."""
    folder = path.rpartition("/")[0]
    while len(folder) > len(top):
        yield folder
        folder = folder.rpartition("/")[0]


def _size_text(size: int) -> str:
    """Formats a size as Java's floats and DecimalFormat("0.00") do."""
    for unit, name in _UNITS:
        if size >= unit:
            ratio = Decimal(float(np.float32(size) / np.float32(unit)))
            return f"{ratio.quantize(Decimal('0.01'), ROUND_HALF_EVEN)}{name}"
    return f"{size}B"


_FOLDER_COLUMNS: Final = pa.schema(
    [
        *columns("path_num long, file_num long, storage_size long"),
        pa.field("storage_size(unit)", pa.string()),
        *columns("storage_path text, space_consumed long, quota long, space_quota long"),
    ]
)
_FOLDERS: Final = {
    "show_fs_path_detail": Shown(
        {"path": None, "is_sub": False, "sort": True, "limit": 100, "filter": ""}, _FOLDER_COLUMNS, _path_details
    ),
}


def _show_mapping(table: Opened, given: Given) -> Rows:
    """Lists file groups and their source files.

    Raises:
        ConfigError: file ids without a partition, a partition that the index does not have, or no such column.
    """
    partition, ids = text_of(given, "partition_path"), text_of(given, "file_ids")
    by, limit = text_of(given, "sort_by"), limited(given)
    if ids and not partition:
        raise ConfigError(
            f"Cannot show the bootstrap mapping of {table.storage.uri} for the file_ids {ids}: they are looked up in a "
            "partition; give partition_path => '...'"
        )
    if by not in _BOOTSTRAP_MAPPING.names:
        raise ConfigError(
            f"Cannot sort the bootstrap mapping of {table.storage.uri} by '{by}'; supported: "
            f"{', '.join(_BOOTSTRAP_MAPPING.names)}"
        )
    mappings = _indexed_mappings(table)
    if partition and all(item.partition != partition for item in mappings):
        known = ", ".join(sorted({item.partition for item in mappings}))
        raise ConfigError(
            f"Cannot show the bootstrap mapping of {table.storage.uri} for the partition '{partition}': its index does "
            f"not have it; it has: {known}"
        )
    wanted = {part.strip() for part in ids.split(",")}
    rows = [
        (item.partition, item.file_id, item.source_base, item.source_partition, item.source)
        for item in mappings
        if (not partition or item.partition == partition) and (not ids or item.file_id in wanted)
    ]
    index = _BOOTSTRAP_MAPPING.names.index(by)
    rows.sort(key=lambda row: str(row[index]), reverse=bool(given["desc"]))
    return rows[: max(limit, 0)]


def _show_partitions(table: Opened, given: Given) -> Rows:
    """Lists the partitions in the bootstrap index, in its order."""
    return [(item,) for item in dict.fromkeys(item.partition for item in _indexed_mappings(table))]


def _indexed_mappings(table: Opened) -> list[BootstrapMapping]:
    if not has_bootstrap_index(table.storage, table.config):
        raise ConfigError(
            f"Cannot show the bootstrap index of {table.storage.uri}: the table was not bootstrapped, or without an "
            "index (hoodie.bootstrap.base.path, hoodie.bootstrap.index.enable); only bootstrapped tables are supported"
        )
    return list(bootstrap_mappings(table.storage))


_BOOTSTRAP_MAPPING: Final = columns(
    "partition text, file_id text, source_base_path text, source_partition text, source_file text"
)
_BOOTSTRAP: Final = {
    "show_bootstrap_mapping": Shown(
        {
            "table": None,
            "path": None,
            "partition_path": "",
            "file_ids": "",
            "limit": 10,
            "sort_by": "partition",
            "desc": False,
            "filter": "",
        },
        _BOOTSTRAP_MAPPING,
        _show_mapping,
    ),
    "show_bootstrap_partitions": Shown(
        {"table": None, "path": None, "filter": ""}, columns("indexed_partitions text"), _show_partitions
    ),
}


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
    **_BOOTSTRAP,
    **_FOLDERS,
}
