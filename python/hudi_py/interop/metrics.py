"""Metrics of writes and table services, under Apache Hudi's names (`HoodieMetrics`, 1.2.0): measures of completed
actions, and their reporters.

`reported(uri)` returns the metrics that the reporter `INMEMORY` holds in this process.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import random
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from operator import attrgetter
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import monitoring as config
from hudi_py.errors import ConfigError, first_line
from hudi_py.model.commit import NO_PREVIOUS_COMMIT, CommitMetadata, CompactedLogs
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.properties import TableConfig
from hudi_py.services.planned.pending import SERVICE_ACTIONS
from hudi_py.storage import Storage
from hudi_py.timeline.clean_records import decode_clean_metadata
from hudi_py.timeline.metadata import decode_rollback_metadata, read_commit_metadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import epoch_ms
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_memory: dict[str, dict[str, int]] = {}
"""Metrics of INMEMORY, by the URI of the table."""
_served: dict[int, dict[str, int]] = {}
"""Metrics that PROMETHEUS serves, by port."""
_suffix: Final = random.randrange(1 << 62)
_deleted: set[tuple[str, str]] = set()
"""Gateways and jobs to delete when the process ends."""
_TIMEOUT_S: Final = 30
Measure = tuple[str, int]
"""Name, without the prefix, and value. Durations are in milliseconds, sizes in bytes."""
_PENDING = (
    ("clustering", "Clustering", Action.CLUSTERING),
    ("compaction", "Compaction", Action.COMPACTION),
    ("clean", "Clean", Action.CLEAN),
    ("rollback", "Rollback", Action.ROLLBACK),
)


def reported(uri: str) -> dict[str, int]:
    """Returns the metrics of INMEMORY in this process for a table, by its URI."""
    with _lock:
        return dict(_memory.get(uri, {}))


@dataclass(frozen=True, slots=True)
class MetricsStep:
    """Reports a commit, and the services that ran after it. Implements `AfterCommit`."""

    reporter: Reporter

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. Accepts every table."""

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Reports metrics. A failure is a warning."""

        def done(timeline: Timeline) -> list[Instant]:
            return [instant for instant in timeline.completed if _belongs(instant, session.config, committed)]

        return ("metrics",) if self.report(session, done) else ()

    def report(self, session: TableSession, done: Callable[[Timeline], Iterable[Instant]]) -> bool:
        """Reports what `done` finds in the current timeline; returns False with a warning if that fails."""
        uri, blocks = session.storage.uri, self.reporter.options.get(config.LOG_BLOCKS)
        try:
            timeline = session.timeline()
            measured = measures_of(session.storage, timeline, done(timeline), session.zone, log_blocks=blocks)
            measures = dict(measured)
        except Exception as error:  # whatever failed, the reported action is done
            _log.warning("metrics of %s could not be read: %s", uri, first_line(error))
            return False
        return self.reporter.report(uri, session.config.name, measures)


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reports the measures of one table. Can be pickled; contains no credentials."""

    options: Options

    @classmethod
    def of(cls, options: Options) -> Reporter | None:
        """Builds the reporter that options request; None if metrics are off.

        Raises:
            ConfigError: no kind of reporter is chosen, its package is missing, or labels are not pairs.
        """
        if not options.get(config.ENABLED):
            return None
        reporter = cls(options.without_credentials())
        if not reporter.kind:
            raise ConfigError(
                f"Cannot report metrics: {config.REPORTER.key} is not set, which in Apache Hudi means GRAPHITE; "
                f"supported: {config.REPORTER.expected}"
            )
        if reporter.kind in (config.PUSH, config.SERVE):
            _prometheus()
        _ = reporter.labels
        return reporter

    @property
    def kind(self) -> str:
        """Returns the kind of reporter; empty if none is chosen."""
        return self.options.get(config.REPORTER) or ""

    @property
    def labels(self) -> dict[str, str]:
        given = [part.strip() for part in self.options.get(config.LABELS).split(",") if part.strip()]
        wrong = [part for part in given if ":" not in part]
        if wrong:
            raise ConfigError(f"Option {config.LABELS.key} has the label '{wrong[0]}': expected name:value,name:value")
        return {name.strip(): value.strip() for name, _, value in (part.partition(":") for part in given)}

    def report(self, uri: str, table: str, measures: Mapping[str, int]) -> bool:
        """Reports measures of a table, by name without prefix; returns False with a warning if that fails."""
        prefix = self.options.get(config.PREFIX) or table
        named = {f"{prefix}.{name}" if prefix else name: value for name, value in measures.items()}
        try:
            with _lock:
                self._send(uri, named)
        except Exception as error:  # whatever failed, the reported action is done
            _log.warning(
                "the metrics of %s could not be reported to %s: %s; set hoodie.metrics.on=false to go on without them",
                uri,
                self.kind,
                first_line(error),
            )
            return False
        return True

    def _send(self, uri: str, named: dict[str, int]) -> None:
        if self.kind == config.MEMORY:
            _memory.setdefault(uri, {}).update(named)
        elif self.kind == config.CONSOLE:
            lines = [f"-- {datetime.now():%Y-%m-%d %H:%M:%S} metrics of {uri}"]
            sys.stdout.write("\n".join([*lines, *(f"{name} = {value}" for name, value in named.items())]) + "\n")
        elif self.kind == config.LOG:
            for name, value in named.items():
                _log.info("type=GAUGE, name=%s, value=%s", name, value)
        elif self.kind == config.SERVE:
            self._serve(named)
        else:
            self._push(named)

    def _push(self, named: Mapping[str, int]) -> None:
        prometheus = _prometheus()
        get = self.options.get
        host, port = get(config.PUSH_HOST), get(config.PUSH_PORT)
        gateway = f"{'https' if port == 443 else 'http'}://{host}:{port}"
        job = get(config.PUSH_JOB) + (str(_suffix) if get(config.PUSH_RANDOM) else "")
        registry = prometheus.CollectorRegistry()
        for name, value in named.items():
            prometheus.Gauge(metric_name(name), name, registry=registry).set(value)
        prometheus.pushadd_to_gateway(gateway, job=job, registry=registry, grouping_key=self.labels, timeout=_TIMEOUT_S)
        if get(config.PUSH_DELETE) and (gateway, job) not in _deleted:
            _deleted.add((gateway, job))
            atexit.register(_forget, gateway, job, self.labels)

    def _serve(self, named: Mapping[str, int]) -> None:
        port = self.options.get(config.SERVE_PORT)
        if port not in _served:
            prometheus = _prometheus()
            registry = prometheus.CollectorRegistry()
            values: dict[str, int] = {}
            registry.register(_Collector(values, self.labels))
            prometheus.start_http_server(port, registry=registry)
            _served[port] = values
        _served[port].update(named)


def metric_name(name: str) -> str:
    """Converts a name to one that Prometheus allows (`DropwizardExports`)."""
    text = re.sub(r"[^a-zA-Z0-9:_]", "_", name)
    return f"_{text}" if text[:1].isdigit() else text


def measures_of(
    storage: Storage, timeline: Timeline, instants: Iterable[Instant], zone: tzinfo, *, log_blocks: bool
) -> Iterator[Measure]:
    """Yields the measures of completed instants, and of the timeline. Instants that were archived or rolled back since
    have none."""
    for instant in instants:
        duration = _duration(instant, zone)
        try:
            if instant.action.comparable in WRITE_ACTIONS:
                metadata = read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True)
                action = SERVICE_ACTIONS.get(metadata.operation, instant.action.comparable.value)
                yield f"{action}.commitTime", epoch_ms(instant.time, zone)
                yield f"{action}.duration", duration
                yield from ((f"{action}.{name}", value) for name, value in _commit(metadata, log_blocks=log_blocks))
            elif instant.action is Action.CLEAN:
                path = timeline.layout.path(instant.file_name)
                clean = decode_clean_metadata(storage.read(path), f"{storage.uri}/{path}")
                yield "clean.duration", clean.time_taken_ms
                yield "clean.numFilesDeleted", sum(len(partition.deleted) for partition in clean.partitions)
            elif instant.action is Action.ROLLBACK:
                path = timeline.layout.path(instant.file_name)
                rollback = decode_rollback_metadata(storage.read(path), f"{storage.uri}/{path}")
                yield "rollback.duration", rollback.time_taken_ms
                yield "rollback.numFilesDeleted", sum(len(partition.deleted) for partition in rollback.partitions)
        except FileNotFoundError:
            continue
    yield from _state(timeline)


class _Collector:
    """Exposes the last reported values as gauges."""

    def __init__(self, values: Mapping[str, int], labels: Mapping[str, str]) -> None:
        self._values = values
        self._labels = labels

    def collect(self) -> Any:
        core = importlib.import_module("prometheus_client.core")
        with _lock:
            values = dict(self._values)
        for name, value in values.items():
            family = core.GaugeMetricFamily(metric_name(name), name, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), value)
            yield family


def _forget(gateway: str, job: str, labels: Mapping[str, str]) -> None:
    try:
        _prometheus().delete_from_gateway(gateway, job=job, grouping_key=dict(labels), timeout=_TIMEOUT_S)
    except OSError as error:
        _log.warning("the metrics of the job %s stay in the push gateway: %s", job, first_line(error))


def _prometheus() -> Any:
    try:
        return importlib.import_module("prometheus_client")
    except ImportError as error:
        raise ConfigError(
            "Cannot report metrics to Prometheus: the package prometheus_client is missing; install it with "
            "pip install 'hudi-py[metrics]'"
        ) from error


_SUMS: Final = (
    ("totalRecordsWritten", "num_writes"),
    ("totalUpdateRecordsWritten", "num_updates"),
    ("totalInsertRecordsWritten", "num_inserts"),
    ("totalRecordsDeleted", "num_deletes"),
    ("totalBytesWritten", "total_write_bytes"),
    ("totalScanTime", "compacted.read_ms"),
    ("totalCreateTime", "create_time_ms"),
    ("totalUpsertTime", "upsert_time_ms"),
    ("totalCompactedRecordsUpdated", "compacted.updated"),
    ("totalLogFilesCompacted", "compacted.files"),
    ("totalLogRecordsCompacted", "compacted.records"),
    ("totalLogFilesSize", "compacted.size"),
)
"""Gauges of what a commit wrote, and the members of its statistics whose sums they show."""
_BLOCK_SUMS: Final = (
    ("totalLogBlocksCompacted", "compacted.blocks"),
    ("totalCorruptedLogBlocks", "compacted.corrupt_blocks"),
    ("totalRollbackLogBlocks", "compacted.rollback_blocks"),
)


def _commit(metadata: CommitMetadata, *, log_blocks: bool) -> Iterator[Measure]:
    stats = [replace(stat, compacted=stat.compacted or CompactedLogs()) for stat in metadata.stats]
    new = [stat for stat in stats if stat.prev_commit in (NO_PREVIOUS_COMMIT, "")]
    yield "totalPartitionsWritten", len({stat.partition_path for stat in stats})
    yield "totalFilesInsert", len(new)
    yield "totalFilesUpdate", len(stats) - len(new)
    for name, member in (*_SUMS, *(_BLOCK_SUMS if log_blocks else ())):
        yield name, sum(map(attrgetter(member), stats))


def _state(timeline: Timeline) -> Iterator[Measure]:
    """Yields what is pending, and what was completed last (`updateTableServiceInstantMetrics`)."""
    for name, title, action in _PENDING:
        pending = [instant for instant in timeline.pending if instant.action is action]
        yield f"{name}.pending{title}InstantCount", len(pending)
        if pending:
            yield f"{name}.earliestInflight{title}Instant", _number(pending[0])
        kind = action.comparable
        done = [instant for instant in timeline.completed if instant.action.comparable is kind]
        if done:
            yield f"{kind.value}.latestCompleted{title}Instant", _number(done[-1])


def _number(instant: Instant) -> int:
    return int(re.sub(r"\D", "", instant.time)[:17])


def _duration(instant: Instant, zone: tzinfo) -> int:
    """Returns the time from request to completion."""
    if instant.completion_time is None:
        return 0
    return max(0, epoch_ms(instant.completion_time, zone) - epoch_ms(instant.time, zone))


def _belongs(instant: Instant, table: TableConfig, committed: Committed) -> bool:
    """Returns whether an instant is the commit, or a service after it; other writers' commits are not."""
    if instant.time == committed.instant:
        return instant.action.comparable in WRITE_ACTIONS
    is_service = instant.action is Action.CLEAN or (table.is_mor and instant.action is Action.COMMIT)
    return is_service and instant.time > committed.instant
