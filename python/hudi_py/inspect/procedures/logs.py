"""The procedures that show log files (`ShowHoodieLogFileMetadataProcedure`, `ShowHoodieLogFileRecordsProcedure`, Apache
Hudi 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.formats.avro import decode_log_content, decode_values
from hudi_py.formats.base.parquet import block_batches
from hudi_py.formats.hfile import read_hfile
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, decode_deletes, read_blocks, read_content
from hudi_py.inspect.procedures.shown import Given, Opened, Rows, Shown, below, columns, limited, lister, needed_text
from hudi_py.model.limits import parse_json
from hudi_py.model.names import parse_log_file_name
from hudi_py.schema.floats import java_double, java_float_texts
from hudi_py.schema.patterns import matching_paths
from hudi_py.storage import FileInfo

_NAMES: Final = {
    BlockType.COMMAND: "COMMAND_BLOCK",
    BlockType.DELETE: "DELETE_BLOCK",
    BlockType.CORRUPT: "CORRUPT_BLOCK",
    BlockType.AVRO: "AVRO_DATA_BLOCK",
    BlockType.HFILE: "HFILE_DATA_BLOCK",
    BlockType.PARQUET: "PARQUET_DATA_BLOCK",
    BlockType.CDC: "CDC_DATA_BLOCK",
}
"""Names in `HoodieLogBlockType`."""
_DECODED: Final = (BlockType.AVRO, BlockType.CDC, BlockType.HFILE, BlockType.PARQUET)


def _log_files(table: Opened, given: Given) -> list[FileInfo]:
    """Lists the log files whose paths match the pattern, by partition, file id and version."""
    pattern = needed_text(given, "log_file_path_pattern")
    own = below(table, pattern)
    if own is None:
        return []
    listing = lister(table)
    matching = [
        (path, name.file_id, name.sort_key, info)
        for path in listing.partitions()
        for info in listing.files(path)
        if (name := parse_log_file_name(info.name)) is not None
    ]
    wanted = set(matching_paths(own, [info.path for *_, info in matching], "log_file_path_pattern"))
    return [info for *_, info in sorted(matching, key=lambda item: item[:3]) if info.path in wanted]


def _log_blocks(table: Opened, files: Sequence[FileInfo]) -> Iterator[LogBlock]:
    for info in files:
        yield from read_blocks(table.storage, info.path, info.size)


def _show_metadata(table: Opened, given: Given) -> Rows:
    """Lists blocks by file, in their order."""
    corrupt = 0
    blocks = islice(_log_blocks(table, _log_files(table, given)), limited(given))
    for block in blocks:
        corrupt += block.instant_time is None
        count = sum(batch.num_rows for batch in _block_batches(table, block)) if block.type in _DECODED else 0
        if block.type is BlockType.DELETE:
            count = len(decode_deletes(read_content(table.storage, block), context=block.path))
        header = {key.name: value for key, value in block.header.items()}
        time = block.instant_time or f"corrupt_block_{corrupt}"
        yield time, count, _NAMES[block.type], _compact_json(header), "{}"


def _show_records(table: Opened, given: Given) -> Rows:
    """Yields the records of data blocks, by file, in the order in which they were written.

    Raises:
        ConfigError: merged records are asked for, or no file matches.
    """
    if given["merge"]:
        raise ConfigError(
            f"Cannot merge the records of log files of {table.storage.uri}: merge => true is not supported; query the "
            "table for merged rows, or call show_logfile_records without merge"
        )
    files = _log_files(table, given)
    if not files:
        raise ConfigError(
            f"Cannot show log files of {table.storage.uri}: log_file_path_pattern => "
            f"'{given['log_file_path_pattern']}' matches none; give a path in a partition of the table, with * and ?, "
            "such as '<table>/<partition>/.*log*'"
        )
    batches = (
        batch for block in _log_blocks(table, files) if block.type in _DECODED for batch in _block_batches(table, block)
    )
    # one text for each record, as the procedure shows it
    rows = (row for batch in batches for row in _record_texts(batch))
    for text in islice(rows, limited(given)):
        yield (text,)


def _block_batches(table: Opened, block: LogBlock) -> Iterator[pa.RecordBatch]:
    content, context = read_content(table.storage, block), block.path
    try:
        schema = parse_json(block.header[HeaderKey.SCHEMA])
    except (KeyError, ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"Cannot read the block at byte {block.content_offset} of {context}: its schema is missing or not JSON "
            f"({error!r})"
        ) from None
    if block.type is BlockType.PARQUET:
        names = [field["name"] for field in schema["fields"]]
        yield from block_batches(content, names, context, block.content_offset)
    elif block.type is BlockType.HFILE:
        yield from decode_values(read_hfile(content, context=context).scan().values, schema, context=context)
    else:
        yield decode_log_content([content], schema, context=context)


def _record_texts(batch: pa.RecordBatch) -> Iterator[str]:
    """Yields each record as Apache Hudi shows it: times and dates are the numbers stored for them."""
    names = batch.schema.names
    singles = {name for name, array in zip(names, batch.columns, strict=True) if pa.types.is_float32(array.type)}
    plain = pa.RecordBatch.from_arrays([_plain_array(array) for array in batch.columns], names=names)
    for row in plain.to_pylist(maps_as_pydicts="lossy"):
        fields = (
            f"{_json_text(name)}: {value if name in singles and value is not None else _shown_value(value)}"
            for name, value in row.items()
        )
        yield "{" + ", ".join(fields) + "}"


def _plain_array(array: pa.Array) -> pa.Array:
    if pa.types.is_float32(array.type):
        return java_float_texts(array)
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        return array.cast(pa.int32())
    return array.cast(pa.int64()) if pa.types.is_temporal(array.type) else array


def _shown_value(value: Any) -> str:
    """Formats as `GenericData.toString`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json_text(str(key))}: {_shown_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown_value(item) for item in value) + "]"
    if isinstance(value, bytes):
        return _json_text(value.decode("latin-1"))
    if isinstance(value, float):
        text = java_double(value)
        return text if text[-1].isdigit() else _json_text(text)
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    return _json_text(str(value))


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _compact_json(values: dict[str, str]) -> str:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False)


_LOGS: Final = {"table": None, "path": None, "log_file_path_pattern": None}
PROCEDURES: Final = {
    "show_logfile_metadata": Shown(
        {**_LOGS, "limit": 10, "filter": ""},
        columns("instant_time text, record_count int, block_type text, header_metadata text, footer_metadata text"),
        _show_metadata,
    ),
    "show_logfile_records": Shown(
        {**_LOGS, "merge": False, "limit": 10, "filter": ""}, columns("records text"), _show_records
    ),
}
