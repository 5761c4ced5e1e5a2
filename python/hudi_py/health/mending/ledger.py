"""The folder of a repair: what was planned, what is kept, and how to bring it back or forget it.

`.hoodie/.hudi_py_repair/<id>/` has `repair.json`, the originals below `kept/`, and below `new/` a name for each file
that the repair created. No engine lists the folder: the timeline is read by the names of instants, and partitions are
searched outside `.hoodie` (`TimelineUtils`, `FileSystemBackedTableMetadata`, Apache Hudi 1.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.health.mending.keeping import KEPT, NEW, copy_file
from hudi_py.model.layout import META_FOLDER, REPAIRS, TIMELINE
from hudi_py.model.limits import parse_json
from hudi_py.model.names import join_path
from hudi_py.storage import FileInfo, Storage
from hudi_py.timeline.layout import Layout

_NOTE: Final = "repair.json"
_TIMELINES: Final = (META_FOLDER, TIMELINE)


@dataclass(frozen=True, slots=True)
class KeptRepair:
    """A repair whose originals are kept."""

    id: str
    state: str
    """`begun`, `done` or `undoing`."""
    steps: tuple[str, ...]
    """What it did, one sentence each."""
    num_kept: int = 0
    """Files that were removed or replaced."""
    num_bytes: int = 0
    """Size of these files."""

    @property
    def folder(self) -> str:
        """Relative to the table."""
        return folder_of(self.id)

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, ready for JSON."""
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
    """The repairs that are kept, oldest first."""
    found = []
    for info in storage.list(REPAIRS):
        note = read_note(storage, info.name)
        files = list(storage.walk(join_path(info.path, KEPT)))
        state, steps = str(note.get("state", "begun")), tuple(map(str, note.get("steps", ())))
        found.append(KeptRepair(info.name, state, steps, len(files), sum(each.size for each in files)))
    return found


def read_note(storage: Storage, id: str) -> Mapping[str, Any]:
    """What the repair wrote about itself; empty if it was killed before."""
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
    """Paths of the state files of both layouts: they change with each action."""
    found = []
    for folder, layout in zip(_TIMELINES, (Layout(1, ""), Layout(2, "")), strict=True):
        found += [info.path for info in storage.list(folder) if not info.is_dir and layout.parse(info.name) is not None]
    return sorted(found)


def forget(storage: Storage, id: str) -> KeptRepair:
    """Deletes what a repair has kept; it cannot be undone afterwards.

    Raises:
        ConfigError: there is no such repair.
    """
    found = _find(storage, id, "forget")
    storage.delete_tree(found.folder)
    return found


def undo(storage: Storage, id: str) -> KeptRepair:
    """Brings the table back to what it was before a repair: removes what it created, and moves the originals back. The
    table lock must be held. Safe to repeat after a crash.

    Raises:
        ConfigError: there is no such repair.
        ConflictError: the table has been written to since, or a later repair is kept.
        CorruptFileError: an original is missing.
    """
    found = _find(storage, id, "undo")
    note = read_note(storage, id)
    later = [each.id for each in repairs(storage) if each.id > id]
    if later:
        raise ConflictError(
            f"Cannot undo the repair {id} of {storage.uri}: the later repair {later[-1]} is kept; undo or forget it "
            "first"
        )
    if found.state == "done" and note.get("timeline") != timeline_names(storage):
        raise ConflictError(
            f"Cannot undo the repair {id} of {storage.uri}: the table has been written to since, and this would be "
            "lost; roll back what came after it, or forget the repair"
        )
    write_note(storage, id, "undoing", found.steps)
    for info in _in_order(list(storage.walk(join_path(found.folder, NEW)))):
        path = info.path.removeprefix(join_path(found.folder, NEW) + "/")
        storage.delete(path)
    for info in reversed(_in_order(list(storage.walk(join_path(found.folder, KEPT))))):
        path = info.path.removeprefix(join_path(found.folder, KEPT) + "/")
        storage.delete(path)
        _bring_back(storage, info.path, path)
    storage.delete_tree(found.folder)
    storage.sync()
    return found


def _bring_back(storage: Storage, kept: str, path: str) -> None:
    try:
        if storage.can_rename:
            storage.rename(kept, path)
        else:
            copy_file(storage, kept, path)
    except FileNotFoundError as error:
        raise CorruptFileError(
            f"Cannot bring back {path} of {storage.uri}: {kept} is gone; restore it from a copy", path=path
        ) from error


def _in_order(files: list[FileInfo]) -> list[FileInfo]:
    """Files of the timeline first, as readers follow them to all others."""
    return sorted(files, key=lambda info: (not _is_timeline(info.path), info.path))


def _is_timeline(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(layout.parse(name) is not None for layout in (Layout(1, ""), Layout(2, "")))


def _find(storage: Storage, id: str, verb: str) -> KeptRepair:
    known = repairs(storage)
    for each in known:
        if each.id == id:
            return each
    raise ConfigError(
        f"Cannot {verb} the repair {id!r} of {storage.uri}: there is no such repair; kept are "
        + (", ".join(each.id for each in known) or "none")
    )
