"""Marker files name the data files that an instant may have written (`DirectWriteMarkers`, `MarkerUtils`, 1.2.0).

hudi-py writes DIRECT markers: an empty file `.hoodie/.temp/<instant>/<partition>/<data file>.marker.<type>`. Java's
default, TIMELINE_SERVER_BASED, stores the same names as lines of `MARKERS<n>` files; both are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import InstantTime
from hudi_py.model.layout import marker_folder
from hudi_py.model.names import FileId, PartitionPath, join_path
from hudi_py.storage import Storage

_MARKER = re.compile(r"(?P<path>.+)\.marker\.(?P<type>CREATE|MERGE|APPEND)", re.DOTALL)
_SERVER_TYPE = "MARKERS.type"
_SERVER_FILE = re.compile(r"MARKERS\d+", re.ASCII)
_END_OF_LINE = re.compile(r"(?:(?<=\.marker\.CREATE)|(?<=\.marker\.APPEND)|(?<=\.marker\.MERGE))\n")
"""Paths may contain line feeds: only a line feed after a marker's name ends the line."""


class MarkerType(str, Enum):
    """The operation on the marked file (`IOType`)."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"
    """Log files of table version 6: writes to a log are undone by a rollback block, not by deletion."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A data file that an instant may have written."""

    path: str
    """Path of the data file, relative to the base path."""
    type: MarkerType


def marker_path(instant: InstantTime, path: str, type: MarkerType) -> str:
    """Returns the path of the direct marker of the data file `path`."""
    return f"{marker_folder(instant)}/{path}.marker.{type.value}"


def read_markers(storage: Storage, instant: InstantTime) -> tuple[Marker, ...] | None:
    """Reads the instant's markers of either kind, sorted by path; None if it has no marker folder.

    Raises:
        CorruptFileError: a file in the marker folder is not a marker.
    """
    folder = marker_folder(instant)
    files = list(storage.walk(folder))
    if not files:  # where files cannot be moved, there are no folders either
        return None if not storage.can_rename or storage.stat(folder) is None else ()
    names = {info.path[len(folder) + 1 :] for info in files}
    if _SERVER_TYPE in names:
        files_of_server = (name for name in names if _SERVER_FILE.fullmatch(name))
        names = {line for name in files_of_server for line in _marker_names(storage.read(f"{folder}/{name}"))}
    markers: list[Marker] = []
    for name in sorted(names):
        match = _MARKER.fullmatch(name)
        if match is None:
            raise CorruptFileError(
                f"Cannot read the markers of {instant}: {folder} holds {name!r}; expected names "
                "'<data file>.marker.CREATE|MERGE|APPEND'; with hoodie.rollback.using.markers=false the instant is "
                "rolled back by the names of the table's files",
                path=f"{folder}/{name}",
                instant=instant,
            )
        markers.append(Marker(match["path"], MarkerType(match["type"])))
    return tuple(markers)


def has_marker(storage: Storage, instant: InstantTime, partition: PartitionPath, file_id: FileId) -> bool:
    """Returns whether an instant has a marker of either kind for a file group."""
    folder = marker_folder(instant)
    starts = (f"{file_id}_", f".{file_id}_")  # a base file, a log file
    if any(info.name.startswith(starts) for info in storage.list(join_path(folder, partition))):
        return True
    if storage.stat(f"{folder}/{_SERVER_TYPE}") is None:
        return False
    places = (marker.path.rpartition("/") for marker in read_markers(storage, instant) or ())
    return any(place == partition and name.startswith(starts) for place, _, name in places)


def _marker_names(content: bytes) -> list[str]:
    """Returns the names in a marker file of the timeline server."""
    return [line for line in _END_OF_LINE.split(content.decode("utf-8", errors="replace")) if line]


def remove_markers(storage: Storage, instant: InstantTime) -> None:
    """Removes the instant's marker folder, if any."""
    storage.delete_tree(marker_folder(instant))
