"""Writes batches of streaming queries, each once (`HoodieStreamingSink`, `CommitUtils`, 0.15 and 1.2.0).

A commit records its batch in the extra metadata: `_hudi_streaming_sink_checkpoint` is a JSON object of the query's
identifier and the batch id as text. The newest commit that names an identifier contains the last batch of its query.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from hudi_py.config import Options, concurrency, incremental
from hudi_py.errors import ConfigError, CorruptFileError, HudiError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import WRITE_ACTIONS, InstantTime
from hudi_py.model.limits import parse_json
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import decode_commit_metadata, read_commit_metadata
from hudi_py.timeline.timeline import Pin, Timeline
from hudi_py.transaction.conflicts import ConflictPolicy, WriteScope
from hudi_py.transaction.owner.identity import new_writer_id
from hudi_py.transaction.session import LockedTable

CHECKPOINT_KEY = "_hudi_streaming_sink_checkpoint"
QUERY_KEY = "hudi_py.streaming.query"
"""Key of the id of the Spark query, which Apache Hudi does not record."""

_ARCHIVED_AT_ONCE = 50
_MARK_DIGITS = 16


class BatchCommittedError(HudiError):
    """Raised when the table already contains the batch: there is nothing to write."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a streaming query."""

    identifier: str
    """`hoodie.datasource.write.streaming.checkpoint.identifier`."""
    id: int
    query: str | None = None
    """Id of the Spark query, if known."""

    @property
    def extra(self) -> dict[str, str]:
        """The metadata that its commit records."""
        noted = json.dumps({self.identifier: str(self.id)}, ensure_ascii=False, separators=(",", ":"))
        return {CHECKPOINT_KEY: noted} if self.query is None else {CHECKPOINT_KEY: noted, QUERY_KEY: self.query}

    def check_new(self, last: Batch | None) -> None:
        """Compares the batch with the last one of the same identifier.

        Raises:
            BatchCommittedError: this one has been committed.
            ConfigError: that one is another query's, whose batches would be taken for those of this query.
        """
        if last is None or last.id < self.id:
            return
        if self.query is not None and last.query not in (None, self.query):
            raise ConfigError(
                f"Cannot write batch {self.id} of the streaming query {self.query}: the query {last.query} has written "
                f"up to batch {last.id} under the same identifier '{self.identifier}', so this batch would pass for "
                f"one of its batches; give this query another {incremental.SINK_IDENTIFIER.key}, or the "
                "checkpoint of the other one"
            )
        raise BatchCommittedError(f"batch {self.id} of '{self.identifier}' is in the table, as are all up to {last.id}")


def retry_pause_s(options: Options) -> float:
    """Returns the seconds before a batch is tried a second time."""
    return options.get(incremental.SINK_RETRY_INTERVAL_MS) / 1000


def marked_writer_id(stream: str) -> str:
    """Returns an id for a writer of a query's batch, which `is_of_stream` recognises."""
    return _stream_mark(stream) + new_writer_id()[_MARK_DIGITS:]


def is_of_stream(writer_id: str, stream: str) -> bool:
    """Returns whether a writer writes batches of this query."""
    return writer_id.startswith(_stream_mark(stream))


def _stream_mark(stream: str) -> str:
    return hashlib.sha256(stream.encode()).hexdigest()[:_MARK_DIGITS]


def given_batch(options: Options) -> Batch | None:
    """Returns the batch that the options of a write name (`hoodie.internal.spark.streaming.batch.id`). Raises the
    errors of `stream_identifier`."""
    number = options.get(incremental.SINK_BATCH_ID)
    return None if number < 0 else Batch(stream_identifier(options), number)


def stream_identifier(options: Options) -> str:
    """Returns the identifier of a query (`DefaultSource.validateMultiWriterConfigs`, 1.2.0).

    Raises:
        ConfigError: it is not set although the table has several writers.
    """
    mode = options.get(concurrency.MODE)
    if mode != concurrency.SINGLE_WRITER and not options.given(incremental.SINK_IDENTIFIER):
        raise ConfigError(
            f"Cannot stream with {options.name_of(concurrency.MODE)} = '{mode}' and without "
            f"{incremental.SINK_IDENTIFIER.key}: set it, to another value for each streaming query on the table"
        )
    return options.get(incremental.SINK_IDENTIFIER)


def last_batch(storage: Storage, timeline: Timeline, identifier: str) -> Batch | None:
    """Finds the last batch of a query in the active timeline, which is where Apache Hudi looks.

    Raises:
        CorruptFileError: a commit notes its batch in another way.
    """
    for instant in reversed(timeline.write_completed):
        try:
            metadata = read_commit_metadata(storage, timeline.layout, instant)
        except FileNotFoundError:  # archived meanwhile, and so are those before it
            return None
        batch = batch_of(metadata, identifier, instant.time)
        if batch is not None:
            return batch
    return None


def last_archived_batch(storage: Storage, config: TableConfig, identifier: str) -> Batch | None:
    """Finds the last batch of a query in the archived timeline, read backwards. Raises the errors of `last_batch`."""
    times = [
        archived_instant.time
        for archived_instant in archived_instants(
            storage, config, ArchiveQuery(chosen=lambda it: it.action in WRITE_ACTIONS)
        )
    ]
    for end in range(len(times), 0, -_ARCHIVED_AT_ONCE):
        first, last = times[max(end - _ARCHIVED_AT_ONCE, 0)], times[end - 1]
        some = archived_instants(
            storage,
            config,
            ArchiveQuery(since=first, until=last, chosen=lambda it: it.action in WRITE_ACTIONS, metadata=True),
        )
        for entry in reversed(some):
            context = f"the archived {entry.action.value} {entry.time} of {storage.uri}"
            batch = batch_of(decode_commit_metadata(entry.metadata or b"", context), identifier, entry.time)
            if batch is not None:
                return batch
    return None


def batch_of(metadata: CommitMetadata, identifier: str, instant: InstantTime) -> Batch | None:
    """Returns the batch that a commit contains; None if it contains none of this query.

    Raises:
        CorruptFileError: what it records cannot be read.
    """
    text = metadata.extra.get(CHECKPOINT_KEY)
    if not text:
        return None
    try:
        noted = parse_json(text)
        if not isinstance(noted, Mapping):
            raise TypeError(type(noted).__name__)
        value = noted.get(identifier)
        return None if value is None else Batch(identifier, int(value), metadata.extra.get(QUERY_KEY))
    except (ValueError, TypeError) as error:
        raise CorruptFileError(
            f"Cannot read the streaming batch recorded in the commit {instant}: {CHECKPOINT_KEY} is {text!r}; expected "
            "a JSON object of identifiers and batch ids",
            instant=instant,
        ) from error


@dataclass(frozen=True, slots=True)
class OncePerBatch:
    """A `ConflictPolicy` that also looks for the batch in commits that another process of the same query completed
    since the batch was first planned."""

    others: ConflictPolicy
    batch: Batch
    pin: Pin

    @property
    def one_at_a_time(self) -> bool:
        return self.others.one_at_a_time

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        self._check_committed(table)
        self.others.check_begin(table, scope)

    def check_plan(self, table: LockedTable, scope: WriteScope) -> None:
        self.others.check_plan(table, scope)

    def check_commit(self, table: LockedTable, scope: WriteScope) -> str | None:
        self._check_committed(table)
        return self.others.check_commit(table, scope)

    def _check_committed(self, table: LockedTable) -> None:
        timeline = table.timeline
        for instant in timeline.completed_since(self.pin):
            if instant.action.comparable in WRITE_ACTIONS:
                metadata = read_commit_metadata(table.session.storage, timeline.layout, instant)
                self.batch.check_new(batch_of(metadata, self.batch.identifier, instant.time))
