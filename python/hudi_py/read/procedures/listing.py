"""Files of a table, as procedures choose and name them."""

from __future__ import annotations

from collections.abc import Iterator

from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.read.procedures.shown import Opened
from hudi_py.schema.patterns import matching_paths
from hudi_py.storage import FileInfo
from hudi_py.view.lister import StorageLister

EVERYWHERE = "ALL_PARTITIONS"
"""Value of `path_regex` for all partitions."""
_LOCAL = "file://"


def lister(table: Opened) -> StorageLister:
    """Return the lister of the files in storage."""
    return StorageLister(table.storage, table.config)


def chosen_partitions(table: Opened, pattern: str) -> list[PartitionPath]:
    """The partitions whose paths match, a folder at a time, as a glob of Hadoop: `2026/*/0[1-9]`. All of them if it is
    empty or `ALL_PARTITIONS`."""
    found = lister(table).partitions()
    if pattern.strip("/") in ("", EVERYWHERE):
        return found
    return [PartitionPath(path) for path in matching_paths(pattern.strip("/"), found, "path_regex")]


def data_files(table: Opened, partition: PartitionPath) -> Iterator[tuple[str, FileInfo]]:
    """The base and log files in a partition's folder, with the instants in their names."""
    for info in lister(table).files(partition):
        name = parse_base_file_name(info.name) or parse_log_file_name(info.name)
        if name is not None:
            yield name.instant, info


def shown_path(table: Opened, path: str) -> str:
    """An absolute path as Apache Hudi shows it: `file:/tables/t/a`."""
    uri = table.storage.uri
    if uri.startswith(f"{_LOCAL}/"):
        uri = f"file:{uri[len(_LOCAL) :]}"
    elif uri.startswith("/"):
        uri = f"file:{uri}"
    return f"{uri}/{path}" if path else uri


def below(table: Opened, path: str) -> str | None:
    """A path or glob relative to the table's; None: it is elsewhere."""
    for base in {shown_path(table, ""), table.storage.uri, *_plain(table.storage.uri), *_plain(table.path)}:
        if path.startswith(f"{base.rstrip('/')}/"):
            return path[len(base.rstrip("/")) + 1 :]
    return None if path.startswith("/") or ":/" in path else path


def _plain(uri: str) -> tuple[str, ...]:
    """A local path without its scheme."""
    return (uri.removeprefix(_LOCAL),) if uri.startswith((_LOCAL, "/")) else ()
