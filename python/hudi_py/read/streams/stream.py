"""Streaming reads: which commits a micro-batch takes, and the plan that reads them.

Rules of `HoodieStreamSourceV1`, `HoodieStreamSourceV2` (Spark) and `IncrementalInputSplits` (Flink), 1.2.0: since table
version 8 a stream advances by completion time; before, by requested time, and it stops before the first pending write
so as not to miss it. Compactions and clusterings rewrite rows and add none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from hudi_py.config import Options, incremental
from hudi_py.config import read as read_config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError, HistoryCleanedError, SchemaMismatchError, UnsupportedTableError
from hudi_py.model.instant import Action, Instant
from hudi_py.read.changes.infer import Inference
from hudi_py.read.changes.plan import plan_changes
from hudi_py.read.planning.plan import ScanPlan, check_columns, plan_scan, requested_columns
from hudi_py.read.ranges import CommitRange, plan_incremental
from hudi_py.read.request import ScanRequest, with_range_filters
from hudi_py.read.snapshot import Snapshot, clean_metadata, open_snapshot
from hudi_py.read.split import CHANGE_SCHEMA
from hudi_py.read.streams.backlog import (
    FROM_THE_BEGINNING,
    Axis,
    Backlog,
    BatchLimits,
    Seen,
    Start,
    StreamOffset,
    Weight,
)
from hudi_py.schema.conform import conform_array
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.commits import Commit, first_hole, pin_at
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Pin, Timeline, load_timeline
from hudi_py.timeline.times import parse_instant, table_zone

__all__ = ["BatchLimits", "StreamOffset", "TableStream"]


class TableStream:
    """Follows a table commit by commit.

    Offsets are the only state between batches: for the same two offsets, `plan_batch` always gives the same rows or
    raises `HistoryCleanedError`. An object serves one query, from one thread.
    """

    def __init__(self, storage: Storage, options: Options, schema: pa.Schema | None = None) -> None:
        """
        Args:
            options: read options; `columns` is ignored.
            schema: columns of every batch, from the start of the query; None: those of the table at the first batch.

        Raises:
            ConfigError: an option is not supported for streams.
        """
        self._storage = storage
        self._options = options
        self._schema = schema
        _check_options(options)
        self._start, self._instant = _start_of(options)
        request = ScanRequest.of(options.without(read_config.COLUMNS))
        self._request = replace(request, filter=with_range_filters(options.get(read_config.FILTER), options))
        self._changes = request.query_type == "cdc"
        if self._changes and self._start is Start.SNAPSHOT:
            self._start = Start.EARLIEST  # a snapshot has no changes
        self._seen: Seen | None = None
        self._opened: tuple[Seen, Snapshot] | None = None
        self._offered: StreamOffset | None = None
        self._backlog = Backlog()

    @classmethod
    def open(cls, path: str, options: Options, schema: pa.Schema | None = None) -> TableStream:
        return cls(open_storage(path, options.for_storage()), options, schema)

    def output_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Returns the schema of a query that starts now, with these columns in order; None: all.

        Raises:
            ConfigError: the instant to begin at is not a time.
            SchemaMismatchError: a column does not exist.
        """
        seen = self._load()
        self._beginning(seen)
        schema = CHANGE_SCHEMA if self._changes else self._snapshot(seen).schema
        request = replace(self._request, columns=None if columns is None else tuple(columns))
        return pa.schema([schema.field(name) for name in requested_columns(request, schema, self._storage.uri)])

    def limits(self) -> BatchLimits:
        """Returns the limits on a batch in the options."""
        return BatchLimits(
            commits=self._options.get(incremental.STREAM_MAX_COMMITS) or None,
            bytes=self._options.get(incremental.STREAM_MAX_BYTES) or None,
        )

    def initial_offset(self) -> StreamOffset:
        """Returns where a query without a checkpoint begins.

        Raises:
            ConfigError: the instant to begin at is not a time.
        """
        return self._beginning(self._load())

    def _beginning(self, seen: Seen) -> StreamOffset:
        axis = seen.axis
        start = self._start
        if start is Start.SNAPSHOT:
            return StreamOffset("", axis, start)
        if start is Start.EARLIEST:
            return StreamOffset(FROM_THE_BEGINNING, axis, start)
        if start is Start.LATEST:
            return StreamOffset(self._newest(seen) or FROM_THE_BEGINNING, axis, start)
        if not self._instant.strip("0"):
            return StreamOffset(FROM_THE_BEGINNING, axis, start)
        return StreamOffset(parse_instant(self._instant, table_zone(seen.config)), axis, start)

    def newest_offset(self) -> StreamOffset:
        """Returns the end of the table now, with an empty time while nothing is committed; lists the timeline once."""
        seen = self._load()
        self._seen, self._offered = seen, None
        return StreamOffset(self._newest(seen) or "", seen.axis)

    def seen_offset(self) -> StreamOffset | None:
        """Returns the end of the table when this object last loaded it; None while nothing is committed."""
        if self._seen is None:
            return None
        time = self._newest(self._seen)
        return None if time is None else StreamOffset(time, self._seen.axis)

    def latest_offset(
        self, start: StreamOffset, limits: BatchLimits | None = None, until: StreamOffset | None = None
    ) -> StreamOffset:
        """Returns where the batch after `start` ends: at `start` itself while nothing new is committed.

        Args:
            limits: how much it takes, from the oldest commit on; None: everything.
            until: a `newest_offset` beyond which it must not extend.

        Raises:
            ConfigError: `start` is not an offset of this table.
            CorruptFileError: a commit's metadata cannot be read.
        """
        seen = self._load()
        axis = seen.axis
        newest = self._newest(seen)
        if until is not None and newest is not None and until.axis is axis:
            newest = min(newest, until.time)
        if newest is None or (start.axis is axis and newest <= start.time):
            return start
        if not start.time:
            return self._offer(seen, StreamOffset(newest, axis))
        limits = limits or BatchLimits()
        first = 0
        if start.start is Start.EARLIEST:
            commits = self._bringing(self._commits(seen, start, newest))
            first = self._first_readable(seen, commits, start, limits)
        else:
            commits = self._bringing(self._commits(seen, start, newest, limits))
        taken = limits.admit([_commit_weight(commit) for commit in commits[first:]])
        if not taken:
            return start
        since = None
        if start.start is Start.LATEST:
            since = start.time
        elif start.start is Start.EARLIEST:
            since = commits[first - 1].completion_time if first else start.time
        return self._offer(seen, StreamOffset(commits[first + taken - 1].completion_time, axis, since=since))

    def plan_batch(self, start: StreamOffset, end: StreamOffset) -> ScanPlan | None:
        """Plans the batch after `start` up to `end`; None if there is nothing to read.

        Rows are those of the commits in between, as of `end`: the last version of each key. With
        `hoodie.datasource.query.incremental.format=cdc` it has every change, with `changelog.enabled` every version and
        delete; then splits may have different specs.

        Raises:
            HistoryCleanedError: files that the batch needs were cleaned.
            SchemaMismatchError: the table no longer has a column of the stream, or its type no longer fits.
            UnsupportedTableError, CorruptFileError: as for any read.
        """
        begin = start
        if start.start is not None and end.since is not None:
            # An engine that repeats the first batch asks for the initial offset again
            begin = StreamOffset(end.since, end.axis)
        if end.axis is begin.axis and end.time <= begin.time:
            return None
        seen = self._seen if self._seen is not None and self._offered == end else self._load()
        if not begin.time:
            _check_not_cleaned(seen, end)
            return self._checked(self._plan_snapshot(seen, end))
        commits = self._commits(seen, begin, end.time)
        if not commits:
            return None
        try:
            return self._checked(self._plan_commits(seen, commits, end))
        except HistoryCleanedError as error:
            key = incremental.FALLBACK.key
            raise HistoryCleanedError(
                f"The stream of {self._storage.uri} is slower than the cleaner: the batch after {begin.time} up to "
                f"{end.time} needs files that were cleaned; start the query with a new checkpoint, or set {key} = "
                f"true to continue with what remains of these commits ({error})"
            ) from error

    # ---- the state of the table

    def _load(self) -> Seen:
        config = load_table_config(self._storage)
        if not config.populates_meta_fields and not self._changes:
            raise UnsupportedTableError(
                f"Cannot stream from the table at {self._storage.uri}: it has hoodie.populate.meta.fields=false, and "
                "rows without meta fields do not record their commit; supported: snapshots and changes of such a "
                "table"
            )
        timeline = load_timeline(self._storage, config)
        by_completion = timeline.layout.has_completion_times or self._holes() == "USE_TRANSITION_TIME"
        return Seen(self._storage, config, timeline, Axis.COMPLETION if by_completion else Axis.REQUESTED)

    def _offer(self, seen: Seen, offset: StreamOffset) -> StreamOffset:
        self._seen, self._offered = seen, offset
        return offset

    def _holes(self) -> str:
        """Returns the policy for a pending write: as in Apache Hudi a stream waits by default, where a batch query
        fails."""
        given = self._options.given(incremental.HOLLOW_COMMITS)
        return self._options.get(incremental.HOLLOW_COMMITS) if given else "BLOCK"

    def _newest(self, seen: Seen) -> str | None:
        """Returns the time of the last commit that the stream may read."""
        newest = self._newest_committed(seen)
        end = self._options.get(incremental.END)
        return newest if end is None or newest is None else min(newest, parse_instant(end, table_zone(seen.config)))

    def _newest_committed(self, seen: Seen) -> str | None:
        timeline = seen.timeline
        if seen.axis is Axis.COMPLETION:
            return max(map(seen.place, timeline.write_completed), default=None)
        hole = first_hole(self._storage, timeline)
        times = [i.time for i in timeline.write_completed if hole is None or i.time < hole.time]
        if hole is not None and len(times) < len(timeline.write_completed) and self._holes() == "FAIL":
            raise ConfigError(
                f"Cannot stream from the table at {self._storage.uri}: {hole.action.value} {hole.time} is pending, and "
                f"later ones have completed, which {incremental.HOLLOW_COMMITS.key} = FAIL forbids; BLOCK waits for it"
            )
        return times[-1] if times else None

    def _commits(self, seen: Seen, begin: StreamOffset, end: str, limits: BatchLimits | None = None) -> list[Commit]:
        """Returns the commits after `begin` up to the time `end`, oldest first; with limits at least those of one
        batch."""
        if begin.axis is Axis.COMPLETION and seen.axis is Axis.REQUESTED:
            raise ConfigError(
                f"Cannot continue the stream of {self._storage.uri} at completion time {begin.time}: the table has "
                f"version {seen.config.version}, whose streams use requested times; start the query with a new "
                "checkpoint"
            )
        # If the table was upgraded since, the offset is a requested time
        old = begin.axis is not seen.axis

        def after(commits: Sequence[Commit]) -> list[Commit]:
            return [commit for commit in commits if commit.time > begin.time] if old else list(commits)

        def enough(commits: Sequence[Commit]) -> bool:
            assert limits is not None
            adding = self._bringing(after(commits))
            return limits.admit([_commit_weight(commit) for commit in adding]) < len(adding)

        if limits is None or limits == BatchLimits():
            return after(self._backlog.between(seen, begin.time, end))
        return after(self._backlog.ahead(seen, begin.time, end, enough))

    def _bringing(self, commits: Sequence[Commit]) -> list[Commit]:
        """Returns the commits without compactions and clusterings, whose rows are not new, unless the options include
        them."""

        def skips(option: Option[bool]) -> bool:
            return self._options.get(option) or not self._options.given(option)

        compactions, clusterings = skips(incremental.SKIP_COMPACTION), skips(incremental.SKIP_CLUSTERING)
        return [
            commit
            for commit in commits
            if not (compactions and (commit.is_compaction or commit.is_log_compaction))
            and not (clusterings and commit.is_clustering)
        ]

    def _first_readable(self, seen: Seen, commits: Sequence[Commit], start: StreamOffset, limits: BatchLimits) -> int:
        """Returns the index of the first commit with which a batch can begin; the number of commits if there is none.

        The cleaner removes the oldest files first, so the readable commits are the last ones.
        """
        if self._changes:
            inference = Inference(self._snapshot(seen), None)
            for index in reversed(range(len(commits))):
                try:
                    inference.changes_of(commits[index], check=True)
                except HistoryCleanedError:
                    return index + 1
            return 0
        low, high = 0, len(commits)
        while low < high:
            middle = (low + high) // 2
            taken = limits.admit([_commit_weight(commit) for commit in commits[middle:]])
            begin = replace(start, time=commits[middle - 1].completion_time) if middle else start
            end = replace(start, time=commits[middle + taken - 1].completion_time, start=None)
            try:
                self._plan_commits(seen, self._commits(seen, begin, end.time), end)
            except HistoryCleanedError:
                low = middle + 1
            else:
                high = middle
        return low

    # ---- plans

    def _snapshot(self, seen: Seen) -> Snapshot:
        """Returns the table's current state, whose schema is used for rows of any time."""
        if self._opened is None or self._opened[0] is not seen:
            snapshot = open_snapshot(seen)
            self._opened = (seen, snapshot.with_deletes(self._request.emit_deletes))
        return self._opened[1]

    def _plan_snapshot(self, seen: Seen, end: StreamOffset) -> ScanPlan:
        snapshot = self._snapshot(seen)
        pin = _pin_of(seen.timeline, end)
        snapshot = replace(snapshot, timeline=seen.timeline.at(pin), pin=pin)
        return plan_scan(snapshot, self._batch(snapshot.schema))

    def _plan_commits(self, seen: Seen, commits: Sequence[Commit], end: StreamOffset) -> ScanPlan:
        snapshot = self._snapshot(seen)
        if self._changes:
            return plan_changes(snapshot, commits, self._batch(CHANGE_SCHEMA))
        if not self._request.emit_deletes:
            return self._plan_range(snapshot, commits, end)
        # A later base file has no deletes and one version of each key, so read every commit's own files
        plans = [
            self._plan_range(snapshot, [commit], replace(end, time=commit.completion_time))
            for commit in self._bringing(commits)
        ] or [self._plan_range(snapshot, commits, end)]
        return replace(plans[-1], splits=tuple(split for plan in plans for split in plan.splits))

    def _plan_range(self, snapshot: Snapshot, commits: Sequence[Commit], end: StreamOffset) -> ScanPlan:
        return plan_incremental(
            snapshot,
            CommitRange(tuple(commits), _pin_of(snapshot.timeline, end), reachable_only=False),
            self._batch(snapshot.schema),
            rows_of=[commit.time for commit in self._bringing(commits)],
            # Unlike in a batch query it must be requested: rows would be silently missing
            fallback=bool(self._options.get(incremental.FALLBACK)),
        )

    def _batch(self, schema: pa.Schema) -> ScanRequest:
        """Returns the request, with the columns of the stream once it has begun; `schema` must have them."""
        if self._schema is None:
            return self._request
        try:
            names = check_columns(self._schema.names, schema, self._storage.uri)
            return replace(self._request, columns=names)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"Cannot continue the stream of {self._storage.uri}: a column with which it started was removed "
                f"({error}); restart the query so that it uses the table's current schema"
            ) from error

    def _checked(self, plan: ScanPlan) -> ScanPlan:
        """Returns the plan, after checking that its columns fit those of the stream."""
        schema = plan.spec.output_schema
        if self._schema is None:
            self._schema = schema
        for wanted, own in zip(self._schema, schema, strict=True):
            try:
                conform_array(pa.array([], own.type), wanted.type, path=wanted.name)
            except SchemaMismatchError as error:
                raise SchemaMismatchError(
                    f"Cannot continue the stream of {self._storage.uri}: it was started with column '{wanted.name}' "
                    f"as {wanted.type}, and the column is {own.type} now, which does not fit; restart the query so "
                    "that it uses the table's current schema"
                ) from error
        return plan


def _start_of(options: Options) -> tuple[Start, str]:
    """Returns where a stream begins according to the options, and the instant if they name one."""
    given = {option: options.get(option) for option in (incremental.STREAM_START_OFFSET, incremental.BEGIN)}
    texts = {text.lower(): option for option, text in given.items() if text is not None}
    if len(texts) > 1:
        shown = " and ".join(f"{options.name_of(option)} = '{text}'" for option, text in given.items())
        raise ConfigError(f"Cannot start a stream with {shown}: give one of them")
    if not texts:
        return Start.SNAPSHOT, ""
    (text,) = texts
    if text == Start.LATEST.value:
        return Start.LATEST, ""
    if text == Start.EARLIEST.value:
        return Start.EARLIEST, ""
    return Start.INSTANT, text


def _check_options(options: Options) -> None:
    """Raises ConfigError for options of batch reads that a stream does not support."""
    query_type = options.get(read_config.QUERY_TYPE)
    if query_type == "read_optimized":
        raise ConfigError(
            f"Cannot stream with {options.name_of(read_config.QUERY_TYPE)} = '{query_type}': a stream reads every "
            "commit with its logs; supported: snapshot and incremental, which mean the same for a stream"
        )
    as_of = options.get(read_config.AS_OF_INSTANT)
    if as_of is not None:
        raise ConfigError(
            f"Cannot stream with {options.name_of(read_config.AS_OF_INSTANT)} = '{as_of}': a stream continues from a "
            f"time; set {incremental.STREAM_START_OFFSET.key} to where it begins"
        )


def _pin_of(timeline: Timeline, end: StreamOffset) -> Pin:
    return pin_at(timeline, end.time, transition_times=end.axis is Axis.COMPLETION)


def _check_not_cleaned(seen: Seen, end: StreamOffset) -> None:
    """Raises if a clean has removed files of the snapshot at `end`, which an engine reads again when it repeats its
    first batch (`validateTimestampAsOf`, 1.2.0)."""
    timeline = seen.timeline

    def cleaned(instant: Instant | None) -> HistoryCleanedError:
        what = "its instants were archived" if instant is None else f"clean {instant.time} has removed files of it"
        return HistoryCleanedError(
            f"Cannot repeat the first batch of the stream of {seen.storage.uri}, the table as of {end.time}: {what} "
            "since; start the query with a new checkpoint"
        )

    reached = max((i.time for i in timeline.write_completed if seen.place(i) <= end.time), default=None)
    if reached is None:
        raise cleaned(None)
    cleans = [i for i in timeline.completed if i.action is Action.CLEAN and seen.place(i) > end.time]
    for clean in reversed(cleans):
        metadata = clean_metadata(seen, clean)
        if metadata is None:
            raise cleaned(clean)
        earliest = metadata.get("earliestCommitToRetain")
        if earliest and reached >= earliest:
            return  # earlier cleans retained no less
        if earliest or metadata.get("totalFilesDeleted"):
            raise cleaned(clean)


def _commit_weight(commit: Commit) -> Weight:
    stats = commit.metadata.stats
    return Weight(
        # for a log the stat counts the appended bytes, for a base file the whole file
        sum(stat.total_write_bytes or stat.file_size for stat in stats),
        sum(stat.num_writes + stat.num_deletes for stat in stats),
    )
