"""Plans change data capture queries."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from typing import Any

from hudi_py.errors import ConfigError, HistoryCleanedError, UnsupportedTableError
from hudi_py.expressions.filter import parse_filter
from hudi_py.model.instant import CommitTimes
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.read.changes.infer import Inference, mode_of
from hudi_py.read.planning.plan import ScanPlan, check_columns, check_known, log_spec
from hudi_py.read.ranges import time_of
from hudi_py.read.request import ScanRequest
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import CHANGE_SCHEMA, Change, ChangeSource, ChangeSplit, InferenceCase, ReadSpec
from hudi_py.schema import META_FIELDS, OPERATION, with_operation
from hudi_py.timeline.commits import Commit, InstantRange, read_commits
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.times import parse_instant, table_zone

_BEGIN = "hoodie.datasource.read.begin.instanttime"
_EARLIEST = "earliest"


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The commits of a batch query."""

    commits: tuple[Commit, ...]
    reachable_only: bool
    """Whether commits whose files were cleaned are left out (`earliest`)."""
    text: str
    """The range for `explain`."""


def change_range(snapshot: Snapshot, request: ScanRequest) -> ChangeRange:
    """Returns the commits requested after the request's begin, up to and including its end (None: the newest commit).

    Unlike those of incremental queries, the bounds are requested times in every table version, as `ts_ms` is
    (`HoodieCDCFileIndex`, `HoodieCDCExtractor.initInstantAndCommitMetadata`, 1.2.0). A bound given as a commit follows
    the axis of incremental queries, so that consecutive ranges return every change once even if a write completes that
    was requested earlier.

    Raises:
        ConfigError: the request has keys or no begin, the table does not log changes, or a bound is not a time.
    """
    begin, end = request.begin, request.end
    if request.keys is not None:
        raise ConfigError(
            f"keys={sorted(request.keys)[:3]} cannot be used with query type 'cdc'; filter its columns "
            f"{', '.join(CHANGE_SCHEMA.names)}"
        )
    mode_of(snapshot)
    if begin is None:
        raise ConfigError(
            f"A query for the changes of the table at {snapshot.storage.uri} needs a begin: set "
            f"{_BEGIN} (or begin=) to a time, to 000 for the start of the table, or to 'earliest'"
        )
    zone, timeline = table_zone(snapshot.config), snapshot.timeline
    by_completion = timeline.layout.has_completion_times
    bounds = (
        time_of(item, snapshot, by_completion=by_completion) if item is not None else None for item in (begin, end)
    )
    first, last = (None if bound is None or bound == _EARLIEST else _bound_instant(bound, zone) for bound in bounds)
    span = InstantRange(
        None if isinstance(begin, CommitTimes) else first, None if isinstance(end, CommitTimes) else last
    )
    # A commit requested after a time also completed after it
    completed = InstantRange(first, last if isinstance(end, CommitTimes) else None)
    commits = read_commits(snapshot, completed)
    return ChangeRange(
        tuple(commit for commit in commits if span.holds(commit.time)),
        first is None,
        f"requested after {first or 'the first reachable commit'} up to {last or 'the newest commit'}",
    )


def _bound_instant(value: str | int | date, zone: tzinfo) -> str:
    """Returns the bound as an instant; digits are compared as given, as in Apache Hudi."""
    text = str(value).strip()
    return text if text.isdecimal() and text.isascii() else parse_instant(value, zone)


def plan_changes(
    snapshot: Snapshot, commits: Iterable[Commit], request: ScanRequest, *, reachable_only: bool = False
) -> ScanPlan:
    """Plans the changes of commits, one split for each file group.

    Args:
        commits: in any order; those that change no rows, such as compactions and clusterings, are ignored.
        request: its columns and filter refer to `CHANGE_SCHEMA`.
        reachable_only: leave out the oldest commits if files that their changes need have been cleaned.

    Raises:
        ConfigError: the table does not log changes.
        HistoryCleanedError: a needed file has been cleaned. Not all files are looked up here: reading a split may raise
            this error too.
        UnsupportedTableError: a commit rewrote rows without logging changes, or the table has an unsupported feature.
    """
    columns = check_columns(request.columns, CHANGE_SCHEMA, snapshot.storage.uri)
    condition = parse_filter(request.filter, CHANGE_SCHEMA)
    inference = Inference(snapshot, None if request.partitions is None else frozenset(request.partitions))
    changes: dict[tuple[PartitionPath, FileId], list[Change]] = defaultdict(list)
    # Newest first, so that the search ends where files were cleaned
    for commit in sorted(commits, key=lambda commit: commit.time, reverse=True):
        try:
            result = inference.changes_of(commit, check=reachable_only)
        except HistoryCleanedError:
            if reachable_only:
                break
            raise
        for partition, file_id, change in reversed(result):
            changes[partition, file_id].append(change)
    check_known(inference.touched, snapshot, request)
    spec = ReadSpec(
        uri=snapshot.storage.uri,
        table_schema=CHANGE_SCHEMA,
        columns=columns,
        filter=condition,
        batch_rows=request.batch_rows,
        limit=request.limit,
    )
    source = _change_source(snapshot, changes, request)
    splits = tuple(
        ChangeSplit(spec, partition, file_id, None, (), source=source, changes=tuple(reversed(item)))
        for (partition, file_id), item in sorted(changes.items(), key=_group_order)
    )
    return ScanPlan(spec, splits, len(inference.touched), len({split.partition for split in splits}))


def _group_order(group: tuple[tuple[PartitionPath, FileId], list[Change]]) -> tuple[str, bool, PartitionPath, FileId]:
    """Sorts file groups by their first change, newest last, and replaced groups before new ones: an overwrite deletes a
    key in one and inserts it in the other, at the same time."""
    (partition, file_id), group_changes = group
    oldest = group_changes[-1]
    return oldest.instant, oldest.case is not InferenceCase.REPLACE_COMMIT, partition, file_id


def _change_source(
    snapshot: Snapshot, changes: Mapping[tuple[PartitionPath, FileId], Sequence[Change]], request: ScanRequest
) -> ChangeSource:
    config = snapshot.config
    resolved = resolve_table_schema(snapshot)
    record: dict[str, Any] = {"type": "record", "name": "record", "fields": []}
    if resolved:
        record = resolved.avro
    own = [field for field in record["fields"] if field["name"] not in (*META_FIELDS, OPERATION)]
    every = [change for item in changes.values() for change in item]
    merges = any(
        change.case is InferenceCase.LOG_FILE or (change.before is not None and change.before.log_files)
        for change in every
    )
    by_key = merges or any(change.case is InferenceCase.AS_IS and change.after is not None for change in every)
    if by_key and not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"Cannot read the changes of {snapshot.storage.uri}: it has hoodie.populate.meta.fields=false, and its "
            "changes must be found by record key; supported: tables with meta fields"
        )
    schema = resolved.arrow if resolved else snapshot.schema
    if OPERATION in snapshot.schema.names:
        schema = with_operation(schema)
    rows = ReadSpec(
        uri=snapshot.storage.uri,
        table_schema=schema,
        columns=tuple(schema.names),
        logs=log_spec(snapshot, request) if merges else None,
        batch_rows=request.batch_rows,
        history=resolved.history if resolved else None,
    )
    record_json = json.dumps({**record, "fields": own})
    return ChangeSource(rows, mode_of(snapshot), record_json, config.record_key_fields, request.read_damaged)
