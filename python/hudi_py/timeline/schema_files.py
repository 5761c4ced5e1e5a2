"""The history of a schema that evolves on read: `.hoodie/.schema/<instant>.schemacommit`.

Every write to such a table stores all versions of its schema again, under its own instant. The newest file of a
completed write counts. Source: `FileBasedInternalSchemaStorageManager` (1.2.0).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hudi_py.model.layout import SCHEMAS
from hudi_py.schema.ids import inherited
from hudi_py.schema.internal import InternalSchema, parse_history
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.timeline import Timeline

_ACTION = "schemacommit"
# `<time>.schemacommit` in timeline layout 1, `<time>_<completion time>.schemacommit` in layout 2
_NAME = re.compile(
    r"(?P<time>\d+)(?:_(?P<completion>\d+))?\.schemacommit(?P<pending>\.requested|\.inflight)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """A history file that has been read."""

    instant: str
    text: str
    versions: tuple[InternalSchema, ...]
    """Oldest first."""


def history_files(storage: Storage) -> list[tuple[str, str, bool]]:
    """Path and instant of each file of the history, and whether its name has a completion time, as in layout 2."""
    names = ((info.path, _NAME.fullmatch(info.name)) for info in storage.list(SCHEMAS))
    return [
        (path, name["time"], name["completion"] is not None)
        for path, name in names
        if name is not None and name["pending"] is None
    ]


def history_path(layout: Layout, instant: str, completion: str) -> str:
    """Path of the history that a write stores. `completion`: its completion time, which names of layout 1 lack."""
    name = f"{instant}_{completion}" if layout.has_completion_times else instant
    return f"{SCHEMAS}/{name}.{_ACTION}"


def newest_history(storage: Storage, timeline: Timeline) -> StoredHistory | None:
    """The newest file of a completed write; None if there is none.

    Raises:
        CorruptFileError: it cannot be read.
    """
    found = []
    for info in storage.list(SCHEMAS):
        name = _NAME.fullmatch(info.name)
        if name is not None and name["pending"] is None:
            found.append((name["time"], info.path))
    for time, path in sorted(found, reverse=True):
        if timeline.is_committed(time):
            text = storage.read(path).decode("utf-8", "replace")
            return StoredHistory(time, text, parse_history(text, f"the schema history {storage.uri}/{path}"))
    return None


def write_history(
    storage: Storage,
    timeline: Timeline,
    instant: str,
    completion: str,
    schema: InternalSchema,
    before: Sequence[InternalSchema] = (),
) -> None:
    """Stores the history of a table's schema for a write that is about to complete. The table lock must be held.

    Args:
        timeline: the current one.
        completion: a completion time for the file's name, which has none in timeline layout 1.
        schema: the schema that the write leaves. It is added unless the history has its `version_id`.
        before: further versions to add, oldest first, if the table had none in its newest commit.

    Raises:
        CorruptFileError: the newest history cannot be read.
    """
    newest = newest_history(storage, timeline)
    text = "" if newest is None else newest.text
    known = set() if newest is None else {each.version_id for each in newest.versions}
    for each in (*before, schema):
        if each.version_id not in known:
            text = inherited(each, text)
            known.add(each.version_id)
    _remove_failed(storage, timeline, keep="" if newest is None else newest.instant)
    for state in ("requested", "inflight"):
        storage.put(f"{SCHEMAS}/{instant}.{_ACTION}.{state}", b"")
    storage.put(history_path(timeline.layout, instant, completion), text.encode())


def _remove_failed(storage: Storage, timeline: Timeline, *, keep: str) -> None:
    """Removes files of writes that did not complete, and those of archived ones, as Apache Hudi does."""
    completed = {instant.time for instant in timeline.write_completed}
    for info in storage.list(SCHEMAS):
        name = _NAME.fullmatch(info.name)
        if name is not None and name["time"] != keep and name["time"] not in completed:
            storage.delete(info.path)
