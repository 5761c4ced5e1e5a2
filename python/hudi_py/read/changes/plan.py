"""Planning a change data capture query: the splits of the changes which commits made."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from typing import Any

from hudi_py.errors import ConfigError, HistoryCleanedError, UnsupportedTableError
from hudi_py.merge import LogMemory, merge_settings
from hudi_py.model.instant import CommitTimes
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.read.changes.infer import Inference, logging_mode
from hudi_py.read.changes.split import CHANGE_SCHEMA, Change, ChangeSource, ChangeSplit, InferenceCase
from hudi_py.read.filter import Filter
from hudi_py.read.plan import Plan, check_known
from hudi_py.read.ranges import Moment, time_of
from hudi_py.read.skipping import ReadOptions
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import ReadSpec
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
    """Whether the oldest commits are left out where their files were cleaned (`earliest`)."""
    text: str
    """The range for people."""


def change_range(snapshot: Snapshot, begin: Moment | None, end: Moment | None = None) -> ChangeRange:
    """The commits requested after `begin` and not after `end`.

    In every table version the bounds are requested times, as `ts_ms` is, other than those of incremental queries
    (`HoodieCDCFileIndex`, `HoodieCDCExtractor.initInstantAndCommitMetadata`, 1.2.0). A bound that is given as a commit
    is on the axis of incremental queries: ranges that follow on each other then have every change once, although a
    write may complete that was requested before it.

    Args:
        begin: a time, `000` for the start of the table, or `earliest`: the first instant which can be read.
        end: a time; None: the newest commit.

    Raises:
        ConfigError: the table does not log changes, there is no begin, or a bound is not a time.
    """
    logging_mode(snapshot)
    if begin is None:
        raise ConfigError(
            f"A query for the changes of the table at {snapshot.storage.uri} needs a begin: set "
            f"{_BEGIN} (or begin=) to a time, to 000 for the start of the table, or to 'earliest'"
        )
    zone, timeline = table_zone(snapshot.config), snapshot.timeline
    by_completion = timeline.layout.version >= 2
    bounds = (
        time_of(each, timeline, by_completion=by_completion) if each is not None else None for each in (begin, end)
    )
    first, last = (None if each is None or each == _EARLIEST else _bound(each, zone) for each in bounds)
    span = InstantRange(
        None if isinstance(begin, CommitTimes) else first, None if isinstance(end, CommitTimes) else last
    )
    # Whatever was requested after a time was completed after it too
    completed = InstantRange(first, last if isinstance(end, CommitTimes) else None)
    commits = read_commits(snapshot.storage, snapshot.config, timeline, completed)
    return ChangeRange(
        tuple(commit for commit in commits if span.holds(commit.time)),
        first is None,
        f"requested after {first or 'the first reachable commit'} up to {last or 'the newest commit'}",
    )


def _bound(value: str | int | date, zone: tzinfo) -> str:
    """Digits are compared as they are, as in Apache Hudi."""
    text = str(value).strip()
    return text if text.isdecimal() and text.isascii() else parse_instant(value, zone)


def plan_changes(
    snapshot: Snapshot,
    commits: Iterable[Commit],
    *,
    columns: Sequence[str],
    condition: Filter | None = None,
    partitions: Sequence[str] | None = None,
    limit: int | None = None,
    batch_rows: int,
    options: Mapping[str, str] | None = None,
    reachable_only: bool = False,
) -> Plan:
    """The changes which commits made, a split for each file group.

    Args:
        snapshot: the table.
        commits: in any order; compactions, clusterings and operations which change no row are left out.
        columns, condition: of `CHANGE_SCHEMA`.
        partitions: paths; None: all.
        options: for the merge, see `merge_settings`.
        reachable_only: leave out the oldest commits where files which their changes need have been cleaned.

    Raises:
        ConfigError: the table does not log changes.
        HistoryCleanedError: a file which is needed has been cleaned; some of those that are not looked up here are
            found missing when the split is read.
        UnsupportedTableError: a commit rewrote rows without logging changes, or the table has a feature that would be
            read wrong.
    """
    inference = Inference(snapshot, None if partitions is None else frozenset(partitions))
    changes: dict[tuple[PartitionPath, FileId], list[Change]] = defaultdict(list)
    # The newest first, so that the search ends where files were cleaned
    for commit in sorted(commits, key=lambda commit: commit.time, reverse=True):
        try:
            found = inference.changes_of(commit, check=reachable_only)
        except HistoryCleanedError:
            if reachable_only:
                break
            raise
        for partition, file_id, change in reversed(found):
            changes[partition, file_id].append(change)
    check_known(partitions, inference.touched, snapshot, options)
    spec = ReadSpec(
        uri=snapshot.storage.uri,
        table_schema=CHANGE_SCHEMA,
        columns=tuple(columns),
        filter=condition,
        merge=None,
        committed=None,
        as_of=None,
        batch_rows=batch_rows,
        limit=limit,
    )
    source = _source(snapshot, changes, batch_rows, options)
    splits = tuple(
        ChangeSplit(spec, partition, file_id, None, (), source=source, changes=tuple(reversed(found)))
        for (partition, file_id), found in sorted(changes.items())
    )
    return Plan(spec, splits, len(inference.touched), len({split.partition for split in splits}))


def _source(
    snapshot: Snapshot,
    changes: Mapping[tuple[PartitionPath, FileId], Sequence[Change]],
    batch_rows: int,
    options: Mapping[str, str] | None,
) -> ChangeSource:
    config = snapshot.config
    resolved = resolve_table_schema(snapshot.storage, config, snapshot.timeline)
    record: dict[str, Any] = {"type": "record", "name": "record", "fields": []}
    if resolved:
        record = resolved.avro
    own = [field for field in record["fields"] if field["name"] not in (*META_FIELDS, OPERATION)]
    every = [change for found in changes.values() for change in found]
    merges = any(
        change.case is InferenceCase.LOG_FILE or (change.before is not None and change.before.log_files)
        for change in every
    )
    by_key = merges or any(change.case is InferenceCase.AS_IS and change.after is not None for change in every)
    if by_key and not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"Cannot read the changes of {snapshot.storage.uri}: it has hoodie.populate.meta.fields=false, and its "
            "changes are to be found by record key; supported are tables with meta fields"
        )
    schema = resolved.arrow if resolved else snapshot.schema
    if OPERATION in snapshot.schema.names:
        schema = with_operation(schema)
    rows = ReadSpec(
        uri=snapshot.storage.uri,
        table_schema=schema,
        columns=tuple(schema.names),
        filter=None,
        merge=merge_settings(config, options) if merges else None,
        committed=snapshot.committed if merges else None,
        as_of=None,
        batch_rows=batch_rows,
        history=resolved.history if resolved else None,
        memory=LogMemory.of(options or {}),
        read_damaged=ReadOptions.of(options).damaged,
    )
    return ChangeSource(rows, logging_mode(snapshot), json.dumps({**record, "fields": own}))
