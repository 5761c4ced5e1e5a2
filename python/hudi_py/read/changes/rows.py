"""Reads the changes of a file group as rows of `op`, `ts_ms`, `before` and `after` (`CDCFileGroupIterator`, 1.2.0).

Blocks of change logs have no checksum, and nothing else would notice a flipped bit, so redundant values of their
records are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config.read import DAMAGED
from hudi_py.errors import CorruptFileError, HistoryCleanedError
from hudi_py.formats.arrays import combined, last_of_each, true_where
from hudi_py.formats.avro import AvroSchema, arrow_type, decode_log_batches
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, read_blocks, read_content
from hudi_py.formats.lookup import TextSet
from hudi_py.merge import LogRecords, MergeSettings, merge_with_base
from hudi_py.model.changes import AFTER, BEFORE, DELETE, INSERT, KEY, OP, TS_MS, UPDATE, LoggingMode
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.limits import parse_json
from hudi_py.read.changes.texts import record_text, row_text, stored_types
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.slices.reader import SliceReader
from hudi_py.read.split import CHANGE_SCHEMA, Change, ChangeSource, ChangeSplit, InferenceCase, ReadSpec, Split
from hudi_py.schema import COMMIT_TIME, RECORD_KEY, conform_array
from hudi_py.storage import Storage, holding

_Reader = Callable[[Storage, ChangeSource, Change, Collection[str]], Iterator[pa.RecordBatch]]
_MAX_ROWS = 16_384
_MAX_TEXT_BYTES = 1 << 26
"""Maximum size of rows converted to text at once: an Arrow string array holds 2 GiB, and escaping may need 6 times as
much."""


def change_rows(storage: Storage, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
    """Yields non-empty batches of `CHANGE_SCHEMA` with at most 16384 rows, in a deterministic order.

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
        for part in _small_batches(batch):
            yield _change_batch(change, part.num_rows, INSERT, after=row_text(part))


def _of_deleted_rows(
    storage: Storage, source: ChangeSource, change: Change, wanted: Collection[str]
) -> Iterator[pa.RecordBatch]:
    spec = source.rows if BEFORE in wanted else replace(source.rows, columns=())
    for batch in _rows_before(storage, spec, change):
        for part in _small_batches(batch):
            yield _change_batch(change, part.num_rows, DELETE, before=row_text(part))


def _of_logs(
    storage: Storage, source: ChangeSource, change: Change, wanted: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Compares the log's records with the previous rows of their keys.

    A delete counts whatever its ordering value; an update that leaves the row unchanged does not.
    """
    spec = source.rows
    log = spec.open_log(storage, change.logs, instant=change.instant)
    for part in log.parts(spec.table_schema):
        yield from _compared_changes(storage, spec, change, part, log.spec.merge)


def _compared_changes(
    storage: Storage, spec: ReadSpec, change: Change, log: LogRecords, settings: MergeSettings
) -> Iterator[pa.RecordBatch]:
    old = _images_of(_rows_before(storage, spec, change), spec.table_schema, log.keys)
    new = _images_of(merge_with_base(old.rows.to_batches(), log, settings), spec.table_schema)
    for start in range(0, len(log.keys), _MAX_ROWS):
        keys = log.keys.slice(start, _MAX_ROWS)
        deleted = log.winners.deletes[start : start + _MAX_ROWS]
        before, after = old.at(keys), new.at(keys)
        existed, exists = true_where(before.is_valid()), true_where(after.is_valid())
        removed, added = existed & (deleted | ~exists), ~deleted & ~existed & exists
        updated = ~deleted & existed & exists & ~true_where(pc.equal(before, after))
        kept = pa.array(np.flatnonzero(removed | added | updated))
        ops = pa.array(np.select([removed, added], [DELETE, INSERT], UPDATE).tolist(), pa.string())
        after = pc.if_else(pa.array(removed), pa.scalar(None, pa.string()), after)
        yield _change_batch(change, len(kept), ops.take(kept), before=before.take(kept), after=after.take(kept))


def _of_change_logs(
    storage: Storage, source: ChangeSource, change: Change, wanted: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yields the records of change logs, completed with the images that the logs lack."""
    logged = _logged_changes(storage, source, change)
    if source.mode is LoggingMode.DATA_BEFORE_AFTER:
        for batch in logged:
            before, after = (record_text(batch.column(name)) for name in (BEFORE, AFTER))
            yield _change_batch(change, batch.num_rows, batch.column(OP), before=before, after=after)
        return
    batches = list(logged)
    old: _Images | None = None
    new: _Images | None = None
    if source.mode is LoggingMode.OP_KEY_ONLY and BEFORE in wanted:
        assert change.before is not None
        old = _looked_up(storage, source.rows, change.before.base_file, batches, INSERT)
    if AFTER in wanted:
        new = _looked_up(storage, source.rows, change.after, batches, DELETE)
    for batch in batches:
        if source.mode is LoggingMode.DATA_BEFORE:
            before = record_text(batch.column(BEFORE))
        else:
            before = _logged_images(old, batch, INSERT, change)
        yield _change_batch(
            change, batch.num_rows, batch.column(OP), before=before, after=_logged_images(new, batch, DELETE, change)
        )


_READERS: Mapping[InferenceCase, _Reader] = {
    InferenceCase.AS_IS: _of_change_logs,
    InferenceCase.BASE_FILE_INSERT: _of_inserted_file,
    InferenceCase.BASE_FILE_DELETE: _of_deleted_rows,
    InferenceCase.LOG_FILE: _of_logs,
    InferenceCase.REPLACE_COMMIT: _of_deleted_rows,
}


def _logged_changes(storage: Storage, source: ChangeSource, change: Change) -> Iterator[pa.RecordBatch]:
    """Yields the records of change logs: `op`, the record key unless they hold both images, and the images as
    structs."""
    names = [name for name in source.mode.columns if name != TS_MS]
    kind = arrow_type(stored_types(parse_json(source.record)))
    types = {OP: pa.string(), KEY: pa.string(), BEFORE: kind, AFTER: kind}
    storage = holding(storage, ((log.path, log.size) for log in change.logs))
    for log in change.logs:
        for block in read_blocks(storage, log.path, log.size):
            # the size is the one that its commit recorded
            if block.type is BlockType.CORRUPT and not source.read_damaged:
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
                        f"{source.mode.value} requires; restore the file from a copy"
                    )
                columns = [
                    conform_array(batch.column(name), types[name], path=name, context=block.path) for name in names
                ]
                logged = pa.RecordBatch.from_arrays(columns, names=names)
                _check_logged(logged, source.key_fields, block.path)
                yield from _small_batches(logged)


def _check_foreign(storage: Storage, log: LogFile, block: LogBlock, change: Change, *, read_damaged: bool) -> None:
    """Raises if a change log, which one write creates, has a block that neither holds changes nor belongs to a
    rollback: a bit of its header has flipped."""
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
        raise CorruptFileError(
            f"Cannot read change log {block.path}: a block has no valid SCHEMA ({error}); restore the file from a copy"
        ) from None
    return schema


def _looked_up(
    storage: Storage, spec: ReadSpec, base: BaseFile | None, batches: list[pa.RecordBatch], without: str
) -> _Images:
    """Looks up the images of logged keys in a base file, except those of the operation `without`."""
    assert base is not None
    keys = [batch.filter(pc.not_equal(batch.column(OP), without)).column(KEY) for batch in batches]
    return _images_of(_base_rows(storage, spec, base), spec.table_schema, combined(pa.chunked_array(keys, pa.string())))


def _logged_images(images: _Images | None, batch: pa.RecordBatch, without: str, change: Change) -> pa.Array:
    """Returns the image of each logged change; null for the operation `without`, which has none."""
    if images is None:
        return pa.nulls(batch.num_rows, pa.string())
    needed = pc.not_equal(batch.column(OP), without)
    texts = pc.if_else(needed, images.at(batch.column(KEY)), pa.scalar(None, pa.string()))
    missing = pc.and_(needed, texts.is_null())
    if pc.any(missing).as_py():
        key = batch.column(KEY).filter(missing)[0].as_py()
        raise CorruptFileError(
            f"Cannot read the changes at instant {change.instant}: record key {key!r} of change log "
            f"{change.logs[0].path} is not in the base file; restore both files from a copy, or begin the query after "
            "this instant"
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


def _change_batch(
    change: Change, count: int, op: str | pa.Array, *, before: pa.Array | None = None, after: pa.Array | None = None
) -> pa.RecordBatch:
    nulls = pa.nulls(count, pa.string())
    ops = pa.repeat(op, count) if isinstance(op, str) else op
    columns = [ops, pa.repeat(change.instant, count), nulls if before is None else before]
    return pa.RecordBatch.from_arrays([*columns, nulls if after is None else after], schema=CHANGE_SCHEMA)


def _check_logged(records: pa.RecordBatch, key_fields: Sequence[str], path: str) -> None:
    """Checks that the operation is known, that the images fit it (`HoodieCDCLogger.put`, 1.2.0), and that they have the
    same key.

    Args:
        records: `op`, and as far as the logging mode has them `record_key`, `before` and `after`, the images as
            structs.
        key_fields: columns of the record key.
        path: the log file, for errors.

    Raises:
        CorruptFileError: a record contradicts itself.
    """
    names, op = records.schema.names, records.column(OP)
    known = pa.array((INSERT, UPDATE, DELETE))  # not in the module: it would import pandas
    _refuse_records(pc.invert(pc.is_in(op, known)), records, "is none of i, u and d", path)
    for image, without in ((BEFORE, INSERT), (AFTER, DELETE)):
        if image in names:
            wrong = pc.equal(pc.equal(op, without), records.column(image).is_valid())
            _refuse_records(wrong, records, f"has or lacks the image {image!r} against its kind", path)
    differs = list(_key_differs(records, names, key_fields))
    if differs:
        _refuse_records(reduce(pc.or_, differs), records, "has images or a record key of different keys", path)


def _key_differs(records: pa.RecordBatch, names: Sequence[str], key_fields: Sequence[str]) -> Iterator[pa.Array]:
    """Yields whether records name different keys, as far as they can be compared: text and whole numbers."""
    if BEFORE not in names:
        return
    before = records.column(BEFORE)
    for field in key_fields:
        if before.type.get_field_index(field) < 0 or not _is_plain(before.type.field(field).type):
            continue
        old = pc.struct_field(before, field)
        if AFTER in names:
            yield pc.fill_null(pc.not_equal(old, pc.struct_field(records.column(AFTER), field)), False)
        elif KEY in names and len(key_fields) == 1:
            key, text = records.column(KEY), old.cast(pa.string())
            named = pc.binary_join_element_wise(field, text, ":")
            # nulls and empty texts have placeholders
            known = pc.greater(pc.binary_length(text), 0)
            same = pc.or_(pc.equal(key, text), pc.equal(key, named))
            yield pc.fill_null(pc.and_(known, pc.invert(same)), False)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def _refuse_records(wrong: pa.Array, records: pa.RecordBatch, what: str, path: str) -> None:
    place = pc.index(pc.fill_null(wrong, True), True).as_py()
    if place >= 0:
        raise CorruptFileError(
            f"Cannot read change log {path}: a record with the operation {records.column(OP)[place].as_py()!r} {what}; "
            "restore the file from a copy",
            path=path,
        )


@dataclass(frozen=True, slots=True)
class _Images:
    """Rows of distinct record keys."""

    rows: pa.Table
    keys: pa.Array
    texts: pa.ChunkedArray

    def at(self, keys: pa.Array) -> pa.Array:
        """Returns the image of each key, string; null if there is no such row."""
        return combined(self.texts.take(pc.index_in(keys, value_set=self.keys)))


def _images_of(rows: Iterable[pa.RecordBatch], schema: pa.Schema, keys: pa.Array | None = None) -> _Images:
    """Collects the images of rows; for a repeated key, the last row counts.

    Args:
        rows: batches of `schema`, with the record key.
        keys: only rows of these record keys; None: all.
    """
    if keys is not None:
        wanted = TextSet(keys)
        rows = (batch.filter(wanted.has(batch.column(RECORD_KEY))) for batch in rows)
    table = pa.Table.from_batches(list(rows), schema)
    encoded = combined(table[RECORD_KEY]).dictionary_encode()
    if len(encoded.dictionary) < table.num_rows:
        last = last_of_each(encoded.indices.to_numpy(zero_copy_only=False), len(encoded.dictionary))
        table = table.take(pa.array(np.sort(last)))
    texts = [row_text(part) for batch in table.to_batches() for part in _small_batches(batch)]
    return _Images(table, combined(table[RECORD_KEY]), pa.chunked_array(texts, pa.string()))


def _small_batches(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Splits the batch into parts small enough to be converted to text."""
    if not batch.num_rows:
        return
    item = max(1, min(_MAX_ROWS, _MAX_TEXT_BYTES * batch.num_rows // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, item):
        yield batch.slice(start, item)
