"""The inputs of the checks, each read once: properties, timeline, commit metadata, and a listing of the storage."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO, NoReturn

from hudi_py.config import Options
from hudi_py.errors import CorruptFileError, HudiError, first_line
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Instant
from hudi_py.model.layout import PARTITION_METAFILES
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.progress import Progress
from hudi_py.storage import FileInfo, FolderStorage, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.metadata import decode_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView, StorageLister, load_view
from hudi_py.view.lister import Lister, table_folders


class ListedStorage(FolderStorage):
    """A storage that lists each folder once, and changes nothing."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, "")
        self._listed: dict[str, Sequence[FileInfo]] = {}
        self._guard = threading.Lock()

    @property
    def uri(self) -> str:
        return self._storage.uri

    def names(self, path: str = "") -> list[str]:
        return sorted(info.name for info in self.list(path) if not info.is_dir)

    def list(self, path: str = "") -> list[FileInfo]:
        with self._guard:
            value = self._listed.get(path)
        if value is None:
            value = self._storage.list(path)
            with self._guard:
                self._listed[path] = value
        return list(value)

    def put(self, path: str, data: bytes) -> None:
        self._refuse(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._refuse(path)

    def open_output(self, path: str) -> BinaryIO:
        self._refuse(path)

    def delete(self, path: str) -> bool:
        self._refuse(path)

    def delete_tree(self, path: str) -> None:
        self._refuse(path)

    def rename(self, src: str, dst: str) -> None:
        self._refuse(src)

    def touch(self, path: str) -> None:
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise PermissionError(f"an examination changes nothing, but would have changed {self.uri}/{path}")


@dataclass(frozen=True, slots=True)
class ExaminationLimits:
    """How much an examination reads, unless it is full."""

    files: int = 64
    """Number of files whose footer or blocks are read."""
    partitions: int = 4
    """Number of partitions whose keys are compared."""
    rows: int = 2_000_000
    """Total number of rows whose keys are compared."""
    keys: int = 1_000
    """Number of keys that are looked up in the record index."""


@dataclass(eq=False)
class Facts:
    """One state of a table. `config` and `timeline` are set only if they can be read."""

    raw: Storage
    """The storage itself, for what a listing does not show."""
    options: Options
    given: Mapping[str, Any]
    """The options as the user gave them."""
    storage_options: Mapping[str, str] | None
    full: bool
    limits: ExaminationLimits
    progress: Progress
    now_ms: int
    config: TableConfig | None = None
    timeline: Timeline | None = None
    checked: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @cached_property
    def storage(self) -> ListedStorage:
        return ListedStorage(self.raw)

    @property
    def table(self) -> TableConfig:
        """Returns the properties, which must be readable."""
        assert self.config is not None
        return self.config

    @property
    def active(self) -> Timeline:
        """Returns the active timeline, which must be readable."""
        assert self.timeline is not None
        return self.timeline

    @property
    def state(self) -> TableState:
        """Returns the table's state; properties and timeline must be readable."""
        return TableState(self.storage, self.table, self.active)

    @cached_property
    def plans(self) -> PendingPlans:
        return PendingPlans(self.storage, self.active)

    @cached_property
    def contents(self) -> Mapping[str, bytes | None]:
        """Reads the completed files of active writes, by file name; None for a missing one."""
        layout = self.active.layout

        def read(instant: Instant) -> bytes | None:
            try:
                return self.storage.read(layout.path(instant.file_name))
            except FileNotFoundError:
                return None

        writes = self.active.write_completed
        return dict(zip((write.file_name for write in writes), when_remote(self.storage, read, writes), strict=True))

    @cached_property
    def commits(self) -> Mapping[str, CommitMetadata | None]:
        """Returns the metadata of active completed writes by requested time; None if it is empty or cannot be read."""
        return {
            instant.time: decoded_commit(self.contents.get(instant.file_name), instant)
            for instant in self.active.write_completed
        }

    @cached_property
    def written(self) -> Mapping[str, frozenset[str]]:
        """Returns paths of the files that active commits wrote, by requested time."""
        return {
            time: frozenset(stat.path for stat in commit.stats)
            for time, commit in self.commits.items()
            if commit is not None
        }

    @cached_property
    def written_by_any(self) -> frozenset[str]:
        """Returns paths of the files that any active commit wrote."""
        return frozenset[str]().union(*self.written.values())

    @cached_property
    def archive(self) -> tuple[frozenset[str], str]:
        """Returns requested times of archived instants, and why they cannot be read; empty if they can."""
        try:
            return frozenset(instant.time for instant in archived_instants(self.storage, self.table)), ""
        except (HudiError, OSError) as error:
            return frozenset(), first_line(error)

    @cached_property
    def folders(self) -> Mapping[str, Sequence[FileInfo]]:
        """Lists the files of every folder outside `.hoodie`, by the folder's path. Folders of an unpartitioned table
        are left out."""
        folders = table_folders(self.storage, self.table)
        return {folder: [child for child in children if not child.is_dir] for folder, children in folders}

    @cached_property
    def data_folders(self) -> tuple[str, ...]:
        """Lists folders with a partition metafile, or with data files."""
        return tuple(
            folder
            for folder, files in sorted(self.folders.items())
            if any(is_metafile(info) or is_data(info) for info in files)
        )

    @cached_property
    def lister(self) -> Lister:
        return StorageLister(self.storage, self.table)

    @cached_property
    def view(self) -> FileSystemView:
        """Returns the table's file slices; lost files raise nothing.

        Raises:
            CorruptFileError: a plan or the metadata of a replacecommit cannot be read.
        """
        return load_view(self.state, self.lister, read_damaged=True)

    def sample(self, count: int) -> range:
        """Returns evenly spaced positions, at most `limits.partitions` among `count`; all in a full examination."""
        if self.full or count <= self.limits.partitions:
            return range(count)
        return range(0, count, -(-count // self.limits.partitions))


def decoded_commit(content: bytes | None, instant: Instant) -> CommitMetadata | None:
    """Decodes commit metadata; None if the file is missing, empty or cannot be read."""
    if not content:
        return None
    try:
        return decode_commit_metadata(content, instant.file_name)
    except CorruptFileError:
        return None


def is_metafile(info: FileInfo) -> bool:
    """Returns whether a file marks its folder as a partition."""
    return info.name in PARTITION_METAFILES


def is_data(info: FileInfo) -> bool:
    """Returns whether a file has the name of a base or log file."""
    return parse_base_file_name(info.name) is not None or parse_log_file_name(info.name) is not None
