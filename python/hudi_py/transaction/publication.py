"""Publishes data files of one instant under permits: a marker before the file, a last check before it becomes visible.

Shared by writes and by the table services that write data files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from hudi_py.errors import ConfigError, CorruptFileError, RolledBackError
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import InstantTime
from hudi_py.model.layout import temporary_folder
from hudi_py.model.names import BaseFileName, FileId, LogFileName, PartitionPath, join_path
from hudi_py.storage import Storage
from hudi_py.storage.local import check_folders
from hudi_py.storage.threads import Shared, when_remote
from hudi_py.timeline.pending_plans import check_partition, is_data_file
from hudi_py.transaction.markers import MarkerType, marker_path, read_markers
from hudi_py.transaction.owner.claim import Attempt, check_claim, check_open, superseded
from hudi_py.transaction.partition_metafile import check_not_nested, partition_metafile

if TYPE_CHECKING:
    from hudi_py.transaction.conflicts.early import EarlyDetection


@dataclass(frozen=True, slots=True)
class FilePermit:
    """Permission to publish one data file whose marker exists. All paths are relative to the table's base path."""

    path: str
    """Final path of the file."""
    temp_path: str
    """Path to write the file to; `path` itself if the storage cannot rename."""
    marker_path: str


class Publication:
    """Publishes the data files of one instant from one process. Methods may be called from several threads.

    `check_open` raises RolledBackError once the instant no longer accepts files.
    """

    def __init__(self, storage: Storage, attempt: Attempt, early: EarlyDetection | None = None) -> None:
        self.storage = storage
        self._early = early
        self._attempt = attempt
        self._config = attempt.config
        self._instant = attempt.instant
        self._partitions: set[str] = set()
        self._inside: set[str] = set()
        self._check_open = Shared(lambda: check_open(storage, attempt))
        self._check_claim = Shared(lambda: check_claim(storage, attempt))

    def permit_base_file(
        self,
        partition: PartitionPath,
        file_id: FileId,
        write_token: str,
        *,
        merges: bool,
        extension: str = "parquet",
    ) -> FilePermit:
        """Creates the marker of a base file of this instant (and the partition's metafile, if absent).

        `merges`: the file replaces an earlier version of its file group (marker type MERGE, otherwise CREATE).

        Raises:
            RolledBackError: the instant no longer accepts files.
            ConflictError: another write is changing the file group (early detection).
            ConfigError: the partition is new, and lies in another or has another in it.
        """
        if self._early is not None:
            self._early.check(partition, file_id, logs=False)
        name = str(BaseFileName(file_id, write_token, self._instant, extension))
        return self._create_permit(
            partition, name, MarkerType.MERGE if merges else MarkerType.CREATE, creates=not merges
        )

    def permit_log_file(
        self,
        partition: PartitionPath,
        file_id: FileId,
        write_token: str,
        *,
        base_instant: str | None = None,
        version: int = 1,
        new_group: bool = True,
    ) -> FilePermit:
        """Creates the marker of a log file, which may begin a file group (`new_group`).

        Table version 6 names it by the slice's `base_instant` and the next free `version`; from version 8 on its name
        holds this instant, and both are omitted.
        """
        if self._config.logs_named_by_instant:
            base_instant = self._instant
        elif base_instant is None:
            raise ConfigError(
                f"Cannot name a log file of {file_id} in table version {self._config.version} without the base instant "
                "of its file slice"
            )
        if self._early is not None:
            self._early.check(partition, file_id, logs=True)
        name = str(LogFileName(file_id, base_instant, version, write_token))
        # version 6: a rollback keeps the log file and adds a rollback block, as Java does for APPEND markers
        return self._create_permit(partition, name, self._log_marker, creates=new_group)

    def permit_change_log(self, partition: PartitionPath, file_id: FileId, write_token: str) -> FilePermit:
        """Creates the marker of the change log of a base file that already has a permit. Its name holds this instant in
        all table versions."""
        name = str(LogFileName(file_id, self._instant, 1, write_token, cdc=True))
        return self._create_permit(partition, name, self._log_marker)

    @property
    def _log_marker(self) -> MarkerType:
        return MarkerType.CREATE if self._config.logs_named_by_instant else MarkerType.APPEND

    def publish(self, permit: FilePermit) -> None:
        """Moves a completely written file to its final path if its permit still stands. If the storage cannot rename,
        the file is already there, and the caller must `discard` it if this fails.

        Raises:
            RolledBackError: the permit or the file was removed: the attempt must give up.
        """
        if not self.storage.can_rename:
            self._check_open()  # the marker was there when the upload ended; whoever removes it closes the attempt
            return
        self._check_permit(permit)
        try:
            self.storage.rename(permit.temp_path, permit.path)
        except FileNotFoundError:
            raise superseded(
                self.storage, self._attempt, f"the unpublished file {permit.temp_path} was removed"
            ) from None

    @contextmanager
    def publishing(self, permit: FilePermit) -> Iterator[None]:
        """Publishes the file that the block writes. If the block or the publication fails, discards the permit."""
        try:
            yield
            self.publish(permit)
        except BaseException:  # any exception: leave nothing of the file
            self.discard(permit)
            raise

    def before_close(self, permit: FilePermit) -> None:
        """Checks the permit when a file is written but not yet closed; must be called, because closing makes the file
        visible if the storage cannot rename. `remove_unreported` finds files uploaded despite this check after the
        write was completed.

        Raises:
            RolledBackError: the permit was revoked: the upload must be aborted.
        """
        if not self.storage.can_rename:
            self._check_permit(permit)

    @contextmanager
    def writing(self, permit: FilePermit) -> Iterator[BinaryIO]:
        """Does the same as `publishing`, and yields the file to write to."""
        with self.publishing(permit), self.storage.open_output(permit.temp_path) as sink:
            yield sink
            self.before_close(permit)

    def discard(self, permit: FilePermit) -> None:
        """Discards a permit: removes its marker, temporary file and file, if present."""
        self.storage.delete(permit.temp_path)
        self.storage.delete(permit.path)
        self.storage.delete(permit.marker_path)

    def _check_permit(self, permit: FilePermit) -> None:
        if self.storage.stat(permit.marker_path) is None:
            raise superseded(self.storage, self._attempt, f"the permit of {permit.path} was taken back")
        self._check_open()

    def _create_permit(self, partition: str, name: str, marker: MarkerType, *, creates: bool = False) -> FilePermit:
        """Creates the marker for a file name. `creates`: the file begins a file group, so its partition may be new."""
        path = join_path(partition, name)
        if partition not in self._inside:
            check_folders(self.storage, [partition], "write")  # a rollback could not delete the file again
            self._inside.add(partition)
        temporary = f"{temporary_folder(self._instant)}/{path}" if self.storage.can_rename else path
        permit = FilePermit(path, temporary, marker_path(self._instant, path, marker))
        self.storage.put_if_absent(permit.marker_path, b"")
        # after the marker: either the process that revokes the claim sees this marker, or we see the claim revoked
        try:
            self._check_claim()
        except RolledBackError:
            self.storage.delete(permit.marker_path)
            raise
        if creates:
            self._ensure_partition(partition)
        return permit

    def _ensure_partition(self, partition: str) -> None:
        if partition in self._partitions:
            return
        path, content = partition_metafile(self._config, partition, self._instant)
        if self.storage.stat(path) is None:  # the metafile usually exists, and a refused put costs two requests
            check_not_nested(self.storage, self._config, partition)
            self.storage.put_if_absent(path, content)
        self._partitions.add(partition)


def remove_unreported(storage: Storage, instant: InstantTime, reported: Collection[str]) -> None:
    """Removes the files of an instant that are not among `reported` (paths relative to the base path). Its claim must
    have been revoked.

    Unpublished files go first, so that a late rename of an attempt finds no source. Markers stay: if this process dies
    halfway, they name what is left to remove.
    """
    if storage.can_rename:
        storage.delete_tree(temporary_folder(instant))
    for marker in read_markers(storage, instant) or ():
        if marker.path in reported:
            continue
        folder, _, name = marker.path.rpartition("/")
        context = f"remove what {instant} left in {storage.uri} by the marker of {marker.path!r}"
        check_partition(folder, context)
        if not is_data_file(name):
            raise CorruptFileError(f"Cannot {context}: it is not the name of a data file", instant=instant)
        storage.delete(marker.path)


def check_files(storage: Storage, attempt: Attempt, stats: Sequence[WriteStat]) -> None:
    """Checks that the files reported for a commit exist as written.

    Raises:
        RolledBackError: one is missing: it was removed with an attempt that was given up.
        CorruptFileError: one has another size. No other attempt uses its name.
    """
    files = [file for stat in stats for file in stat.files.items()]
    infos = when_remote(storage, storage.stat, [path for path, _ in files])
    for (path, size), info in zip(files, infos, strict=True):
        if info is None:
            raise superseded(storage, attempt, f"its data file {path} is missing")
        if info.size != size:
            raise CorruptFileError(
                f"Cannot complete the {attempt} of {storage.uri}: its data file {path} has {info.size} bytes, but "
                f"{size} were written; write again",
                path=path,
                instant=attempt.instant,
                expected=size,
                found=info.size,
            )
