"""Records of the metadata table: versions from base HFiles and log blocks, and which of them are current.

The value of an HFile entry is the Avro binary of a `HoodieMetadataRecord`, in the schema that the file or block
contains. The entry's key counts, not the key inside the record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.arrays import last_of_each
from hudi_py.formats.avro import Record, decode_log_content, decode_values, resolve_record
from hudi_py.formats.hfile import Entries, HFile, open_hfile
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, decode_deletes, read_content
from hudi_py.merge import CommittedInstants, scan_log
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.limits import parse_json
from hudi_py.storage import HeldStorage, Storage
from hudi_py.storage.recent import Recent
from hudi_py.storage.threads import default_threads, in_threads, when_remote

KEY: Final = "key"
SMALL_FILE: Final = 1 << 20
"""Maximum size of a file on remote storage that is read with one request."""
Stamps = Mapping[str, tuple[int, int]]
"""Maps paths to size in bytes and modification time in milliseconds since the epoch."""
_RECENT: Final[Recent[tuple[str, str, tuple[int, int]], bytes]] = Recent(16 << 20)
"""Cache of small files on remote storages, by URI, path and stamp."""
_WRITTEN: Final[Recent[tuple[str, str, int], bytes]] = Recent(16 << 20)
"""Cache of files that this process has written, whose stamps it does not know, by URI, path and size."""


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Fields of records, and the columns into which they are decoded."""

    names: Collection[str]
    """The fields to decode."""
    columns: pa.Schema
    """Arrow types of the result."""
    normalise: Callable[[pa.RecordBatch, Any], pa.RecordBatch]
    """Converts decoded fields to `columns`, which do not depend on their writer's Avro schema (the second argument)."""

    def converted(self, batch: pa.RecordBatch, avro: Any, context: str) -> pa.RecordBatch:
        """Converts decoded fields. Raises CorruptFileError."""
        try:
            return self.normalise(batch, avro)
        except pa.ArrowException as error:  # a damaged schema with other field names or types
            raise CorruptFileError(
                f"Cannot read {context}: its schema is not that of a metadata table; {error}"
            ) from error


NO_FIELDS: Final = RecordFields((), pa.schema([]), lambda batch, _: batch.select([]))
"""For records of which only the keys matter."""


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The records of a file group to read: by keys, by key prefixes, or all."""

    keys: tuple[str, ...] | None = None
    prefixes: tuple[str, ...] | None = None

    def read(self, file: HFile) -> Entries:
        """Reads the wanted entries of an HFile."""
        if self.keys is not None:
            return file.lookup(key.encode() for key in self.keys)
        if self.prefixes is not None:
            return file.lookup_prefixes(prefix.encode() for prefix in self.prefixes)
        return file.scan()


ALL: Final = KeySelection()
_MANY_KEYS: Final = 10_000
"""Number of keys from which on looking them up in local files takes longer than starting threads."""


@dataclass(frozen=True, slots=True)
class Part:
    """The records of one file or log block, which have the same writer schema, or the keys of a delete block."""

    keys: pa.Array
    """string."""
    values: pa.Array | None
    """binary; None for deletes."""
    schema: str
    group: int
    context: str
    rows: pa.RecordBatch | None = None
    """The records, if they are already decoded."""


@dataclass(frozen=True, slots=True)
class RecordVersions:
    """Versions of records, oldest first for each key."""

    keys: pa.Array
    groups: npt.NDArray[np.int32]
    deleted: npt.NDArray[np.bool_]
    """Versions that delete the record; their fields are null."""
    fields: pa.Table
    """The normalised fields."""

    def newest(self) -> npt.NDArray[np.int64]:
        """Returns rows of the last version of each key, except deletes, in order of the keys' first appearance."""
        last = np.flatnonzero(self.is_last())
        return last[~self.deleted[last]]

    def is_last(self) -> npt.NDArray[np.bool_]:
        """Returns which versions are the last of their key."""
        result = np.zeros(len(self.keys), np.bool_)
        ids, count = self.ids()
        last = last_of_each(ids, count)
        result[last[last >= 0]] = True
        return result

    def ids(self) -> tuple[npt.NDArray[np.int64], int]:
        """Numbers versions, equally if they have the same key and file group, and returns an upper bound of the
        numbers."""
        encoded = self.keys.dictionary_encode()
        count = len(encoded.dictionary)
        ids = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        groups = int(self.groups.max(initial=0)) + 1
        return ids * groups + self.groups, count * groups


def read_parts(
    storage: Storage,
    slices: Sequence[tuple[int, FileSlice, KeySelection]],
    committed: CommittedInstants,
    stamps: Stamps | None = None,
) -> list[Part]:
    """Reads the records of file groups: the base file first, then the log blocks that count, in order.

    Args:
        slices: number of the file group, its slice, and the records to read.
        committed: instants whose log blocks count; all records of base files count.
        stamps: of the files, as listed: those that this process has read lately are not read again.

    Raises:
        CorruptFileError, UnsupportedTableError: a file cannot be decoded.
        FileNotFoundError: a file was cleaned since it was listed.
    """

    def one(task: tuple[int, FileSlice, KeySelection]) -> list[Part]:
        return [source() for source in _slice_sources(storage, *task, committed)]

    if not storage.is_local:
        storage = _small_files_held(storage, [slice_ for _, slice_, _ in slices], stamps or {})
        return [part for parts in in_threads(one, slices) for part in parts]
    many = sum(len(wanted.keys or ()) for _, _, wanted in slices) > _MANY_KEYS
    return [part for parts in in_threads(one, slices, default_threads() if many else 1) for part in parts]


def read_newest_parts(
    storage: Storage,
    slices: Sequence[tuple[int, FileSlice, KeySelection]],
    committed: CommittedInstants,
    count: int,
    stamps: Stamps | None = None,
) -> tuple[list[Part], bool]:
    """Reads as `read_parts`, but from the newest log block back, until `count` different keys are found. Returns the
    parts, oldest first in each file group, and whether they are complete."""
    if not storage.is_local:
        storage = _small_files_held(storage, [slice_ for _, slice_, _ in slices], stamps or {})
    parts: list[list[Part]] = [[] for _ in slices]
    back = [reversed(_slice_sources(storage, *task, committed)) for task in slices]
    result: set[str] = set()
    while len(result) < count:
        read = [(index, source()) for index, sources in enumerate(back) if (source := next(sources, None)) is not None]
        if not read:
            break
        for index, part in read:
            parts[index].append(part)
            result.update(part.keys.to_pylist())
    is_whole = all(next(sources, None) is None for sources in back)
    return [part for of_group in parts for part in reversed(of_group)], is_whole


def check_parts(
    storage: Storage, slices: Sequence[FileSlice], committed: CommittedInstants, stamps: Stamps | None = None
) -> None:
    """Raises what `read_parts` raises if a file of the slices is missing, truncated, or not an HFile or log. Does not
    read records."""

    def one(slice_: FileSlice) -> None:
        if slice_.base_file is not None:
            open_hfile(storage, slice_.base_file.path, slice_.base_file.size)
        scan_log(storage, slice_.log_files, committed=committed)

    if not storage.is_local:
        storage = _small_files_held(storage, slices, stamps or {})
    when_remote(storage, one, slices)


def note_written(storage: Storage, files: Mapping[str, bytes]) -> None:
    """Caches files, by path, that this process wrote in a completed action, so that it need not read them."""
    if not storage.is_local:
        for path, data in files.items():
            _WRITTEN.put((storage.uri, path, len(data)), data, len(data))


def _small_files_held(storage: Storage, slices: Sequence[FileSlice], stamps: Stamps) -> Storage:
    """Returns the storage with the small files of the slices in memory, read in parallel with one request each."""
    files = [file for slice_ in slices for file in (slice_.base_file, *slice_.log_files) if file is not None]
    held: dict[str, bytes] = {}
    missing: list[str] = []
    for file in files:
        if file.size > SMALL_FILE:
            continue
        result = None
        if file.path in stamps:  # identify our own file by its stamp from now on
            result = _RECENT.get((storage.uri, file.path, stamps[file.path]))
            result = result or _WRITTEN.take((storage.uri, file.path, file.size))
        if result is None:
            missing.append(file.path)
        else:
            held[file.path] = result
    if missing and (len(missing) > 1 or stamps):
        held.update(zip(missing, in_threads(storage.read, missing), strict=True))
    for path, data in held.items():
        if path in stamps:
            _RECENT.put((storage.uri, path, stamps[path]), data, len(data))
    return HeldStorage(storage, held) if held else storage


def _slice_sources(
    storage: Storage, group: int, slice_: FileSlice, wanted: KeySelection, committed: CommittedInstants
) -> list[Callable[[], Part]]:
    """Returns functions that read the parts of a slice: its base file, then the log blocks that count, in order."""
    base = [] if slice_.base_file is None else [partial(_base_part, storage, slice_.base_file, group, wanted)]
    blocks = scan_log(storage, slice_.log_files, committed=committed)
    return [*base, *(partial(_block_part, storage, block, group, wanted) for block in blocks)]


def _base_part(storage: Storage, base: BaseFile, group: int, wanted: KeySelection) -> Part:
    file = open_hfile(storage, base.path, base.size)
    return _entries_part(wanted.read(file), file.schema, group, f"{storage.uri}/{base.path}")


def _block_part(storage: Storage, block: LogBlock, group: int, wanted: KeySelection) -> Part:
    context = f"{storage.uri}/{block.path}"
    if block.type is BlockType.HFILE:
        file = open_hfile(storage, block.path, block.content_length, offset=block.content_offset)
        return _entries_part(wanted.read(file), block.header.get(HeaderKey.SCHEMA), group, context)
    if block.type is BlockType.DELETE:
        deletes = decode_deletes(read_content(storage, block), context=context)
        return Part(deletes.keys.cast(pa.string()), None, "", group, context)
    if block.type is BlockType.AVRO:
        return _avro_part(storage, block, group, context)
    raise UnsupportedTableError(
        f"Cannot read {context}: it has a block of type {block.type.name}; supported in a metadata table are "
        "HFILE, AVRO, DELETE and COMMAND blocks"
    )


def _entries_part(entries: Entries, schema: str | None, group: int, context: str) -> Part:
    if not schema:
        raise CorruptFileError(f"Cannot read {context}: it has no schema for its records")
    return Part(_key_texts(entries.keys, context), entries.values, schema, group, context)


def _avro_part(storage: Storage, block: LogBlock, group: int, context: str) -> Part:
    """Reads the records of an Avro block, which contain their keys."""
    schema = block.header.get(HeaderKey.SCHEMA)
    if not schema:
        raise CorruptFileError(f"Cannot read {context}: an Avro block has no SCHEMA")
    rows = decode_log_content([read_content(storage, block)], _parsed_schema(schema, context)[0], context=context)
    if KEY not in rows.schema.names:
        raise CorruptFileError(f"Cannot read {context}: the records of an Avro block have no key")
    return Part(rows.column(KEY).cast(pa.string()), None, schema, group, context, rows)


def payload_field(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a partition's field of the records (struct or map).

    Raises:
        CorruptFileError: the schema of the records has no such field.
    """
    if name not in batch.schema.names:
        raise CorruptFileError(f"Records of the metadata table have no field {name}: their schema is unknown")
    return batch.column(name)


def struct_member(record: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    """Returns a member of a struct, cast to `kind`; nulls if the writer's schema lacks it."""
    known = record.type.get_field_index(name) >= 0
    return pc.struct_field(record, name).cast(kind) if known else pa.nulls(len(record), kind)


def assemble(parts: Sequence[Part], fields: RecordFields) -> RecordVersions:
    """Decodes fields of the parts as versions of records. Raises CorruptFileError if records contradict their
    schema."""
    parts = [part for part in parts if len(part.keys)]
    tables: list[pa.Table] = []
    positions: list[npt.NDArray[np.int64]] = []
    by_schema: dict[str, list[tuple[Part, int]]] = {}
    start = 0
    for part in parts:
        count = len(part.keys)
        if part.rows is not None:
            kept = part.rows.select([name for name in part.rows.schema.names if name in fields.names])
            avro = _parsed_schema(part.schema, part.context)[0]
            tables.append(pa.Table.from_batches([fields.converted(kept, avro, part.context)]))
            positions.append(np.arange(start, start + count, dtype=np.int64))
        elif part.values is not None:
            by_schema.setdefault(part.schema, []).append((part, start))
        start += count
    for schema, members in by_schema.items():
        # one call decodes all records with the same writer schema, from any part
        context = members[0][0].context
        avro, record = _parsed_schema(schema, context)
        values = pa.concat_arrays([part.values for part, _ in members])
        batches = [
            fields.converted(batch, avro, context)
            for batch in decode_values(values, record, fields.names, context=context)
        ]
        tables.append(pa.Table.from_batches(batches, fields.columns))
        positions.extend(np.arange(index, index + len(part.keys), dtype=np.int64) for part, index in members)
    decoded = pa.concat_tables(tables) if tables else fields.columns.empty_table()
    places = np.concatenate(positions) if positions else np.zeros(0, np.int64)
    rows = np.full(start, -1, np.int64)
    rows[places] = np.arange(len(places))
    deleted = rows < 0
    keys = pa.concat_arrays([part.keys for part in parts]) if parts else pa.array([], pa.string())
    groups = [np.full(len(part.keys), part.group, np.int32) for part in parts]
    taken = decoded.take(pa.array(rows, mask=deleted)) if len(rows) else decoded
    return RecordVersions(keys, np.concatenate(groups) if groups else np.zeros(0, np.int32), deleted, taken)


def _parsed_schema(schema: str, context: str) -> tuple[Any, Record]:
    """Returns the schema as JSON, and resolved."""
    try:
        return _resolved_schema(schema)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {context}: the schema of its records is not JSON ({error})") from error


@lru_cache(maxsize=64)  # all releases together have a dozen schemas, each of them large
def _resolved_schema(schema: str) -> tuple[Any, Record]:
    avro = parse_json(schema)
    return avro, resolve_record(avro)


def _key_texts(keys: pa.Array, context: str) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFileError(f"Cannot read {context}: a key is not UTF-8") from error
