"""The folder of a repair: its plan, the originals it keeps, and how to restore or delete them.

`.hoodie/.hudi_py_repair/<id>/` has `repair.json`, the originals below `kept/`, and below `new/` a name for each file
that the repair created. No engine lists the folder: the timeline is read by the names of instants, and partitions are
searched outside `.hoodie` (`TimelineUtils`, `FileSystemBackedTableMetadata`, Apache Hudi 1.2.0). `KeepingStorage` keeps
everything removed or replaced through it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.model.layout import LOCK_WAITING, META_FOLDER, REPAIRS, TIMELINE
from hudi_py.model.limits import parse_json
from hudi_py.model.names import join_path
from hudi_py.storage import FileInfo, FolderStorage, Storage
from hudi_py.storage.base import ConditionalStorage, copy_file, is_lock, missing
from hudi_py.storage.conditional import Version, VersionedObject
from hudi_py.timeline.layout import Layout

KEPT: Final = "kept"
"""Folder of the originals, by their paths."""
NEW: Final = "new"
"""Folder with an empty file for each file that was created, by its path."""
_NOTE: Final = "repair.json"
_TIMELINES: Final = (META_FOLDER, TIMELINE)


class KeepingStorage(FolderStorage):
    """A storage that keeps the originals of changed files in one of its folders.

    The first change to a file keeps its original, by a move if the storage can move files, else by a copy. The first
    write of a new file records its name. Both happen before the change, so that a killed repair can be undone as well.
    Files of the table lock are excluded: a lock belongs to a process.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        super().__init__(storage, "")
        self._kept = join_path(folder, KEPT)
        self._new = join_path(folder, NEW)
        self._changed: set[str] = set()
        self._guard = threading.RLock()

    @property
    def uri(self) -> str:
        return self._storage.uri

    def open_output(self, path: str) -> BinaryIO:
        self._before_write(path)
        return super().open_output(path)

    def put(self, path: str, data: bytes) -> None:
        self._before_write(path)
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self._storage.stat(path) is None:
            self._before_write(path)
        return super().put_if_absent(path, data)

    def touch(self, path: str) -> None:
        self._before_write(path)
        super().touch(path)

    def delete(self, path: str) -> bool:
        with self._guard:
            if self._is_exempt(path):
                return super().delete(path)
            if path in self._changed:
                return self._delete_own(path)
            if self._storage.stat(path) is None:
                return False
            self._changed.add(path)
            self._move_away(path)
            return True

    def set_aside(self, path: str) -> None:
        """Moves a file to the kept originals, even one of a lock. Raises FileNotFoundError."""
        with self._guard:
            self._changed.add(path)
            self._move_away(path)

    def delete_tree(self, path: str) -> None:
        for info in list(self._storage.walk(path)):
            self.delete(info.path)
        super().delete_tree(path)

    def rename(self, src: str, dst: str) -> None:
        with self._guard:
            own = src in self._changed and not self._is_exempt(src)
            self._before_write(src)
            self._before_write(dst)
            super().rename(src, dst)
            if own:
                self._forget(src)

    def _is_exempt(self, path: str) -> bool:
        return is_lock(path) or path == LOCK_WAITING

    def _before_write(self, path: str) -> None:
        with self._guard:
            if path in self._changed or self._is_exempt(path):
                return
            self._changed.add(path)
            info = self._storage.stat(path)
            if info is None:
                self._storage.put(join_path(self._new, path), b"")
            else:
                copy_file(self._storage, path, self._storage, join_path(self._kept, path), info.size)

    def _delete_own(self, path: str) -> bool:
        there = super().delete(path)
        self._forget(path)
        return there

    def _forget(self, path: str) -> None:
        """Forgets a file that was created and deleted again; one with an original stays changed."""
        if self._storage.stat(join_path(self._kept, path)) is None:
            self._storage.delete(join_path(self._new, path))
            self._changed.discard(path)

    def _move_away(self, path: str) -> None:
        kept = join_path(self._kept, path)
        if self._storage.can_rename:
            self._storage.rename(path, kept)
            return
        _copy_within(self._storage, path, kept)
        self._storage.delete(path)


class KeepingObjects(KeepingStorage):
    """Keeps originals in an object store, which replaces files conditionally: only locks are replaced that way."""

    _storage: ConditionalStorage

    def read_version(self, path: str) -> VersionedObject | None:
        return self._storage.read_version(path)

    def replace(self, path: str, data: bytes, version: Version | None, note: str = "") -> Version | None:
        return self._storage.replace(path, data, version, note)


def keeping(storage: Storage, folder: str) -> KeepingStorage:
    """Returns the storage, keeping originals in a folder of it."""
    kind: Callable[[Storage, str], KeepingStorage]
    kind = KeepingObjects if isinstance(storage, ConditionalStorage) else KeepingStorage
    return kind(storage, folder)


def _copy_within(storage: Storage, path: str, to: str) -> None:
    info = storage.stat(path)
    if info is None:
        raise missing(storage.uri, path)
    copy_file(storage, path, storage, to, info.size)


@dataclass(frozen=True, slots=True)
class KeptRepair:
    """A repair whose originals are kept."""

    id: str
    state: str
    """`begun`, `done` or `undoing`."""
    steps: tuple[str, ...]
    """The steps, one sentence each."""
    num_kept: int = 0
    """Number of files that were removed or replaced."""
    num_bytes: int = 0
    """Size of these files."""

    @property
    def folder(self) -> str:
        """Returns its folder, relative to the table."""
        return folder_of(self.id)

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {
            "id": self.id,
            "state": self.state,
            "steps": list(self.steps),
            "num_kept": self.num_kept,
            "num_bytes": self.num_bytes,
        }


def folder_of(id: str) -> str:
    return join_path(REPAIRS, id)


def repairs(storage: Storage) -> list[KeptRepair]:
    """Lists the repairs that are kept, oldest first."""
    result = []
    for info in storage.list(REPAIRS):
        note = read_note(storage, info.name)
        files = list(storage.walk(join_path(info.path, KEPT)))
        state, steps = str(note.get("state", "begun")), tuple(map(str, note.get("steps", ())))
        result.append(KeptRepair(info.name, state, steps, len(files), sum(file.size for file in files)))
    return result


def read_note(storage: Storage, id: str) -> Mapping[str, Any]:
    """Reads what the repair recorded about itself; empty if it was killed before."""
    try:
        note = parse_json(storage.read(join_path(folder_of(id), _NOTE)))
    except (FileNotFoundError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def write_note(storage: Storage, id: str, state: str, steps: Sequence[str]) -> None:
    """Records the state of a repair, and the timeline as it is now."""
    note = {"state": state, "steps": list(steps), "timeline": timeline_names(storage)}
    storage.put(join_path(folder_of(id), _NOTE), json.dumps(note, indent=1).encode())


def timeline_names(storage: Storage) -> list[str]:
    """Lists paths of the state files of both layouts, which change with each action."""
    result = []
    for folder, layout in zip(_TIMELINES, (Layout(1, ""), Layout(2, "")), strict=True):
        result += [
            info.path for info in storage.list(folder) if not info.is_dir and layout.parse(info.name) is not None
        ]
    return sorted(result)


def forget(storage: Storage, id: str) -> KeptRepair:
    """Deletes what a repair has kept; it can no longer be undone.

    Raises:
        ConfigError: there is no such repair.
    """
    repair = _find_repair(storage, id, "forget")
    storage.delete_tree(repair.folder)
    return repair


def undo(storage: Storage, id: str) -> KeptRepair:
    """Brings the table back to what it was before a repair: removes what it created, and moves the originals back. The
    table lock must be held. Safe to repeat after a crash.

    Raises:
        ConfigError: there is no such repair.
        ConflictError: the table has been written to since, or a later repair is kept.
        CorruptFileError: an original is missing.
    """
    result = _find_repair(storage, id, "undo")
    note = read_note(storage, id)
    later = [repair.id for repair in repairs(storage) if repair.id > id]
    if later:
        raise ConflictError(
            f"Cannot undo the repair {id} of {storage.uri}: the later repair {later[-1]} is kept; undo or forget it "
            "first"
        )
    if result.state == "done" and note.get("timeline") != timeline_names(storage):
        raise ConflictError(
            f"Cannot undo the repair {id} of {storage.uri}: the table has been written to since, and this would be "
            "lost; roll back what came after it, or forget the repair"
        )
    write_note(storage, id, "undoing", result.steps)
    for info in _in_order(list(storage.walk(join_path(result.folder, NEW)))):
        path = info.path.removeprefix(join_path(result.folder, NEW) + "/")
        storage.delete(path)
    for info in reversed(_in_order(list(storage.walk(join_path(result.folder, KEPT))))):
        path = info.path.removeprefix(join_path(result.folder, KEPT) + "/")
        storage.delete(path)
        _bring_back(storage, info.path, path)
    storage.delete_tree(result.folder)
    storage.sync()
    return result


def _bring_back(storage: Storage, kept: str, path: str) -> None:
    try:
        if storage.can_rename:
            storage.rename(kept, path)
        else:
            _copy_within(storage, kept, path)
    except FileNotFoundError as error:
        raise CorruptFileError(
            f"Cannot bring back {path} of {storage.uri}: {kept} is gone; restore it from a copy", path=path
        ) from error


def _in_order(files: list[FileInfo]) -> list[FileInfo]:
    """Sorts files so that those of the timeline, from which readers find all others, come first."""
    return sorted(files, key=lambda info: (not _is_timeline(info.path), info.path))


def _is_timeline(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(layout.parse(name) is not None for layout in (Layout(1, ""), Layout(2, "")))


def _find_repair(storage: Storage, id: str, verb: str) -> KeptRepair:
    known = repairs(storage)
    for item in known:
        if item.id == id:
            return item
    raise ConfigError(
        f"Cannot {verb} the repair {id!r} of {storage.uri}: there is no such repair; kept are "
        + (", ".join(item.id for item in known) or "none")
    )
