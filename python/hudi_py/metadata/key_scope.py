"""Whether record keys are known to be unique in the table. A record index over all partitions has one place for each
key, so only then does it find every row.

An index in Apache Hudi 1.2.0 does not say with which `hoodie.index.type` its table is written, and inserts look no keys
up. So hudi-py notes what it knows beside the index definitions, where Java reads `index.json` alone: the writes whose
keys it has seen, or a key that has several places. A write that it has not seen leaves the question open.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime
from hudi_py.model.layout import RECORD_KEYS
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class KeyScope:
    """What is known of a table's record keys."""

    seen: frozenset[str] = frozenset()
    """Requested times of the writes that left keys unique, of those that the active timeline had."""
    repeated: str | None = None
    """A key with rows in several file groups."""

    def is_unique(self, config: TableConfig, timeline: Timeline) -> bool:
        """Whether keys are unique in the state of a timeline."""
        return self.repeated is None and not _unseen(self.seen, config, timeline)


def read_scope(storage: Storage) -> KeyScope | None:
    """What was noted; None if nothing was. Read it after the timeline: a write is noted before it completes.

    Raises:
        CorruptFileError: the note is damaged.
    """
    try:
        data = json.loads(storage.read(RECORD_KEYS))
        repeated = data.get("repeated")
        return KeyScope(frozenset(map(str, data.get("unique") or ())), None if repeated is None else str(repeated))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {storage.uri}/{RECORD_KEYS}: {error!r}") from error


def note_built(state: TableState, repeated: str | None) -> None:
    """Notes what was found while an index was built from all files of a timeline. The table lock must be held."""
    _put(state.storage, KeyScope(frozenset(instant.time for instant in _writes(state.timeline)), repeated))


def note_write(
    storage: Storage, scope: KeyScope, timeline: Timeline, instant: InstantTime, repeated: str | None
) -> None:
    """Notes what a write does to keys that were unique, before it completes. The table lock must be held.

    Args:
        scope: what was known before.
        timeline: in which the write is pending.
        repeated: a key that it has put into several file groups.
    """
    active = {each.time for each in _writes(timeline)}
    _put(storage, KeyScope((scope.seen & active) | {instant}) if repeated is None else KeyScope(repeated=repeated))


def _put(storage: Storage, scope: KeyScope) -> None:
    known = {"unique": sorted(scope.seen)} if scope.repeated is None else {"repeated": scope.repeated}
    storage.put(RECORD_KEYS, json.dumps(known).encode())


def _writes(timeline: Timeline) -> list[Instant]:
    return [instant for instant in timeline.completed if instant.action.comparable in WRITE_ACTIONS]


def _unseen(seen: frozenset[str], config: TableConfig, timeline: Timeline) -> list[Instant]:
    """Writes that may have added keys and are not among those seen. Compactions, which are the only commits of
    merge-on-read tables, add none."""
    writes = [instant for instant in _writes(timeline) if instant.time not in seen]
    return [instant for instant in writes if not (config.is_mor and instant.action is Action.COMMIT)]
