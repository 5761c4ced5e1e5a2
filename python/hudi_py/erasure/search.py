"""Reads every file below a table, and reports which contain something of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.erasure.contents import DataFiles, ErasureScope, index_entries, satisfied, stored_keys
from hudi_py.erasure.report import Searched, Trace
from hudi_py.errors import HudiError, first_line
from hudi_py.formats.lookup import TextSet
from hudi_py.health.mending.ledger import KEPT
from hudi_py.interop.iceberg.manifests import read_manifest
from hudi_py.interop.iceberg.target import FOLDER as ICEBERG
from hudi_py.interop.iceberg.target import SIDE_FOLDER
from hudi_py.metadata.keys import file_id, partition_id
from hudi_py.metadata.locations import SECONDARY_PREFIX
from hudi_py.metadata.table import FILES as LISTING
from hudi_py.metadata.table import PARTITION_STATS, RECORD_INDEX
from hudi_py.model.layout import META_FOLDER, METADATA_TABLE, REPAIRS, STAGING
from hudi_py.model.names import join_path, parse_base_file_name, parse_log_file_name
from hudi_py.progress import Progress
from hudi_py.schema import RECORD_KEY
from hudi_py.services.clean.slices import CHANGE_LOG, is_data_file
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import in_threads

_T = TypeVar("_T")
BASE, LOG, CHANGES, INDEX, ICEBERG_FILE, OTHER = "base file", "log", "change log", "index", "Iceberg", "other"
_MAX_BYTES: Final = 256 << 20
"""Maximum size of a file that is searched for text."""
_NAMED_BY: Final = 36
"""Characters at the end of a key, in file indexes, that identify partition and file: 12 and 24."""
_KIND_AT: Final = (12, 24)
_PARTITIONS: Final = partition_id("__partition_stat__")
_OF_FILES: Final = "of files that have the rows, or are gone"
_WORD: Final = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_BEFORE: Final = frozenset(b'"/=')
_AFTER: Final = frozenset(b'"/')


@dataclass(frozen=True)
class Search:
    """One pass over the files of a table."""

    storage: Storage
    data: DataFiles
    threads: int
    progress: Progress = field(default_factory=Progress.silent)

    def keys_satisfying(self, wanted: ErasureScope) -> pa.StringArray:
        """Returns the keys of rows of which any version in a data file satisfies the filter."""
        condition = wanted.condition
        if condition is None:
            return pa.array([], pa.string())

        def one(info: FileInfo) -> pa.Array:
            parts = [
                rows[RECORD_KEY].filter(pa.array(satisfied(condition, rows)))
                for rows in self.data.versions(info, _partition_place(info.path))
            ]
            return pa.chunked_array(parts, pa.string()).unique()

        files = [info for info in self._files if kind_of(info.path) in (BASE, LOG, CHANGES)]
        self.progress.phase("looking for keys", files=len(files))
        # files that cannot be read are reported when their versions are counted
        result = in_threads(lambda info: self._tried(one, info), files, self.threads)
        return pa.chunked_array([part for part in result if part is not None], pa.string()).unique()

    def run(self, wanted: ErasureScope) -> Searched:
        """Returns the files that contain something of the rows. Indexes and Iceberg's manifests hold values of files,
        such as minimum and maximum; they count for data files with the rows, and for deleted files, which may have had
        them."""
        files = self._files
        self.progress.phase("reading every file", files=len(files))
        unread: dict[str, str] = {}
        data = [info for info in files if kind_of(info.path) in (BASE, LOG, CHANGES)]
        others = [info for info in files if kind_of(info.path) not in (BASE, LOG, CHANGES)]
        counted = in_threads(
            lambda info: self._tried(lambda item: self._versions(item, wanted), info, unread), data, self.threads
        )
        traces = [
            Trace(info.path, kind_of(info.path), count, _kept_note(info.path))
            for info, count in zip(data, counted, strict=True)
            if count
        ]
        judge = _Judge(self, wanted, {info.path for info in data} - {trace.path for trace in traces})
        texts = in_threads(lambda info: self._tried(judge.trace, info, unread), others, self.threads)
        traces += [trace for trace in texts if trace is not None]
        kinds = Counter(kind_of(info.path) for info in files)
        return Searched(tuple(sorted(traces, key=lambda trace: trace.path)), unread, dict(kinds))

    def again(self) -> Search:
        """Returns another pass over the files that exist by then."""
        return replace(self)

    @cached_property
    def _files(self) -> list[FileInfo]:
        return sorted(self.storage.walk(""), key=lambda info: info.path)

    def _versions(self, info: FileInfo, wanted: ErasureScope) -> int:
        partition = _partition_place(info.path)[1]
        return sum(
            int(np.count_nonzero(wanted.mask(rows, partition)))
            for rows in self.data.versions(info, _partition_place(info.path))
        )

    def _tried(self, work: Callable[[FileInfo], _T], info: FileInfo, unread: dict[str, str] | None = None) -> _T | None:
        """Applies `work` to a file; None if it cannot be read. A deleted file contains nothing."""
        try:
            return work(info)
        except FileNotFoundError:
            return None
        except (HudiError, pa.ArrowException, OSError, ValueError, KeyError) as error:
            # whatever is wrong with one file, name it and read the others
            if unread is not None:
                unread[info.path] = first_line(error)
            return None
        finally:
            self.progress.wrote(info.size)


@dataclass(frozen=True)
class _Judge:
    """Examines files that are no data files."""

    search: Search
    wanted: ErasureScope
    harmless: set[str]
    """Paths of the data files without the rows."""

    def trace(self, info: FileInfo) -> Trace | None:
        kind = kind_of(info.path)
        count, note = 0, ""
        if kind == INDEX:
            count, note = self._of_index(info)
        elif kind == ICEBERG_FILE:
            count, note = self._of_iceberg(info)
        else:
            count, note = self._of_other(info)
        return Trace(info.path, kind, count, note) if count else None

    def _of_index(self, info: FileInfo) -> tuple[int, str]:
        partition = info.path.removeprefix(f"{METADATA_TABLE}/").partition("/")[0]
        if partition in (LISTING, PARTITION_STATS):
            return 0, ""  # names of files; and values of all files, which are rebuilt when one of them goes
        entries = index_entries(self.search.storage, info)
        if partition == RECORD_INDEX:
            return sum(self._hits(keys, self._everywhere) for keys in entries), f"entries of {partition}"
        if partition.startswith(SECONDARY_PREFIX):
            parts = (pc.replace_substring_regex(keys, r"(?s)^(?:[^\\$]|\\.)*\$", "$") for keys in entries)
            return sum(self._hits(keys, self._secondary) for keys in parts), f"entries of {partition}"
        places = self._places
        count = 0
        for keys in entries:
            harmless = pc.is_in(pc.utf8_slice_codeunits(keys, -_NAMED_BY), value_set=places)
            # in expression indexes, values of all files of a partition
            of_partitions = pc.equal(pc.utf8_slice_codeunits(keys, *_KIND_AT), _PARTITIONS)
            count += len(harmless) - pc.or_(harmless, of_partitions).true_count
        return count, f"entries of {partition}, {_OF_FILES}"

    def _of_iceberg(self, info: FileInfo) -> tuple[int, str]:
        if info.path.startswith(f"{SIDE_FOLDER}/"):
            return self._of_rows(info), "rows of logs"
        if not info.name.endswith(".avro") or "-manifest-" not in info.name:
            return self._of_text(info)
        named = {"manifest_path": info.path, "sequence_number": 0, "added_snapshot_id": 0, "partition_spec_id": 0}
        entries = read_manifest(self.search.storage.read(info.path), named, whole=False)
        count = 0
        for entry in entries:  # one for each data file
            harmless = any(
                entry.path.endswith(f"/{path}") for path in self._named.get(entry.path.rpartition("/")[2], ())
            )
            count += not harmless and f"/{SIDE_FOLDER}/" not in entry.path
        return count, f"values {_OF_FILES}"

    def _of_other(self, info: FileInfo) -> tuple[int, str]:
        if info.name.endswith(".parquet") and info.path.startswith(f"{STAGING}/"):
            return self._of_rows(info), "staged rows"
        return self._of_text(info)

    def _of_rows(self, info: FileInfo) -> int:
        count = 0
        for keys, partitions in stored_keys(self.search.storage, info.path):
            for partition in partitions.unique().to_pylist():
                own = keys.filter(pc.equal(partitions, partition))
                count += int(np.count_nonzero(self.wanted.has(own, partition or "")))
        return count

    def _of_text(self, info: FileInfo) -> tuple[int, str]:
        """Counts the keys whose bytes occur as words in a file or its path."""
        texts = self._texts
        if not texts:
            return 0, ""
        if info.size > _MAX_BYTES:
            raise ValueError(f"{info.size} bytes; up to {_MAX_BYTES} are searched")
        content = b"".join((b"/", info.path.encode(), b"/\0", _file_content(self.search.storage, info)))
        return sum(_has_word(content, text) for text in texts), "keys in its path or text"

    def _hits(self, keys: pa.StringArray, wanted: TextSet) -> int:
        return int(np.count_nonzero(wanted.find(keys) >= 0))

    @cached_property
    def _everywhere(self) -> TextSet:
        return TextSet(self.wanted.everywhere)

    @cached_property
    def _secondary(self) -> TextSet:
        return TextSet(self.wanted.of_secondary())

    @cached_property
    def _texts(self) -> tuple[bytes, ...]:
        return self.wanted.texts()

    @cached_property
    def _places(self) -> pa.StringArray:
        """Returns the names of data files in indexes, by partition and file."""
        split = (path.rpartition("/") for path in self.harmless)
        return pa.array([partition_id(folder) + file_id(name) for folder, _, name in split], pa.string())

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        result: dict[str, list[str]] = {}
        for path in self.harmless:
            result.setdefault(path.rpartition("/")[2], []).append(path)
        return result


def kind_of(path: str) -> str:
    """Returns the kind of a file, by its path in the table."""
    folder, _, name = path.rpartition("/")
    if path.startswith(f"{METADATA_TABLE}/"):
        inner = folder.removeprefix(METADATA_TABLE).strip("/")
        return INDEX if is_data_file(name) and not inner.startswith(META_FOLDER) else OTHER
    if folder in (ICEBERG, SIDE_FOLDER) and not is_data_file(name):
        return ICEBERG_FILE
    if path.startswith(f"{META_FOLDER}/") and _kept_folder(path) is None:
        return OTHER
    if parse_base_file_name(name) is not None:
        return BASE
    if parse_log_file_name(name) is not None:
        return CHANGES if name.endswith(CHANGE_LOG) else LOG
    return OTHER


def _partition_place(path: str) -> tuple[str, str]:
    """Returns the folder that contains a data file's partition, and the partition's path."""
    folder = path.rpartition("/")[0]
    kept = _kept_folder(path)
    return ("", folder) if kept is None else (kept, folder.removeprefix(kept).strip("/"))


def _kept_folder(path: str) -> str | None:
    """Returns the folder in which a repair has kept a file; None if none has."""
    parts = path.removeprefix(f"{REPAIRS}/").split("/")
    is_kept = path.startswith(f"{REPAIRS}/") and len(parts) > 2 and parts[1] == KEPT and parts[2] != META_FOLDER
    return join_path(REPAIRS, parts[0], KEPT) if is_kept else None


def _kept_note(path: str) -> str:
    return "" if _kept_folder(path) is None else "kept by a repair"


def repair_of(path: str) -> str | None:
    """Returns the id of the repair that has kept a file."""
    kept = _kept_folder(path)
    return None if kept is None else kept.split("/")[-2]


def _file_content(storage: Storage, info: FileInfo) -> bytes:
    """Reads a file's bytes; for Parquet files such as the archived timeline, those of its columns."""
    if not info.name.endswith(".parquet"):
        return storage.read(info.path)
    with storage.open_input(info.path) as opened:
        return b"\0".join(_bytes_of(pq.ParquetFile(opened)))


def _bytes_of(file: pq.ParquetFile) -> Iterator[bytes]:
    for batch in file.iter_batches():
        for column in batch.columns:
            if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
                yield from (value for value in column.cast(pa.binary()).to_pylist() if value)


def _has_word(content: bytes, text: bytes) -> bool:
    """Returns whether a text occurs in the bytes as a word of its own. A number must be a text or a part of a path."""
    number = text.isdigit()
    position = content.find(text)
    while position >= 0:
        before, behind = content[position - 1 : position], content[position + len(text) : position + len(text) + 1]
        if number and before and behind and before[0] in _BEFORE and behind[0] in _AFTER:
            return True
        if not number and not (before and before[0] in _WORD) and not (behind and behind[0] in _WORD):
            return True
        position = content.find(text, position + 1)
    return False
