"""The `files` partition: names and sizes of a table's files, partition by partition."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, HudiError, StorageError, first_line
from hudi_py.formats.arrays import combined
from hudi_py.metadata.keys import ALL_PARTITIONS, partition_key, partition_of_key
from hudi_py.metadata.records import RecordFields, RecordVersions, payload_field
from hudi_py.metadata.table import FILES, MetadataTable, open_metadata
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.model.words import visible
from hudi_py.storage import FileInfo
from hudi_py.timeline.state import TableState
from hudi_py.view import FileSystemView, Lister, StorageLister

_FIELD: Final = "filesystemMetadata"
_MAP: Final = pa.map_(pa.string(), pa.struct([("size", pa.int64()), ("isDeleted", pa.bool_())]))
_SMALL: Final = 1 << 18
"""Maximum size of a `files` partition that is read whole."""
_SCHEMA: Final = pa.schema([(_FIELD, _MAP)])
MAX_LISTED_PARTITIONS: Final = 4
"""Maximum number of partitions that take fewer requests to list than opening the metadata table does."""


def read_files(metadata: MetadataTable, keys: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
    """Reads, for each key of `files`, the file names with their sizes in bytes.

    A removal cancels earlier additions of the same name. Of later additions the largest size counts, because files
    only grow (`HoodieMetadataPayload.combineFileSystemMetadata`, 1.2.0).

    Args:
        keys: keys of partitions, and `__all_partitions__`; None: all.
    """
    return _fold_files(metadata.records(FILES, RecordFields([_FIELD], _SCHEMA, _normalise_files), keys=keys))


def _normalise_files(batch: pa.RecordBatch, avro: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([payload_field(batch, _FIELD).cast(_MAP)], schema=_SCHEMA)


def _fold_files(versions: RecordVersions) -> dict[str, dict[str, int]]:
    maps = combined(versions.fields.column(0))
    offsets = np.asarray(maps.offsets)
    parent = np.repeat(np.arange(len(maps)), np.diff(offsets))
    begin, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    names = maps.keys.slice(begin, end - begin)
    items = maps.items.slice(begin, end - begin)
    sizes = np.asarray(pc.fill_null(pc.struct_field(items, "size"), 0))
    removed = np.asarray(pc.fill_null(pc.struct_field(items, "isDeleted"), False))
    ids, count = versions.ids()
    erased = np.full(count, -1, np.int64)
    erased[ids[versions.deleted]] = np.flatnonzero(versions.deleted)  # in ascending order, so the last delete remains
    owner = ids[parent]
    encoded = names.dictionary_encode()
    members = owner * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
    _, pairs = np.unique(members, return_inverse=True)
    pairs = pairs.reshape(-1)
    place = np.arange(len(pairs))
    last_removed = np.full(int(pairs.max(initial=-1)) + 1, -1, np.int64)
    last_removed[pairs[removed]] = place[removed]
    alive = ~removed & (place > last_removed[pairs]) & (parent > erased[owner])
    key_texts, name_texts = versions.keys.to_pylist(), encoded.dictionary.to_pylist()
    result: dict[str, dict[str, int]] = {}
    for key in key_texts:
        result.setdefault(key, {})
    codes = encoded.indices.to_numpy(zero_copy_only=False)[alive].tolist()
    # a loop over files, because callers need dictionaries
    for row, code, size in zip(parent[alive].tolist(), codes, sizes[alive].tolist(), strict=True):
        of_key = result[key_texts[row]]
        name = name_texts[code]
        of_key[name] = max(size, of_key.get(name, 0))
    return result


class MetadataLister(Lister):
    """Lists partitions and files from the metadata table.

    If the metadata table is damaged, incomplete or of an unknown form, lists the storage instead, with a warning.
    """

    def __init__(self, metadata: MetadataTable, fallback: Lister) -> None:
        self.metadata = metadata
        self._fallback = fallback
        self._lists_storage = False
        self._files: dict[str, dict[str, int]] = {}
        self._every: dict[str, dict[str, int]] | None = None
        self._lock = threading.Lock()

    def partitions(self) -> list[PartitionPath]:
        """Lists sorted paths of all partitions; `[""]` for an unpartitioned table."""
        listed = self._read([ALL_PARTITIONS])
        if listed is None:
            return self._fallback.partitions()
        return sorted(PartitionPath(partition_of_key(key)) for key in listed[ALL_PARTITIONS])

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        """Lists files of a partition, sorted by path; empty if it does not exist."""
        key = partition_key(partition)
        listed = self._read([key])
        if listed is None:
            return self._fallback.files(partition)
        # modification times are unknown, and not needed for data files
        return [FileInfo(join_path(partition, name), size, 0) for name, size in sorted(listed[key].items())]

    def prefetch(self, partitions: Iterable[PartitionPath]) -> int:
        keys = [partition_key(partition) for partition in partitions]
        listed = self._read(keys)
        return 0 if listed is None else sum(len(listed[key]) for key in keys)

    def forget(self, partitions: Iterable[PartitionPath]) -> None:
        with self._lock:
            for partition in partitions:
                self._files.pop(partition_key(partition), None)

    @property
    def is_storage(self) -> bool:
        """Returns whether the storage is listed instead."""
        return self._lists_storage

    @property
    def _is_small(self) -> bool:
        """Returns whether reading everything once costs less than looking up the partitions, and then their files."""
        slices = [slice_ for group in self.metadata.file_groups(FILES).values() for slice_ in group]
        files = [file for slice_ in slices for file in (slice_.base_file, *slice_.log_files) if file is not None]
        return sum(file.size for file in files) <= _SMALL

    def _read(self, keys: list[str]) -> dict[str, dict[str, int]] | None:
        with self._lock:
            if self._lists_storage:
                return None
            missing = [key for key in keys if key not in self._files]
            if missing:
                try:
                    self._load(missing)
                except StorageError:  # not a sign of damage
                    raise
                except (HudiError, FileNotFoundError) as error:
                    self._lists_storage = True
                    warn_unused(self.metadata.storage.uri, error)
                    return None
            return self._files

    def _load(self, keys: list[str]) -> None:
        if self._every is None and self._is_small:
            self._every = self.metadata.every_file(read_files)
        listed = read_files(self.metadata, keys) if self._every is None else self._every
        for key in keys:
            files = listed.get(key)
            if files is None and key == ALL_PARTITIONS:
                raise CorruptFileError(f"it has no record of all partitions in '{FILES}'")
            if files is not None and key != ALL_PARTITIONS and min(files.values(), default=1) <= 0:
                name = min(files, key=lambda file: files[file])
                raise CorruptFileError(f"it records that {name} of partition '{key}' has {files[name]} bytes")
            self._files[key] = files or {}


def metadata_lister(state: TableState, own_view: FileSystemView | None = None) -> tuple[Lister, MetadataTable | None]:
    """Returns a lister that uses the metadata table, and the metadata table; if it is not usable, a lister of the
    storage and None. For the arguments see `open_metadata`."""
    fallback = StorageLister(state.storage, state.config)
    try:
        metadata = open_metadata(state, own_view)
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError) as error:
        warn_unused(state.storage.uri, error)
        return fallback, None
    if metadata is None:
        return fallback, None
    return MetadataLister(metadata, fallback), metadata


class WriteLister(Lister):
    """Lists files for a write: from the metadata table if there is one, opened when it is first needed.

    A process that has not checked the metadata table, such as a task of a distributed write, lists a few partitions
    from storage: opening the metadata table would take more requests.
    """

    def __init__(self, state: TableState, own_view: FileSystemView | None = None) -> None:
        """Args: see `open_metadata`."""
        self._open: Callable[[], Lister] = lambda: metadata_lister(state, own_view)[0]
        self._found: Lister | None = None
        self._storage: Lister = StorageLister(state.storage, state.config)
        self._most = 0 if own_view is not None else MAX_LISTED_PARTITIONS
        self._asked: set[PartitionPath] = set()
        self._lock = threading.Lock()

    @property
    def is_storage(self) -> bool:
        return self._lister.is_storage

    def prefetch(self, partitions: Iterable[PartitionPath]) -> int:
        wanted = list(partitions)
        return self._for(wanted).prefetch(wanted)

    def forget(self, partitions: Iterable[PartitionPath]) -> None:
        if self._found is not None:
            self._found.forget(partitions)

    def partitions(self) -> list[PartitionPath]:
        return self._lister.partitions()

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        return self._for([partition]).files(partition)

    def _for(self, partitions: Iterable[PartitionPath]) -> Lister:
        with self._lock:
            self._asked.update(partitions)
            few = len(self._asked) <= self._most
        return self._storage if few else self._lister

    @property
    def _lister(self) -> Lister:
        with self._lock:
            if self._found is None:
                self._found = self._open()
            return self._found


def warn_unused(uri: str, error: Exception, instead: str = "files are listed instead") -> None:
    """Warns that the metadata table, or an index in it, is not used. `instead` says what happens instead."""
    reason = first_line(error)
    warnings.warn(f"The metadata table of {uri} is not used, {instead}: {visible(reason)}", stacklevel=2)
