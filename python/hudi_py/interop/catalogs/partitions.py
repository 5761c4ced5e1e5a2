"""Partitions in catalogs: extracts their values from paths, finds those changed since the last registration, and
compares them with a catalog's (`PartitionValueExtractor` and its classes, `HoodieSyncClient.getPartitionEvents`,
`TimelineUtils`, 1.2.0)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from hudi_py.errors import ConfigError
from hudi_py.interop.catalogs.entry import Values
from hudi_py.metadata import metadata_lister
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, Instant
from hudi_py.model.operation import REPLACING
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.clean_records import decode_clean_metadata
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline

Extractor = Callable[[str], Values]
"""Extracts the values of partition columns from a path relative to the table. No values: the partition is not
registered."""
_PACKAGE = "org.apache.hudi.hive."


def extractor_name(config: TableConfig, fields: tuple[str, ...]) -> str:
    """Returns the class that fits the partitioning of a table
    (`HoodieTableConfigUtils.inferPartitionValueExtractorClass`, 1.2.0)."""
    if not fields:
        return f"{_PACKAGE}NonPartitionedExtractor"
    if len(fields) > 1:
        return f"{_PACKAGE}MultiPartKeysValueExtractor"
    if config.hive_style:
        return f"{_PACKAGE}HiveStylePartitionValueExtractor"
    if config.slashed_dates:
        return f"{_PACKAGE}SlashEncodedDayPartitionValueExtractor"
    return f"{_PACKAGE}SinglePartPartitionValueExtractor"


def extractor(name: str, fields: tuple[str, ...]) -> Extractor:
    """Returns the function for a class of Apache Hudi. It raises ConfigError for a path that does not fit, or that has
    another number of values than there are columns."""
    short = name.removeprefix(_PACKAGE)
    extract = _EXTRACTORS[short]

    def values(path: str) -> Values:
        try:
            result = extract(path)
        except ValueError:
            raise ConfigError(
                f"Cannot register the partition '{path}': {short} takes values from paths of another form; set "
                "hoodie.datasource.hive_sync.partition_extractor_class"
            ) from None
        if result and len(result) != len(fields):
            raise ConfigError(
                f"Cannot register the partition '{path}': {short} finds {len(result)} values in it for the columns "
                f"{', '.join(fields)}; set hoodie.datasource.hive_sync.partition_extractor_class or "
                "hoodie.datasource.hive_sync.partition_fields"
            )
        return result

    return values


def _multi_part(path: str) -> Values:
    return tuple(_part_value(part) for part in path.split("/")) if path else ()


def _part_value(part: str) -> str:
    if "=" not in part:
        return part
    pieces = part.rstrip("=").split("=")  # Java's split drops empty parts at the end
    if len(pieces) != 2:
        raise ValueError
    return pieces[1]


def _hive_style(path: str) -> Values:
    pieces = path.rstrip("=").split("=")
    if len(pieces) != 2:
        raise ValueError
    return (pieces[1],)


def _date_values(path: str, parts: int, shown: str) -> Values:
    numbers = [int(_part_value(part)) for part in path.split("/")]
    if len(numbers) != parts:
        raise ValueError
    return (datetime.datetime(*numbers).strftime(shown),)  # type: ignore[arg-type]


_EXTRACTORS: Mapping[str, Extractor] = {
    "MultiPartKeysValueExtractor": _multi_part,
    "SinglePartPartitionValueExtractor": lambda path: (path.replace("/", "-"),),
    "HiveStylePartitionValueExtractor": _hive_style,
    "SlashEncodedDayPartitionValueExtractor": lambda path: _date_values(path, 3, "%Y-%m-%d"),
    "SlashEncodedHourPartitionValueExtractor": lambda path: _date_values(path, 4, "%Y-%m-%d-%H"),
    "NonPartitionedExtractor": lambda path: (),
}


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Changes that a catalog needs: locations by values."""

    added: Mapping[Values, str]
    moved: Mapping[Values, str]
    """Partitions with another location."""
    touched: Mapping[Values, str]
    """Partitions that were written, and are registered correctly."""
    dropped: tuple[Values, ...]


def all_changes(known: Mapping[Values, str], stored: Mapping[Values, str]) -> PartitionChanges:
    """Returns the changes that make a catalog's partitions equal to the table's.

    Args:
        known: locations in the catalog.
        stored: locations of the table.
    """
    changes = changes_of(stored, (), known)
    return PartitionChanges(changes.added, changes.moved, {}, tuple(sorted(known.keys() - stored.keys())))


def changes_of(
    written: Mapping[Values, str], dropped: Iterable[Values], known: Mapping[Values, str]
) -> PartitionChanges:
    """Returns the changes for partitions that were written or dropped, given those in the catalog."""
    gone = set(dropped)
    there = {values: location for values, location in written.items() if values not in gone}
    return PartitionChanges(
        {values: location for values, location in there.items() if values not in known},
        {values: place for values, place in there.items() if values in known and not _same_path(place, known[values])},
        {values: place for values, place in there.items() if values in known and _same_path(place, known[values])},
        tuple(sorted(gone & known.keys())),
    )


def same_place(first: str, second: str) -> bool:
    """Returns whether two locations have the same path. As in Apache Hudi, scheme and host do not count (`s3`,
    `s3a`)."""
    return _same_path(first.rstrip("/"), second.rstrip("/"))


def _same_path(first: str, second: str) -> bool:
    return first == second or urlsplit(first).path == urlsplit(second).path


@dataclass(frozen=True, slots=True)
class Synced:
    """The state of a table at its last registration."""

    time: str
    """Requested time of its last write (`last_commit_time_sync`)."""
    completion: str | None = None
    """The greatest completion time of its writes (`last_commit_completion_time_sync`)."""

    @classmethod
    def now(cls, timeline: Timeline) -> Synced | None:
        """Returns the current state; None for a table without a completed write."""
        last = timeline.last_completed
        if last is None:
            return None
        return cls(last.time, max((i.completion_time or i.time for i in timeline.write_completed), default=None))


@dataclass(frozen=True, slots=True)
class Touched:
    """The partitions that writes changed since a registration, as paths."""

    written: tuple[str, ...]
    """Partitions with files written or replaced."""
    dropped: tuple[str, ...]
    """Partitions deleted and not written again."""


def partitions_since(state: TableState, since: Synced) -> Touched | None:
    """Finds the partitions that writes changed since a registration; None if the active timeline does not reach back
    that far."""
    if state.timeline.start is None or since.time < state.timeline.start:
        return None
    commits = list(_commits_since(state, since))
    written: dict[str, None] = {}
    deleted: dict[str, str] = {}
    latest: dict[str, str] = {}
    for instant, metadata in commits:
        own = {stat.partition_path for stat in metadata.stats}
        written |= dict.fromkeys(sorted({*metadata.replaced, *own}))
        if metadata.operation in REPLACING:
            deleted |= dict.fromkeys(metadata.replaced, str(instant.time))
        latest |= dict.fromkeys(own, str(instant.time))
    for instant in state.timeline.completed:
        if instant.action is Action.CLEAN:
            deleted |= dict.fromkeys(_deleted_partitions(state, instant), str(instant.time))
    dropped = (path for path, time in deleted.items() if path and time > latest.get(path, ""))
    return Touched(tuple(path for path in written if path), tuple(sorted(dropped)))


def all_partitions(state: TableState) -> list[str]:
    """Returns the paths of all partitions, from the metadata table if there is a valid one."""
    return [str(path) for path in metadata_lister(state)[0].partitions() if path]


def _commits_since(state: TableState, since: Synced) -> Iterator[tuple[Instant, CommitMetadata]]:
    for instant in state.timeline.write_completed:
        late = since.completion is not None and (instant.completion_time or instant.time) > since.completion
        if instant.time > since.time or (late and instant.time < since.time):
            try:
                yield instant, read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
            except FileNotFoundError:  # rolled back or archived since the listing
                continue


def _deleted_partitions(state: TableState, clean: Instant) -> list[str]:
    path = state.timeline.layout.path(clean.file_name)
    try:
        data = state.storage.read(path)
    except FileNotFoundError:
        return []
    if not data:
        return []
    metadata = decode_clean_metadata(data, f"{state.storage.uri}/{path}")
    return [partition.partition_path for partition in metadata.partitions if partition.partition_deleted]
