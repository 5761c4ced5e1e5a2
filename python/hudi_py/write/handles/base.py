"""Writes a base file: permit, temporary file, publication, write statistics (`HoodieCreateHandle`, Apache Hudi
1.2.0)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType

import pyarrow as pa

from hudi_py.file_stats.footers import written_ranges
from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.formats.arrays import combined
from hudi_py.formats.base.files import base_writer
from hudi_py.formats.base.rows import BaseFileSummary
from hudi_py.model.commit import WriteStat, WrittenFile
from hudi_py.model.files import BaseFile
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema import FILE_NAME, RECORD_KEY
from hudi_py.write.context import FileContext, WriteContext

STEP_ROWS = 16_384
"""Rows between two checks of the size of a file."""


def steps(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the batch in steps; the size of the file is checked after each step."""
    for start in range(0, batch.num_rows, STEP_ROWS):
        yield batch.slice(start, STEP_ROWS)


class BaseFileHandle:
    """A base file being written. A context manager: an error inside the block abandons the file."""

    def __init__(
        self,
        context: FileContext,
        partition: PartitionPath,
        file_id: FileId | None = None,
        *,
        previous: BaseFile | None = None,
    ) -> None:
        """Begins a base file. `previous`: the base file of the group's latest slice; None creates a new file group."""
        self.context = context
        self.partition = partition
        self.file_id = file_id or context.new_file_id()
        self.previous = previous
        self._started = time.monotonic()
        action = context.action
        self._permit = action.publication.permit_base_file(
            partition,
            self.file_id,
            str(context.task),
            merges=previous is not None,
            extension=action.attempt.config.base_file_extension,
        )
        self.name = self._permit.path.rpartition("/")[2]
        self._summary: BaseFileSummary | None = None
        self.sidecar = Sidecar() if context.tracks_keys else None
        """Collects the keys of `write_new`; the caller adds those of `write`."""
        if self.sidecar is not None:
            self.sidecar.begin_keys()
        self._writer = base_writer(
            action.storage,
            self._permit.temp_path,
            context.file_schema,
            context.file_avro_json,
            bloom=context.bloom,
            layout=context.layout,
        )

    def __enter__(self) -> BaseFileHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._summary is None:
            self.abandon()

    @property
    def bytes_written(self) -> int:
        """Estimated size of the file so far."""
        return self._writer.bytes_written

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows in the context's `keyed_schema`, as they are stored."""
        self._writer.write(self.context.stripped(rows))

    def write_new(self, rows: pa.RecordBatch) -> None:
        """Adds new rows: `_hoodie_record_key`, then the table's columns."""
        self._writer.write(self.context.stripped(self.context.new_rows(rows, self.partition, self.name)))
        if self.sidecar is not None:
            self.sidecar.add_keys(rows.column(0))

    def write_moved(self, rows: pa.RecordBatch) -> None:
        """Adds rows of another file group in the context's `keyed_schema`, which keep their meta columns except for the
        file name."""
        file_name_index = rows.schema.get_field_index(FILE_NAME)
        if file_name_index >= 0:
            name = pa.repeat(pa.scalar(self.name, pa.string()), rows.num_rows)
            rows = rows.set_column(file_name_index, rows.schema.field(file_name_index), name)
        self.write(rows)
        if self.sidecar is not None:
            self.sidecar.add_keys(combined(rows[RECORD_KEY]))

    def flush(self) -> None:
        """Writes out the rows that wait for their row group, which ends here."""
        self._writer.flush()

    def finish(self, *, inserts: int | None = None, updates: int = 0, deletes: int = 0) -> WriteStat:
        """Completes and publishes the file. `inserts` None: all its rows."""
        publication = self.context.action.publication
        publication.before_close(self._permit)
        self._summary = summary = self._writer.close()
        self._save_sidecar(summary)
        publication.publish(self._permit)
        self.context.progress.wrote(summary.size)
        written = WrittenFile(
            self.file_id,
            self._permit.path,
            self.partition,
            summary.size,
            rows=summary.num_rows,
            inserts=summary.num_rows if inserts is None else inserts,
            updates=updates,
            deletes=deletes,
            took_ms=int((time.monotonic() - self._started) * 1000),
        )
        return WriteStat.of_base_file(written, self.previous)

    def _save_sidecar(self, summary: BaseFileSummary) -> None:
        sidecar, columns = self.sidecar, self.context.range_columns
        if columns and summary.metadata is not None:
            sidecar = sidecar or Sidecar()
            storage, path = self.context.action.storage, self._permit.temp_path
            sidecar.set_ranges(written_ranges(storage, path, summary.metadata, columns, summary.nan).rows)
        if sidecar is not None:
            self.context.action.keep_sidecar(sidecar, self._permit.path)

    def abandon(self) -> None:
        """Deletes what was written."""
        if self._summary is None:
            error = RuntimeError("the file was abandoned")
            self._writer.__exit__(type(error), error, None)
        self.context.action.publication.discard(self._permit)


def new_file_group(
    context: WriteContext, partition: PartitionPath, batches: Iterable[pa.RecordBatch], file_id: FileId | None = None
) -> list[WriteStat]:
    """Writes new rows (`_hoodie_record_key`, then the table's columns) to a new file group, or to several if the file
    gets full, unless `file_id` names one. Without rows, writes nothing."""
    return write_files(
        partial(BaseFileHandle, context, partition, file_id),
        BaseFileHandle.write_new,
        batches,
        max_bytes=context.settings.packing.max_file_size if file_id is None else None,
    )


def write_files(
    opened: Callable[[], BaseFileHandle],
    write: Callable[[BaseFileHandle, pa.RecordBatch], None],
    batches: Iterable[pa.RecordBatch],
    *,
    max_bytes: int | None = None,
    max_rows: int | None = None,
) -> list[WriteStat]:
    """Writes rows to one file after another. Without rows, writes nothing.

    Args:
        opened: opens the next file.
        write: adds rows to a file.
        max_bytes, max_rows: when a file is full; None: never.
    """
    stats: list[WriteStat] = []
    handle: BaseFileHandle | None = None
    count = 0
    try:
        for batch in (step for whole in batches for step in steps(whole)):
            while batch.num_rows:
                full = handle is not None and max_bytes is not None and handle.bytes_written >= max_bytes
                if handle is not None and (full or count == max_rows):
                    stats.append(handle.finish())
                    handle, count = None, 0
                if handle is None:
                    handle = opened()
                part = batch if max_rows is None else batch.slice(0, max_rows - count)
                write(handle, part)
                count += part.num_rows
                batch = batch.slice(part.num_rows)
        if handle is not None:
            stats.append(handle.finish())
    except BaseException:
        if handle is not None:
            handle.abandon()
        raise
    return stats
