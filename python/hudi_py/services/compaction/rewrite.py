"""Rewrites a file slice as one base file (`FileGroupReaderBasedMergeHandle`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.config import write as write_config
from hudi_py.errors import UnsupportedTableError
from hudi_py.file_stats.columns import IndexedColumn
from hudi_py.file_stats.footers import written_ranges
from hudi_py.formats.base.files import base_writer
from hudi_py.formats.base.parquet_writer import FileLayout
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.merge import CommittedInstants, LogMemory, LogSpec, merge_settings
from hudi_py.merge.base import MergeCounts, Watch
from hudi_py.model.commit import CompactedLogs, WrittenFile
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.read.slices.reader import MERGE_ROWS, SliceReader
from hudi_py.read.split import ReadSpec, Split
from hudi_py.schema import FILE_NAME, META_FIELDS, OPERATION, SchemaHistory, StoredRows, with_meta, with_operation
from hudi_py.schema.meta import avro_text_field, avro_with_meta, compact_json
from hudi_py.storage import Storage
from hudi_py.storage.threads import write_threads
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import (
    LATEST_SCHEMA_KEY,
    SCHEMA_KEY,
    NewestCommits,
    has_operation_column,
    resolve_table_schema,
)
from hudi_py.timeline.timeline import Timeline
from hudi_py.write.changes import ChangeLogging
from hudi_py.write.context import FileSettings
from hudi_py.write.settings import bloom_config, file_layout
from hudi_py.write.table.support import check_files_writable, check_types


@dataclass(frozen=True, slots=True)
class RewriteSettings:
    """How to rewrite the slices of one plan. Pickles; holds no credentials."""

    schema: pa.Schema
    """Columns of the new files, starting with the meta columns if there are any."""
    avro_json: str
    """The same as an Avro record."""
    extra: dict[str, str]
    """Extra metadata of the commit: the table's schema without meta columns, and its internal schema if it has one."""
    logs: LogSpec
    history: SchemaHistory | None
    bloom: BloomConfig | None
    layout: FileLayout
    changes: ChangeLogging | None
    """How changes are logged; None: they are not."""
    range_columns: tuple[IndexedColumn, ...] = ()
    """Columns for which the metadata table stores ranges."""

    @classmethod
    def of(
        cls,
        state: TableState,
        options: Options,
        *,
        as_of: InstantTime,
        logs: bool = False,
        do: str = "compact",
    ) -> RewriteSettings:
        """Returns how to rewrite the slices of a plan.

        Args:
            state: the current state.
            as_of: the plan's instant. If columns are identified by id, a base file has the columns of its instant.
            logs: whether the slices are rewritten as log files.
            do: what is done to the table, for errors.

        Raises:
            UnsupportedTableError: a feature of the table would be lost or broken.
            ConfigError: an option has a value that is not supported.
        """
        check_compactable(state.config, do)
        commits = NewestCommits(state)
        table = resolve_table_schema(state, commits, writes=True)
        if table is not None and table.evolves_on_read:
            earlier = tuple(instant for instant in state.timeline.files if instant.time <= as_of)
            then = Timeline(state.timeline.layout, earlier, state.timeline.start)
            commits = NewestCommits(state.at(then))
            table = resolve_table_schema(state.at(then), commits)
        if table is None:
            raise UnsupportedTableError(
                f"Cannot {do} the table at {state.storage.uri}: its schema is in neither a commit nor a data file; "
                "write to the table first"
            )
        check_types(state.config, table.avro)
        stored = table.stored
        schema, avro = stored.columns(table.arrow), stored.avro(table.avro)
        if logs:
            schema, avro = with_meta(table.arrow), avro_with_meta(table.avro)
        if OPERATION not in schema.names and has_operation_column(state.storage, state.config, commits):
            schema, avro = with_operation(schema), _with_operation(avro)
        extra = {SCHEMA_KEY: compact_json(table.stored_avro)}
        if table.evolves_on_read:
            latest = next((text for commit in commits if (text := commit.extra.get(LATEST_SCHEMA_KEY))), None)
            if latest is not None:
                extra[LATEST_SCHEMA_KEY] = latest
        for option in (read_config.MERGE_MEMORY, read_config.FLINK_MERGE_MEMORY):
            options.get(option)  # an option of reads, so it was not checked with those of writes
        memory = LogMemory.of(options.values)
        threads = write_threads(options)
        return cls(
            schema=schema,
            avro_json=compact_json(avro),
            extra=extra,
            logs=LogSpec(
                merge_settings(state.config, options.values),
                CommittedInstants.of(state.config, state.timeline),
                memory=replace(memory, limit=max(memory.limit // threads, 1)),
            ),
            history=table.history,
            bloom=bloom_config(options) if stored.has_meta else None,
            layout=file_layout(state.config, options),
            changes=ChangeLogging.of(state.config, table.stored_avro, options.get(write_config.LOG_BLOCK_MAX_SIZE)),
        )

    def files(self, config: TableConfig) -> FileSettings:
        """Returns how the base files of a table with these properties are written."""
        return FileSettings(StoredRows.of(config), self.schema, json.loads(self.avro_json), self.bloom, self.layout)

    def spec(
        self,
        storage: Storage,
        schema: pa.Schema,
        key_fields: tuple[str, ...] = (),
        columns: tuple[str, ...] | None = None,
    ) -> ReadSpec:
        """Describes how to read the slices to rewrite."""
        return ReadSpec(
            uri=storage.uri,
            table_schema=schema,
            columns=tuple(schema.names) if columns is None else columns,
            batch_rows=MERGE_ROWS,
            logs=self.logs,
            history=self.history,
            key_fields=key_fields,
        )


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One file slice to rewrite."""

    storage: Storage
    config: TableConfig
    options: Options
    instant: InstantTime
    """Requested time of the compaction."""
    slice: FileSlice
    path: str
    """Temporary path of the new file, relative to the base path."""
    file_name: str
    """Its name once it is published."""
    settings: RewriteSettings | None
    """None if the service has its own `rewrite`."""
    watch: Watch | None = None
    """Called with each change that the logs make to the base file."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A new file, and statistics of its rows."""

    num_rows: int
    size: int
    """Bytes of the file."""
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    logs: CompactedLogs | None = None
    ranges: pa.RecordBatch | None = None
    """Statistics of the columns, as in `Sidecar`."""

    def file(self, slice_: FileSlice, path: str, took_ms: int) -> WrittenFile:
        """Describes the file written to a path for a slice."""
        return WrittenFile(
            slice_.file_id,
            path,
            slice_.partition,
            self.size,
            rows=self.num_rows,
            inserts=self.inserts,
            updates=self.updates,
            deletes=self.deletes,
            took_ms=took_ms,
        )


Rewrite = Callable[[RewriteTask], Rewritten]
"""Writes the new file of a slice. It may be called more than once for the same slice, in any process."""


def check_compactable(config: TableConfig, do: str = "compact") -> None:
    """Raises UnsupportedTableError if a compaction, or the action named by `do`, would lose something that Apache Hudi
    keeps."""
    check_files_writable(config, do)


def rewrite_slice(task: RewriteTask) -> Rewritten:
    """Writes the merged rows of a slice as a base file, in bounded memory.

    Meta columns keep their values, except the file name.

    Raises:
        CorruptFileError, SchemaMismatchError, UnsupportedTableError: the content of the files.
    """
    settings = task.settings
    assert settings is not None
    spec = settings.spec(task.storage, settings.schema)
    counts = MergeCounts()
    writer = base_writer(
        task.storage,
        task.path,
        settings.schema,
        settings.avro_json,
        bloom=settings.bloom,
        layout=settings.layout,
    )
    file_name_index = settings.schema.get_field_index(FILE_NAME)
    name = pa.scalar(task.file_name, pa.string())
    with writer, SliceReader(task.storage, Split.of(spec, task.slice), counts=counts, watch=task.watch) as reader:
        for batch in reader.rows():
            if file_name_index >= 0:
                batch = batch.set_column(
                    file_name_index, settings.schema.field(file_name_index), pa.repeat(name, batch.num_rows)
                )
            writer.write(batch)
        summary = writer.close()
    logs = CompactedLogs(
        files=len(task.slice.log_files),
        size=counts.block_bytes,
        blocks=counts.blocks,
        records=counts.records,
        updated=counts.keys,
        read_ms=counts.read_ms,
    )
    ranges = None
    if settings.range_columns and summary.metadata is not None:
        ranges = written_ranges(task.storage, task.path, summary.metadata, settings.range_columns, summary.nan).rows
    return Rewritten(summary.num_rows, summary.size, counts.inserts, counts.updates, counts.deletes, logs, ranges)


def _with_operation(avro: dict[str, Any]) -> dict[str, Any]:
    fields = avro["fields"]
    return {**avro, "fields": [*fields[: len(META_FIELDS)], avro_text_field(OPERATION), *fields[len(META_FIELDS) :]]}
