"""Reads the bootstrap index (`.hoodie/.aux/.bootstrap`).

A METADATA_ONLY bootstrap writes base files with only the meta columns, at the instant `00000000000001`, and an index
that names the source file of each. Source: `HFileBootstrapIndex`, `BootstrapBaseFileMapping` (1.2.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.hfile import open_hfile
from hudi_py.model.files import BaseFile, SourceFile
from hudi_py.model.layout import BOOTSTRAP_INDEX
from hudi_py.model.names import BaseFileName, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.timeline.records import decode_record
from hudi_py.timeline.state import BootstrapIndexes, BootstrapSources

BASE_PATH = "hoodie.bootstrap.base.path"
METADATA_INSTANT = "00000000000001"
"""Base files of this instant are skeletons (`HoodieTimeline.METADATA_BOOTSTRAP_INSTANT_TS`)."""
FULL_INSTANT = "00000000000002"
"""Files of this instant have the rows of a FULL_RECORD bootstrap (`HoodieTimeline.FULL_BOOTSTRAP_INSTANT_TS`)."""
INDEX_INFO = "INDEX_INFO"
"""Key in the index's file info: the `HoodieBootstrapIndexInfo`."""
_INDEX_CLASSES = frozenset(("", "HFileBootstrapIndex"))
_INDEX_TYPES = frozenset(("", "HFILE"))
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_LOCAL = ("file", "")
_OPTION = "hoodie.py.read.bootstrap.sources"


@dataclass(frozen=True, slots=True)
class BootstrapMapping:
    """Maps a file group of a METADATA_ONLY bootstrap to its source file (`BootstrapFileMapping`, 1.2.0)."""

    partition: str
    file_id: str
    source_base: str
    """Base path of the source, as stored in the index."""
    source_partition: str
    """Path of the source file's folder below `source_base`."""
    source: str
    """URI of the source file."""
    size: int | None
    """Bytes of the source file when it was bootstrapped, if the index says."""


def load_bootstrap_sources(
    storage: Storage, config: TableConfig, known: BootstrapIndexes | None = None
) -> BootstrapSources:
    """Returns the source file of each file group of a METADATA_ONLY bootstrap; empty if it has none.

    Args:
        known: indexes that were read before; those that are read now are added.

    Raises:
        UnsupportedTableError: the table has an index of another kind.
        CorruptFileError: the index cannot be read.
    """
    if not has_bootstrap_index(storage, config):
        return {}
    known = {} if known is None else known
    sources: dict[tuple[str, str], SourceFile] = {}
    for info in _index_files(storage):
        if info not in known:
            mappings = _mappings_of(storage, info)
            known[info] = {
                (mapping.partition, mapping.file_id): SourceFile(mapping.source, mapping.size) for mapping in mappings
            }
        sources.update(known[info])
    return sources


def base_file_in(sources: BootstrapSources, partition: PartitionPath, name: BaseFileName, size: int) -> BaseFile:
    """Returns a base file of `size` bytes; a skeleton has the file with its rows, if `sources` name it."""
    skeleton = name.instant == METADATA_INSTANT
    return BaseFile(partition, name, size, sources.get((partition, name.file_id)) if skeleton else None)


def has_bootstrap_index(storage: Storage, config: TableConfig) -> bool:
    """Returns whether the table was bootstrapped and its index is in use.

    Raises:
        UnsupportedTableError: the table has an index of another kind.
    """
    properties = config.properties
    if not properties.get(BASE_PATH, "").strip():
        return False
    name = properties.get("hoodie.bootstrap.index.class", "").strip()
    kind = properties.get("hoodie.bootstrap.index.type", "").strip().upper()
    enabled = properties.get("hoodie.bootstrap.index.enable", "true").strip().lower() != "false"
    if not enabled or name.endswith(".NoOpBootstrapIndex") or kind == "NO_OP":
        return False
    if name.rpartition(".")[2] not in _INDEX_CLASSES or kind not in _INDEX_TYPES:
        raise UnsupportedTableError(
            f"Table at {storage.uri} has the bootstrap index {name or kind} (hoodie.bootstrap.index.class, "
            "hoodie.bootstrap.index.type); supported: HFileBootstrapIndex"
        )
    return True


def bootstrap_mappings(storage: Storage) -> Iterator[BootstrapMapping]:
    """Yields the entries of the bootstrap index, by partition and in the index's order.

    Raises:
        CorruptFileError: the index cannot be read.
    """
    for info in _index_files(storage):
        yield from _mappings_of(storage, info)


def _index_files(storage: Storage) -> list[FileInfo]:
    return [info for info in storage.list(BOOTSTRAP_INDEX) if not info.is_dir and info.name.endswith(".hfile")]


def _mappings_of(storage: Storage, info: FileInfo) -> Iterator[BootstrapMapping]:
    context = f"the bootstrap index {storage.uri}/{info.path}"
    index = open_hfile(storage, info.path, info.size)
    described = index.info.get(INDEX_INFO)
    base = "" if described is None else decode_record(described, context).get("bootstrapBasePath") or ""
    for value in index.scan().values.to_pylist():
        yield from _mappings(decode_record(value, context), base, context)


def check_sources(storage: Storage, config: TableConfig, allowed: Iterable[str]) -> BootstrapIndexes:
    """Checks all source files of a table, as `check_source`, before actions that may read any of them. Returns the
    indexes that name them."""
    folders, indexes = tuple(allowed), BootstrapIndexes()
    for source in load_bootstrap_sources(storage, config, indexes).values():
        check_source(storage.uri, config, source.uri, folders)
    return indexes


def check_source(uri: str, config: TableConfig, source: str, allowed: Iterable[str]) -> None:
    """Checks the source file of a bootstrapped base file before it is opened with the table's credentials.

    Apache Hudi opens whatever the index names. The index and the base path are files of the table, so whoever made the
    table could have its readers send their credentials to a host of his choice.

    Args:
        uri: of the table.
        source: URI of the file.
        allowed: URIs of folders of other stores or hosts from which files may be read, too.

    Raises:
        UnsupportedTableError: it does not lie below the base path of the bootstrap, or is in another store.
    """
    base = config.properties.get(BASE_PATH, "").strip()
    (store, path), (base_store, base_path) = _place(source), _place(base)
    # a base path in Hadoop's default file system has no scheme, but the paths in the index have one
    same_store = base_store in (store, _LOCAL) if "://" not in base and ":" not in base else base_store == store
    if not same_store or ".." in path.split("/") or not f"{path}/".startswith(base_path.rstrip("/") + "/"):
        raise UnsupportedTableError(
            f"Cannot read the table at {uri}: its bootstrap index names the source {source}, which is not below "
            f"{BASE_PATH}={base}; only files below it are read"
        )
    if store == _place(uri)[0]:
        return
    for folder in allowed:
        allowed_store, allowed_path = _place(folder.strip())
        if folder and allowed_store == store and f"{path}/".startswith(allowed_path.rstrip("/") + "/"):
            return
    raise UnsupportedTableError(
        f"Cannot read the table at {uri}: its bootstrap index names the source {source}, which is in another store; "
        f"only sources of the table's own store are read with its credentials; if you trust the table, set {_OPTION} "
        f"to {base if base_store == store else source.rpartition('/')[0]}"
    )


def _place(uri: str) -> tuple[tuple[str, str], str]:
    """Splits a URI into its store, given by scheme and host or bucket, and the path there."""
    parts = _URI.match(uri)
    if parts is None:
        return _LOCAL, uri
    scheme, host, path = parts["scheme"].lower(), parts["host"] or "", parts["path"]
    if scheme == "file":
        return _LOCAL, path
    return ("s3" if scheme in ("s3a", "s3n") else scheme, host), path


def _mappings(record: Mapping[str, Any], base: str, context: str) -> Iterator[BootstrapMapping]:
    partition, files = record.get("partitionPath"), record.get("fileIdToBootstrapFile")
    if not isinstance(partition, str) or not isinstance(files, dict):
        raise CorruptFileError(f"Cannot read {context}: an entry has no partitionPath or fileIdToBootstrapFile")
    folder = record.get("bootstrapPartitionPath") or ""
    for file_id, status in files.items():
        path = (status or {}).get("path") or {}
        if not isinstance(path.get("uri"), str):
            raise CorruptFileError(f"Cannot read {context}: the source of file {file_id} has no path")
        length = (status or {}).get("length")
        yield BootstrapMapping(partition, file_id, base, folder, path["uri"], length or None)
