"""Reads the history of layout 2: archived instants in sorted runs of Parquet files (`LSMTimeline`, 1.2.0).

`_version_` has the number of the newest manifest, `manifest_<n>` names the runs, and a run is a Parquet file
`<first>_<last>_<level>.parquet`, named by the requested times of its first and last instant.

A writer sorts the instants of a run. The upgrade of a table of version 6 does not: it takes the entries of the old
archive in their order, newest file first, and names the run after the first and the last of them
(`SevenToEightUpgradeHandler`, 1.2.0). In such a history only a run's footer, not its name, gives the oldest and newest
instant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.errors import CorruptFileError
from hudi_py.formats.base.parquet import open_parquet
from hudi_py.model.instant import Action, CompletionTime, InstantTime, State
from hudi_py.model.names import join_path
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote

VERSION_FILE = "_version_"
_MANIFEST = re.compile(r"manifest_(\d{1,18})", re.ASCII)
_RUN = re.compile(r"(\d+)_(\d+)_(\d{1,9})\.parquet", re.ASCII)
_ACTIONS = {action.value: action for action in Action}
_TRIES = 3


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """An instant that has left the active timeline."""

    time: InstantTime
    completion_time: CompletionTime
    """Layout 1: the completed file's modification time, or the requested time if that was not archived."""
    action: Action
    """Its action once completed: `COMMIT` for a compaction."""
    state: State
    metadata: bytes | None = None
    """Content of the completed file, JSON or an Avro container; None if empty or not requested."""
    plan: bytes | None = None
    """The plan as an Avro container, for actions that have one; None if not requested."""


Chosen = Callable[[ArchivedInstant], bool]
"""A condition on archived instants, evaluated without metadata and plan."""


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """Which archived instants to read, and which of their columns; see `archived.archived_instants`."""

    since: str | None = None
    """Requested time, inclusive like `until`."""
    until: str | None = None
    completed_after: str | None = None
    """Completion time, exclusive."""
    chosen: Chosen | None = None
    """A further condition. Metadata and plan are read for chosen instants only."""
    metadata: bool = False
    """Whether to read the content of the instants' completed files."""
    plans: bool = False
    """Whether to read the plans of compactions, clusterings and cleans."""

    def wants(self, instant: ArchivedInstant) -> bool:
        return (
            (self.since is None or instant.time >= self.since)
            and (self.until is None or instant.time <= self.until)
            and (self.completed_after is None or instant.completion_time > self.completed_after)
            and (self.chosen is None or self.chosen(instant))
        )

    def overlaps(self, oldest: str, newest: str) -> bool:
        return (self.since is None or newest >= self.since) and (self.until is None or oldest <= self.until)


EVERYTHING = ArchiveQuery()


def read_history(
    storage: Storage, folder: str, query: ArchiveQuery = EVERYTHING, *, sorted_runs: bool = False
) -> list[ArchivedInstant]:
    """Reads the instants of a history folder, sorted by requested time; empty if there are none.

    Skips runs whose footer statistics show that all instants were requested outside of the range, or completed too
    early.

    Args:
        sorted_runs: whether no upgrade wrote the history (`made_in_layout_2`): runs whose names are outside of the
            range are not even opened.

    Raises:
        CorruptFileError: a manifest or run contradicts the format, or a run is missing.
    """
    missing: FileNotFoundError | None = None
    for _ in range(_TRIES):
        runs = newest_manifest(storage, folder).runs
        named = sorted_runs and all(run.first <= run.last for run in runs)
        wanted = [run for run in runs if not named or query.overlaps(run.first, run.last)]

        def one(run: HistoryFile) -> list[ArchivedInstant]:
            return list(_read_run(storage, join_path(folder, run.name), run, query))

        try:
            parts = when_remote(storage, one, wanted)
        except FileNotFoundError as error:  # compacted since the manifest was read: a newer manifest has the new runs
            missing = error
            continue
        # A writer that failed and retried may have left an instant in two runs
        by_instant = {(instant.time, instant.action): instant for part in parts for instant in part}
        return sorted(by_instant.values(), key=lambda instant: (instant.time, instant.action.value))
    raise CorruptFileError(
        f"Cannot read the archived timeline {storage.uri}/{folder}: a file in its newest manifest is missing "
        f"({missing}); rebuild it or restore the file"
    )


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A file of the history."""

    name: str
    """`<first>_<last>_<level>.parquet`, with the requested times of its first and last instant. In runs of an upgrade
    these may be in any order, and neither the oldest nor the newest."""
    size: int
    """Size in bytes, from the manifest."""

    @property
    def first(self) -> str:
        return self._part(1)

    @property
    def last(self) -> str:
        return self._part(2)

    @property
    def level(self) -> int:
        return int(self._part(3))

    def _part(self, number: int) -> str:
        match = _RUN.fullmatch(self.name)
        assert match is not None  # reading a manifest checks the names
        return match[number]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A version of the history: the files it consists of."""

    version: int
    """0: nothing was archived yet."""
    runs: tuple[HistoryFile, ...]
    """The runs, in the order in which they were added."""

    def encode(self) -> bytes:
        """Encodes the JSON that Apache Hudi writes (`HoodieLSMTimelineManifest`, 1.2.0)."""
        entries = ", ".join(
            f'{{\n    "fileName" : {json.dumps(run.name)},\n    "fileLen" : {run.size}\n  }}' for run in self.runs
        )
        return f'{{\n  "files" : [ {entries} ]\n}}'.replace("[  ]", "[ ]").encode()


def manifest_path(folder: str, version: int) -> str:
    return join_path(folder, f"manifest_{version}")


def manifest_versions(storage: Storage, folder: str) -> list[int]:
    """Lists the numbers of the existing manifests, ascending."""
    return manifest_numbers(info.name for info in storage.list(folder))


def manifest_numbers(names: Iterable[str]) -> list[int]:
    """Returns the numbers of the manifests among file names, ascending."""
    return sorted(int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name)))


def newest_manifest(storage: Storage, folder: str) -> Manifest:
    """Reads the current version of the history (`LSMTimeline.latestSnapshotManifest`, 1.2.0).

    If the manifest that `_version_` names is missing, Apache Hudi treats the archive as empty.

    Raises:
        CorruptFileError: the manifest is not valid JSON, or is missing although `_version_` exists.
    """
    number: int | None = None
    for _ in range(_TRIES):  # old manifests are deleted when new ones are written
        number = read_version(storage, folder)
        try:
            if number is not None:
                return read_manifest(storage, folder, number)
            numbers = manifest_versions(storage, folder)
            if numbers:
                return read_manifest(storage, folder, numbers[-1])
            break
        except FileNotFoundError:
            continue
    if storage.stat(join_path(folder, VERSION_FILE)) is None:
        return Manifest(0, ())
    raise CorruptFileError(
        f"Cannot read the archived timeline {storage.uri}/{folder}: its {VERSION_FILE} names "
        f"{'no version' if number is None else f'manifest_{number}'}, which is missing; restore it from a copy"
    )


def read_manifest(storage: Storage, folder: str, version: int) -> Manifest:
    """Reads one version of a history. Raises FileNotFoundError, CorruptFileError."""
    data = storage.read(manifest_path(folder, version))
    path = f"{storage.uri}/{manifest_path(folder, version)}"
    try:
        entries = [(entry["fileName"], entry.get("fileLen") or 0) for entry in json.loads(data)["files"] or ()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {path}: expected a JSON list of files ({error!r})") from None
    for name, size in entries:
        if not isinstance(name, str) or not _RUN.fullmatch(name) or not isinstance(size, int):
            raise CorruptFileError(
                f"Cannot read {path}: it names the file {name!r}; expected <first>_<last>_<level>.parquet"
            )
    return Manifest(version, tuple(HistoryFile(name, size) for name, size in entries))


def read_version(storage: Storage, folder: str) -> int | None:
    """Reads the number in `_version_`; None while it is being replaced (missing or torn)."""
    try:
        text = storage.read(join_path(folder, VERSION_FILE)).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() and len(text) < 19 else None


def _read_run(storage: Storage, path: str, run: HistoryFile, query: ArchiveQuery) -> Iterator[ArchivedInstant]:
    with open_parquet(storage, path) as file:
        names = set(file.schema_arrow.names)
        if not _may_hold(file, query):
            return
        for needed in ("instantTime", "completionTime", "action"):
            if needed not in names:
                raise CorruptFileError(f"Cannot read the archived timeline {storage.uri}/{path}: no column {needed}")
        keys = file.read(["instantTime", "completionTime", "action"])
        instants = _instants(keys, f"{storage.uri}/{path}")
        _check_name(instants, run, f"{storage.uri}/{path}")
        kept = [index for index, instant in enumerate(instants) if query.wants(instant)]
        columns = [name for name, wanted in (("metadata", query.metadata), ("plan", query.plans)) if wanted]
        columns = [name for name in columns if name in names]
        if not kept or not columns:
            yield from (instants[index] for index in kept)
            return
        values = file.read(columns).take(pa.array(kept, pa.int64()))
    for row, index in enumerate(kept):
        yield replace(instants[index], metadata=_bytes(values, "metadata", row), plan=_bytes(values, "plan", row))


def _check_name(instants: Sequence[ArchivedInstant], run: HistoryFile, path: str) -> None:
    """Raises CorruptFileError if a run does not contain the two instants in its name, so is another file."""
    times: set[str] = {instant.time for instant in instants}
    if not {run.first, run.last} <= times:
        ends = (min(times, default="none"), max(times, default="none"))
        raise CorruptFileError(
            f"Cannot read the archived timeline {path}: its instants are {ends[0]} to {ends[1]}, not those in its "
            "name; it was replaced by another file: restore it from a copy",
            path=path,
            expected=(run.first, run.last),
            found=ends,
        )


def made_in_layout_2(config: TableConfig) -> bool:
    """Returns whether the table was created with layout 2, so that its history has no runs of an upgrade."""
    made = config.properties.get("hoodie.table.initial.version", "")
    return made.isdecimal() and int(made) >= 8


def run_range(storage: Storage, folder: str, run: HistoryFile) -> tuple[str, str]:
    """Returns the requested times of the oldest and the newest instant of a run, from its footer.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptFileError: it is not a run.
    """
    path = join_path(folder, run.name)
    with open_parquet(storage, path) as file:
        result = _range_of(file, "instantTime")
        if result is None:
            if "instantTime" not in file.schema_arrow.names:
                raise CorruptFileError(f"Cannot read the archived timeline {storage.uri}/{path}: no column instantTime")
            times = file.read(["instantTime"]).column("instantTime").cast(pa.string())
            result = pc.min(times).as_py() or run.first, pc.max(times).as_py() or run.last
    return result


def _may_hold(file: pq.ParquetFile, query: ArchiveQuery) -> bool:
    """Returns whether a run can have instants of a range, by the statistics in its footer."""
    if query.completed_after is not None:
        completed = _range_of(file, "completionTime")
        if completed is not None and completed[1] <= query.completed_after:
            return False
    if query.since is None and query.until is None:
        return True
    requested = _range_of(file, "instantTime")
    return requested is None or query.overlaps(*requested)


def _range_of(file: pq.ParquetFile, column: str) -> tuple[str, str] | None:
    """Returns the least and the greatest text of a column, by the statistics of every row group; None without
    statistics."""
    index = file.schema_arrow.get_field_index(column)
    if index < 0:
        return None
    bounds: list[str] = []
    for number in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(number).column(index).statistics
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        if not isinstance(statistics.min, str) or not isinstance(statistics.max, str):
            return None
        bounds += (statistics.min, statistics.max)
    return (min(bounds), max(bounds)) if bounds else None


def _instants(keys: pa.Table, context: str) -> list[ArchivedInstant]:
    if pc.any(pc.is_null(keys.column("instantTime"))).as_py() or pc.any(pc.is_null(keys.column("action"))).as_py():
        raise CorruptFileError(f"Cannot read the archived timeline {context}: an instant has no time or no action")
    columns: Sequence[list[str]] = [
        keys.column(name).cast(pa.string()).to_pylist() for name in ("instantTime", "completionTime", "action")
    ]
    return [
        ArchivedInstant(
            InstantTime(time), CompletionTime(completion or time), archived_action(action, context), State.COMPLETED
        )
        for time, completion, action in zip(*columns, strict=True)
    ]


def archived_action(name: str, context: str) -> Action:
    """Returns the completed action of an archived instant. Raises CorruptFileError for an unknown action."""
    action = _ACTIONS.get(name)
    if action is None:
        raise CorruptFileError(f"Cannot read the archived timeline {context}: '{name}' is not an action")
    return action.comparable


def _bytes(values: pa.Table, name: str, row: int) -> bytes | None:
    if name not in values.column_names:
        return None
    value: bytes | None = values.column(name)[row].as_py()
    return value or None
