"""Merges the log files of a slice into one, as a planned service (`HoodieLogCompactionPlanGenerator`,
`ScheduleCompactionActionExecutor`, `FileGroupReaderBasedAppendHandle`, 1.2.0).

The new log contains the old ones merged with each other: one version of each key, and deletes with their ordering
values. Its blocks name the instants that they replace in later merges (`COMPACTED_BLOCK_TIMES`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.config import write as write_config
from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_data_block, encode_deletes
from hudi_py.merge import CommittedInstants, LogRecords, MergeSettings, SliceLog, merge_settings, scan_log
from hudi_py.model.commit import CompactedLogs, WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import InstantTime
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.schema import RECORD_KEY
from hudi_py.services.compaction.plan import (
    LOG_COMPACTION_PLANS,
    CompactionScope,
    busy_groups,
    operations_of,
    without_obsolete,
)
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings, RewriteTask, Rewritten, check_compactable
from hudi_py.services.compaction.service import CompactionSlice, LogRewriting, publish_rewritten
from hudi_py.services.compaction.trigger import since_compaction, since_log_compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Due, Service, Step, run_step
from hudi_py.services.planned.codec import PlanCodec, slice_of
from hudi_py.services.planned.phases import Chosen, UnitOutcome
from hudi_py.services.planned.service import planned_files
from hudi_py.storage import Storage
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan
from hudi_py.timeline.state import TableState
from hudi_py.write.context import TaskId
from hudi_py.write.settings import base_file_codec

_FIRST_VERSION = 8
"""First table version in which log files are named by their own instant."""


@dataclass(frozen=True, slots=True)
class LogCompaction(LogRewriting):
    """Log compaction of a merge-on-read table of version 8 or 9."""

    committed: CommittedInstants | None = None
    """Instants whose log blocks count; used with `rewrite`."""

    operation: ClassVar[str] = "LOG_COMPACT"

    @property
    def codec(self) -> PlanCodec[CompactionPlan, CompactionOperation]:
        return LOG_COMPACTION_PLANS

    def check_table(self, config: TableConfig, options: Options) -> None:
        check_logs_compactable(config, options)

    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen[CompactionPlan]:
        storage, options, timeline = context.storage, context.options, state.timeline
        threshold = options.get(compaction_config.LOG_BLOCKS_THRESHOLD)
        chosen = instant if instant is not None else context.session.clock.next_instant(timeline)
        backlog = since_compaction(timeline)
        if backlog is None:
            return Chosen(chosen, None, "there is no delta commit yet")
        if not self.always:
            count = min(backlog.count, since_log_compaction(storage, timeline))
            if count < threshold:
                return Chosen(
                    chosen,
                    None,
                    f"{counted(count, 'delta commit')} since the last compaction or log compaction, due after "
                    f"{threshold} ({compaction_config.LOG_BLOCKS_THRESHOLD.key})",
                )
        view = context.view(state)
        busy = busy_groups(storage, timeline, view, log_compactions=True)
        operations = operations_of(
            view,
            list(view.partitions()),
            CompactionScope(chosen, busy, options.get(write_config.MAX_FILE_SIZE)),
            wanted=partial(_has_enough, storage, threshold, self.committed),
        )
        if not operations:
            return Chosen(
                chosen,
                None,
                f"no file group has {threshold} log files or blocks ({compaction_config.LOG_BLOCKS_THRESHOLD.key}), "
                "apart from those in pending plans",
            )
        return Chosen(chosen, CompactionPlan(tuple(operations), ()))

    def table_settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> RewriteSettings:
        config = state.config
        check_logs_compactable(config, context.options)
        settings = RewriteSettings.of(state, context.options, as_of=instant, logs=True)
        if settings.history is not None and settings.history.query is not None:
            raise UnsupportedTableError(
                f"Cannot compact the logs of the table at {context.storage.uri}: its schema evolves on read "
                "(hoodie.schema.on.read.enable); supported: tables whose schema evolves on write; compact the table "
                "instead"
            )
        return settings

    def execute_unit(self, context: ServiceContext, planned: CompactionSlice) -> UnitOutcome:
        return UnitOutcome(planned.number, (compact_logs(context, planned, self.rewrite or rewrite_logs),))

    def still_needed(
        self, context: ServiceContext, state: TableState, units: tuple[CompactionOperation, ...]
    ) -> tuple[tuple[CompactionOperation, ...], str]:
        """Returns the operations that are not obsolete. Apache Hudi 1.2.0 refuses log compactions older than a
        compaction (`BaseHoodieTableServiceClient.logCompact`)."""
        reason = "later compactions cover the logs of its file groups, or the file groups were replaced"
        return without_obsolete(context.view(state), units), reason


def check_logs_compactable(config: TableConfig, options: Options) -> None:
    """Raises UnsupportedTableError if the logs cannot be compacted, or would lose what Apache Hudi keeps."""
    if config.version < _FIRST_VERSION:
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table '{config.name}': its version is {config.version}; "
            f"supported: versions {_FIRST_VERSION} and later; compact the table instead"
        )
    check_compactable(config)
    merge = merge_settings(config, options.values)
    if merge.payload is not None or merge.merger is not None:
        how = merge.merger or (merge.payload.value if merge.payload is not None else "")
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table '{config.name}': its records are merged by {how}; "
            "supported: COMMIT_TIME_ORDERING and EVENT_TIME_ORDERING; compact the table instead"
        )


def _has_enough(storage: Storage, threshold: int, committed: CommittedInstants | None, slice_: FileSlice) -> bool:
    """Returns whether a slice has enough log files or blocks. Blocks of one instant count once.

    Source: `HoodieLogCompactionPlanGenerator.isFileSliceEligibleForLogCompaction`.
    """
    blocks = scan_log(storage, slice_.log_files, committed=committed)
    instants = {block.instant_time for block in blocks}
    enough = len(slice_.log_files) >= threshold or len(instants) >= threshold
    return enough and len(instants) > 1


Slots: TypeAlias = npt.NDArray[np.int64]


@dataclass(slots=True)
class _LogStatistics:
    """Statistics of the new log file."""

    size: int = 0
    rows: int = 0
    deletes: int = 0
    records: int = 0
    keys: int = 0


def compact_logs(context: ServiceContext, planned: CompactionSlice, rewrite: Rewrite) -> WriteStat:
    """Writes and publishes the new log file of one operation.

    Raises:
        RolledBackError: the attempt was given up in the meantime.
        HistoryCleanedError: a file of the plan is missing.
    """
    started = time.monotonic()
    whole = slice_of(context, planned.unit, planned.sizes)
    publication = planned.running.publication
    token = str(TaskId.fresh(planned.number))
    permit = publication.permit_log_file(whole.partition, whole.file_id, token, new_group=False)
    done = publish_rewritten(context, planned, rewrite, whole, permit)
    took_ms = int((time.monotonic() - started) * 1000)
    return WriteStat.of_log_file(done.file(whole, permit.path, took_ms), planned.unit.base_instant, compacted=done.logs)


def rewrite_logs(task: RewriteTask) -> Rewritten:
    """Writes the logs of a slice of a table of rows as one log file."""
    started = time.monotonic()
    storage, whole, settings = task.storage, task.slice, task.settings
    assert settings is not None
    log = settings.logs.open(storage, whole.log_files, settings.history)
    with storage.open_output(task.path) as sink:
        written = _write_blocks(sink, task.instant, whole.partition, log, settings, task.options)
    logs = CompactedLogs(
        files=len(whole.log_files),
        size=sum(block.content_length for block in log.blocks if block.type.is_data),
        blocks=len(log.blocks),
        records=written.records,
        updated=written.keys,
        read_ms=int((time.monotonic() - started) * 1000),
    )
    return Rewritten(written.rows, written.size, updates=written.rows, deletes=written.deletes, logs=logs)


def _write_blocks(
    sink: BinaryIO,
    instant: InstantTime,
    partition: PartitionPath,
    log: SliceLog,
    settings: RewriteSettings,
    options: Options,
) -> _LogStatistics:
    written = _LogStatistics()
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.SCHEMA: settings.avro_json,
        HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(dict.fromkeys(block.instant_time or "" for block in log.blocks)),
    }
    avro, merge = json.loads(settings.avro_json), settings.logs.merge
    for part in log.parts(settings.schema):
        records = part if not merge.key_fields else replace(part, rows=_without_keys(part.rows))
        written.records += len(records.winners.ids)
        written.keys += len(records)
        for piece in _data_blocks(records, header, avro, options, written):
            written.size += sink.write(piece)
        gone = np.flatnonzero(records.winners.deletes)
        if len(gone):
            content = _delete_block(records, gone, partition, merge)
            written.size += sink.write(encode_block(BlockType.DELETE, header, content))
            written.deletes += len(gone)
    return written


def _without_keys(rows: pa.Table) -> pa.Table:
    """Removes the record keys from rows of a table whose files do not store them; they were computed."""
    key_index = rows.schema.get_field_index(RECORD_KEY)
    return rows.set_column(key_index, rows.schema.field(key_index), pa.nulls(rows.num_rows, pa.string()))


def _data_blocks(
    records: LogRecords, header: dict[HeaderKey, str], avro: dict[str, Any], options: Options, written: _LogStatistics
) -> Iterator[bytes | pa.Buffer]:
    """Yields the pieces of blocks of complete rows, then of rows that lack the same columns (partial updates)."""
    block_bytes = options.get(write_config.LOG_BLOCK_MAX_SIZE)
    codec = base_file_codec(options) if options.get(write_config.LOG_BLOCK_FORMAT) == "parquet" else None
    slots = np.sort(records.slots[(records.slots >= 0) & ~records.winners.deletes])
    for lacking, some in _by_columns(records, slots):
        rows = records.rows if len(some) == records.rows.num_rows else records.rows.take(pa.array(some))
        own, schema = header, avro
        if lacking:
            rows = rows.drop_columns(list(lacking))
            schema = {**avro, "fields": [field for field in avro["fields"] if field["name"] not in lacking]}
            own = {**header, HeaderKey.IS_PARTIAL: "true"}
        written.rows += rows.num_rows
        at_once = rows.num_rows
        if rows.nbytes > block_bytes:
            at_once = max(1, int(rows.num_rows * block_bytes / rows.nbytes))
        for start in range(0, rows.num_rows, at_once):
            yield from encode_data_block(rows.slice(start, at_once).combine_chunks(), schema, own, parquet_codec=codec)


def _by_columns(records: LogRecords, slots: Slots) -> Iterator[tuple[tuple[str, ...], Slots]]:
    """Yields the rows by the columns that they lack, complete rows first."""
    names = sorted(records.absent)
    codes = np.zeros(len(slots), np.int64)
    groups: list[tuple[str, ...]] = [()]
    for name in names:
        lacks = records.absent[name][slots]
        pairs, codes = np.unique(codes * 2 + lacks, return_inverse=True)
        groups = [(*groups[pair // 2], name) if pair % 2 else groups[pair // 2] for pair in pairs.tolist()]
    for code in sorted(range(len(groups)), key=lambda code: groups[code]):
        some = slots[codes == code]
        if len(some):
            yield groups[code], some


def _delete_block(records: LogRecords, gone: npt.NDArray[np.intp], partition: str, merge: MergeSettings) -> bytes:
    winners = records.winners
    keys = winners.keys.take(pa.array(gone))
    # deletes that win over everything before them have no ordering value
    always = pa.array(winners.always[gone])
    columns = (
        [pc.if_else(always, pa.scalar(None, column.type), column.take(pa.array(gone))) for column in winners.ordering]
        if merge.ordered
        else []
    )
    ordering: pa.Array | None = None
    if len(columns) == 1:
        ordering = columns[0]
    elif columns:
        ordering = pa.StructArray.from_arrays(columns, names=list(merge.ordering_fields), mask=always)
    return encode_deletes(keys, pa.repeat(pa.scalar(partition, pa.string()), len(keys)), ordering)


def _steps_after_commit(options: Options, config: TableConfig) -> Iterator[Step]:
    if config.is_mor and options.get(compaction_config.LOG_INLINE):
        yield run_step(LogCompaction())


def _check_table(options: Options, config: TableConfig) -> None:
    if config.is_mor and options.get(compaction_config.LOG_INLINE):
        check_logs_compactable(config, options)


def _find_due(context: ServiceContext, state: TableState) -> Due | None:
    if not state.config.is_mor or not context.options.get(compaction_config.LOG_INLINE):
        return None
    preview = LogCompaction().preview(context)
    if not preview.rows:
        return Due("log_compaction", False, preview.reason)
    files = sum(map(planned_files, preview.rows))
    logs = f"{counted(len(preview.rows), 'file group')} with enough logs to merge"
    return Due("log_compaction", True, logs, files=files, num_bytes=preview.num_bytes)


LOG_COMPACTION: Final = Service(
    name="log_compaction",
    help="Merges the logs of each file group that has enough of them into one log",
    plans=partial(LogCompaction, always=True),
    command="log-compact",
    after_commit=AfterCommitRule(
        _steps_after_commit, check_table=_check_table, switch={compaction_config.LOG_INLINE: "true"}
    ),
    due=_find_due,
)
