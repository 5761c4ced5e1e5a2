"""The changes of a file group as rows of `op`, `ts_ms`, `before` and `after` (`CDCFileGroupIterator`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config.read import DAMAGED
from hudi_py.errors import CorruptFileError, HistoryCleanedError
from hudi_py.formats.arrays import combined, true_where
from hudi_py.formats.avro import AvroSchema, arrow_type, decode_log_batches
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, read_blocks, read_content
from hudi_py.merge import LogRecords, MergeSettings, merge_with_base
from hudi_py.model.changes import AFTER, BEFORE, DELETE, INSERT, KEY, OP, TS_MS, UPDATE, LoggingMode
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.limits import parse_json
from hudi_py.read.base_file import BaseFileReader
from hudi_py.read.changes.checks import check_logged
from hudi_py.read.changes.images import ROWS, Images, images_of, small_batches
from hudi_py.read.changes.record_text import record_text, stored_types
from hudi_py.read.changes.row_text import row_text
from hudi_py.read.changes.split import CHANGE_SCHEMA, Change, ChangeSource, ChangeSplit, InferenceCase
from hudi_py.read.slice import SliceReader
from hudi_py.read.split import ReadSpec, Split
from hudi_py.schema import COMMIT_TIME, conform_array
from hudi_py.storage import Storage, holding


def change_rows(storage: Storage, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
    """Non-empty batches of `CHANGE_SCHEMA` with at most 16384 rows, in a deterministic order.

    Images are null if `split.spec` does not need their column. Held in memory: the log files of one commit in this file
    group (within the memory options) with the previous rows of their keys, or the images of the keys in its change
    logs.

    Raises:
        HistoryCleanedError: a file was removed.
        CorruptFileError, UnsupportedTableError, SchemaMismatchError: a file cannot be read.
    """
    wanted = frozenset(split.spec.wanted_columns)
    for change in split.changes:
        try:
            for batch in _READERS[change.case](storage, split.source, change, wanted):
                if batch.num_rows:
                    yield batch
        except FileNotFoundError as error:
            raise HistoryCleanedError(
                f"Cannot read the changes of file group {split.file_id} in partition '{split.partition}' of "
                f"{split.spec.uri} at instant {change.instant}: a file it needs is missing, likely cleaned ({error}); "
                "begin the query after this instant"
            ) from error


def _of_inserted_file(
    storage: Storage, source: ChangeSource, change: Change, wanted: Collection[str]
) -> Iterator[pa.RecordBatch]:
    assert change.after is not None
    columns = source.rows.columns if AFTER in wanted else (COMMIT_TIME,) if change.own_rows else ()
    spec = replace(source.rows, columns=columns)
    for batch in _base_rows(storage, spec, change.after):
        if change.own_rows:
            batch = batch.filter(pc.equal(batch.column(COMMIT_TIME), change.instant))
        for part in small_batches(batch):
            yield _changes(change, part.num_rows, INSERT, after=row_text(part))


def _of_deleted_rows(
    storage: Storage, source: ChangeSource, change: Change, wanted: Collection[str]
) -> Iterator[pa.RecordBatch]:
    spec = source.rows if BEFORE in wanted else replace(source.rows, columns=())
    for batch in _rows_before(storage, spec, change):
        for part in small_batches(batch):
            yield _changes(change, part.num_rows, DELETE, before=row_text(part))


def _of_logs(
    storage: Storage, source: ChangeSource, change: Change, wanted: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Compares the log's records with the previous rows of their keys.

    A delete counts whatever its ordering value; an update that leaves the row unchanged does not.
    """
    spec = source.rows
    log = spec.open_log(storage, change.logs, instant=change.instant)
    for part in log.parts(spec.table_schema):
        yield from _compared(storage, spec, change, part, log.spec.merge)


def _compared(
    storage: Storage, spec: ReadSpec, change: Change, log: LogRecords, settings: MergeSettings
) -> Iterator[pa.RecordBatch]:
    old = images_of(_rows_before(storage, spec, change), spec.table_schema, log.keys)
    new = images_of(merge_with_base(old.rows.to_batches(), log, settings), spec.table_schema)
    for start in range(0, len(log.keys), ROWS):
        keys = log.keys.slice(start, ROWS)
        deleted = log.winners.deletes[start : start + ROWS]
        before, after = old.at(keys), new.at(keys)
        existed, exists = true_where(before.is_valid()), true_where(after.is_valid())
        removed, added = existed & (deleted | ~exists), ~deleted & ~existed & exists
        updated = ~deleted & existed & exists & ~true_where(pc.equal(before, after))
        kept = pa.array(np.flatnonzero(removed | added | updated))
        ops = pa.array(np.select([removed, added], [DELETE, INSERT], UPDATE).tolist(), pa.string())
        after = pc.if_else(pa.array(removed), pa.scalar(None, pa.string()), after)
        yield _changes(change, len(kept), ops.take(kept), before=before.take(kept), after=after.take(kept))


def _of_change_logs(
    storage: Storage, source: ChangeSource, change: Change, wanted: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """The records of change logs, completed with the images that the logs lack."""
    logged = _logged(storage, source, change)
    if source.mode is LoggingMode.DATA_BEFORE_AFTER:
        for batch in logged:
            before, after = (record_text(batch.column(name)) for name in (BEFORE, AFTER))
            yield _changes(change, batch.num_rows, batch.column(OP), before=before, after=after)
        return
    batches = list(logged)
    old: Images | None = None
    new: Images | None = None
    if source.mode is LoggingMode.OP_KEY_ONLY and BEFORE in wanted:
        assert change.before is not None
        old = _looked_up(storage, source.rows, change.before.base_file, batches, INSERT)
    if AFTER in wanted:
        new = _looked_up(storage, source.rows, change.after, batches, DELETE)
    for batch in batches:
        if source.mode is LoggingMode.DATA_BEFORE:
            before = record_text(batch.column(BEFORE))
        else:
            before = _found(old, batch, INSERT, change)
        yield _changes(
            change, batch.num_rows, batch.column(OP), before=before, after=_found(new, batch, DELETE, change)
        )


_Reader = Callable[[Storage, ChangeSource, Change, Collection[str]], Iterator[pa.RecordBatch]]
_READERS: Mapping[InferenceCase, _Reader] = {
    InferenceCase.AS_IS: _of_change_logs,
    InferenceCase.BASE_FILE_INSERT: _of_inserted_file,
    InferenceCase.BASE_FILE_DELETE: _of_deleted_rows,
    InferenceCase.LOG_FILE: _of_logs,
    InferenceCase.REPLACE_COMMIT: _of_deleted_rows,
}


def _logged(storage: Storage, source: ChangeSource, change: Change) -> Iterator[pa.RecordBatch]:
    """The records of change logs: `op`, the record key unless they hold both images, and the images as structs."""
    names = [name for name in source.mode.columns if name != TS_MS]
    kind = arrow_type(stored_types(parse_json(source.record)))
    types = {OP: pa.string(), KEY: pa.string(), BEFORE: kind, AFTER: kind}
    storage = holding(storage, ((log.path, log.size) for log in change.logs))
    for log in change.logs:
        for block in read_blocks(storage, log.path, log.size):
            if block.type is BlockType.CORRUPT and not source.read_damaged:  # the size is what its commit recorded
                raise CorruptFileError(
                    f"Cannot read change log {storage.uri}/{log.path}: {block.content_length} bytes from "
                    f"{block.content_offset} on are missing or not a block; restore it from a copy; "
                    f"{DAMAGED.key}=true reads what is left"
                )
            if block.type is not BlockType.CDC or block.instant_time != change.instant:
                _check_foreign(storage, log, block, change, read_damaged=source.read_damaged)
                continue
            schema = _block_schema(block)
            for batch in decode_log_batches([read_content(storage, block)], schema, names, context=block.path):
                missing = [name for name in names if name not in batch.schema.names]
                if missing:
                    raise CorruptFileError(
                        f"Cannot read change log {block.path}: its records have no {', '.join(missing)}, which "
                        f"{source.mode.value} requires"
                    )
                columns = [
                    conform_array(batch.column(name), types[name], path=name, context=block.path) for name in names
                ]
                logged = pa.RecordBatch.from_arrays(columns, names=names)
                check_logged(logged, source.key_fields, block.path)
                yield from small_batches(logged)


def _check_foreign(storage: Storage, log: LogFile, block: LogBlock, change: Change, *, read_damaged: bool) -> None:
    """Raises if a block without changes of the instant is in a change log of the instant, which one write makes: a bit
    of its header has flipped. Commands are those of a rollback."""
    if read_damaged or block.type in (BlockType.CORRUPT, BlockType.COMMAND) or log.name.instant != change.instant:
        return
    raise CorruptFileError(
        f"Cannot read change log {storage.uri}/{log.path} of instant {change.instant}: the block at byte "
        f"{block.content_offset} is a {block.type.name} block of instant {block.instant_time}; restore the file from a "
        f"copy; {DAMAGED.key}=true reads what is left"
    )


def _block_schema(block: LogBlock) -> AvroSchema:
    try:
        schema: AvroSchema = stored_types(parse_json(block.header[HeaderKey.SCHEMA]))
    except (KeyError, ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read change log {block.path}: a block has no valid SCHEMA; {error}") from None
    return schema


def _looked_up(
    storage: Storage, spec: ReadSpec, base: BaseFile | None, batches: list[pa.RecordBatch], without: str
) -> Images:
    """The images of logged keys in a base file, except those of the operation `without`."""
    assert base is not None
    keys = [batch.filter(pc.not_equal(batch.column(OP), without)).column(KEY) for batch in batches]
    return images_of(_base_rows(storage, spec, base), spec.table_schema, combined(pa.chunked_array(keys, pa.string())))


def _found(images: Images | None, batch: pa.RecordBatch, without: str, change: Change) -> pa.Array:
    """The image of each logged change; null for the operation `without`, which has none."""
    if images is None:
        return pa.nulls(batch.num_rows, pa.string())
    needed = pc.not_equal(batch.column(OP), without)
    texts = pc.if_else(needed, images.at(batch.column(KEY)), pa.scalar(None, pa.string()))
    missing = pc.and_(needed, texts.is_null())
    if pc.any(missing).as_py():
        key = batch.column(KEY).filter(missing)[0].as_py()
        raise CorruptFileError(
            f"Cannot read the changes at instant {change.instant}: record key {key!r} of change log "
            f"{change.logs[0].path} is not in the base file"
        )
    return texts


def _base_rows(storage: Storage, spec: ReadSpec, base: BaseFile) -> Iterator[pa.RecordBatch]:
    with BaseFileReader(storage, base, spec.history) as reader:
        yield from reader.batches(spec.output_schema, batch_rows=spec.batch_rows)


def _rows_before(storage: Storage, spec: ReadSpec, change: Change) -> Iterator[pa.RecordBatch]:
    if change.before is not None:
        logs = None if spec.logs is None else replace(spec.logs, as_of=change.before_as_of)
        with SliceReader(storage, Split.of(replace(spec, logs=logs), change.before)) as reader:
            yield from reader.rows()


def _changes(
    change: Change, count: int, op: str | pa.Array, *, before: pa.Array | None = None, after: pa.Array | None = None
) -> pa.RecordBatch:
    nulls = pa.nulls(count, pa.string())
    ops = pa.repeat(op, count) if isinstance(op, str) else op
    columns = [ops, pa.repeat(change.instant, count), nulls if before is None else before]
    return pa.RecordBatch.from_arrays([*columns, nulls if after is None else after], schema=CHANGE_SCHEMA)
