"""Writes change logs: the rows that were inserted, updated and deleted when a base file was rewritten
(`HoodieCDCLogger`, `HoodieCDCUtils`, Apache Hudi 1.2.0).

A change log is a log file of CDC blocks beside the new base file, and its commit names it in the file's statistics. It
exists even if nothing changed, because queries consider a rewritten file without one damaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pyarrow as pa

from hudi_py.formats.arrays import combined
from hudi_py.formats.avro import encode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, encode_block
from hudi_py.merge.base import Images
from hudi_py.model.changes import AFTER, BEFORE, DELETE, INSERT, KEY, OP, TS_MS, UPDATE, LoggingMode, logging_mode
from hudi_py.model.instant import InstantTime
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS, OPERATION, RECORD_KEY
from hudi_py.transaction.publication import Publication

_HELD_BYTES: Final = 32 << 20
"""Maximum bytes of changes that wait in memory until they fill a block, even if the options allow more."""
_KEYS_ONLY: Final = {
    "type": "record",
    "name": "Record",
    "fields": [{"name": OP, "type": ["string", "null"]}, {"name": KEY, "type": ["string", "null"]}],
}


@dataclass(frozen=True, slots=True)
class ChangeLogging:
    """How changes of a table's rows are logged. Pickles."""

    mode: LoggingMode
    avro_json: str
    """Schema of the records of a change log."""
    image: tuple[str, ...]
    """The columns of a row before or after a change: those of the table, without meta columns."""
    block_bytes: int
    """Arrow bytes of a block."""

    @classmethod
    def of(cls, config: TableConfig, avro: Mapping[str, Any], block_bytes: int) -> ChangeLogging | None:
        """Returns how to log changes; None if the table has no change data capture.

        Args:
            avro: the table's schema, a record.
            block_bytes: `hoodie.logfile.data.block.max.size`.

        Raises:
            UnsupportedTableError: the logging mode is unknown.
        """
        if not config.cdc_enabled:
            return None
        mode = logging_mode(config, f"write to the table '{config.name}'")
        fields = [field for field in avro["fields"] if field["name"] not in (*META_FIELDS, OPERATION)]
        schema = _KEYS_ONLY if mode is LoggingMode.OP_KEY_ONLY else _with_images({**avro, "fields": fields}, mode)
        return cls(
            mode,
            json.dumps(schema, separators=(",", ":"), ensure_ascii=False),
            tuple(field["name"] for field in fields),
            min(block_bytes, _HELD_BYTES),
        )


def _with_images(row: Mapping[str, Any], mode: LoggingMode) -> dict[str, Any]:
    """Returns the schema of changes with rows. The first image defines the row's record, the second one names it."""
    namespace, _, name = row["name"].rpartition(".")
    namespace = namespace or row.get("namespace", "")
    record = {key: value for key, value in row.items() if key != "namespace"} | {"name": name}
    images = iter([record, name])
    return {
        "type": "record",
        "name": "CDC",
        **({"namespace": namespace} if namespace else {}),
        "doc": "",
        "fields": [
            {
                "name": column,
                "type": ["null", next(images) if column in (BEFORE, AFTER) else "string"],
                "doc": "",
                "default": None,
            }
            for column in mode.columns
        ],
    }


class ChangeLog:
    """The change log of one base file."""

    def __init__(self, logging: ChangeLogging, instant: InstantTime, path: str, sink: BinaryIO) -> None:
        """Begins a change log. `path`: its future path, relative to the table's base path."""
        self._logging = logging
        self._avro = json.loads(logging.avro_json)
        self._header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: logging.avro_json}
        self._instant = instant
        self._path = path
        self._sink = sink
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._size = 0

    def add(self, before: Images | None, after: Images | None) -> None:
        """Logs changes of equally many rows: inserts if `before` is None, deletes if `after` is None, updates
        otherwise.

        The rows have the columns of the table and `_hoodie_record_key`.
        """
        rows = after if before is None else before
        if rows is None or not rows.num_rows:
            return
        operation = INSERT if before is None else DELETE if after is None else UPDATE
        columns = {
            OP: lambda: _repeat_text(operation, rows.num_rows),
            KEY: lambda: combined(rows[RECORD_KEY]),
            TS_MS: lambda: _repeat_text(self._instant, rows.num_rows),
            BEFORE: lambda: self._as_image(before, rows),
            AFTER: lambda: self._as_image(after, rows),
        }
        names = self._logging.mode.columns
        changes = pa.RecordBatch.from_arrays([columns[name]() for name in names], names=list(names))
        limit = self._logging.block_bytes
        at_once = max(1, changes.num_rows * limit // max(changes.nbytes, limit))
        for start in range(0, changes.num_rows, at_once):
            part = changes.slice(start, at_once)
            if self._pending_bytes + part.nbytes > limit and self._pending:
                self._write_block()
            self._pending.append(part)
            self._pending_bytes += part.nbytes

    def finish(self) -> dict[str, int]:
        """Writes the remaining changes. Returns path and size of the log, for the statistics of its base file."""
        if self._pending or not self._size:
            self._write_block()
        return {self._path: self._size}

    def _as_image(self, rows: Images | None, others: Images) -> pa.Array:
        """Returns rows as structs; all null if there are no rows."""
        chosen = others if rows is None else rows
        fields = [pa.field(name, chosen.schema.field(name).type) for name in self._logging.image]
        if rows is None:
            return pa.nulls(others.num_rows, pa.struct(fields))
        return pa.StructArray.from_arrays([combined(rows[field.name]) for field in fields], fields=fields)

    def _write_block(self) -> None:
        changes: pa.RecordBatch | pa.Table = pa.record_batch({})
        if self._pending:
            changes = pa.Table.from_batches(self._pending)
        block = encode_block(BlockType.CDC, self._header, encode_log_content(changes, self._avro))
        self._sink.write(block)
        self._size += len(block)
        self._pending, self._pending_bytes = [], 0


@contextmanager
def change_log(
    publication: Publication,
    logging: ChangeLogging | None,
    instant: InstantTime,
    partition: PartitionPath,
    file_id: FileId,
    write_token: str,
) -> Iterator[ChangeLog | None]:
    """Opens the change log of a base file that is being written; publishes it at the end unless the block fails. None
    if changes are not logged. `write_token`: that of the base file."""
    if logging is None:
        yield None
        return
    permit = publication.permit_change_log(partition, file_id, write_token)
    with publication.writing(permit) as sink:
        yield ChangeLog(logging, instant, permit.path, sink)


def _repeat_text(value: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), rows)
