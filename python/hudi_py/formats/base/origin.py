"""Checks that a file is the one its name says: rows name their file group, and rows of base files their file.

Neither listings nor checksums show that a file was replaced by another one of the same size, but its rows do: all
releases since 0.9 write `_hoodie_file_name`, also after compaction, clustering (even by binary copy) and bootstrap.
Rows without meta fields name nothing: the columns are null, or empty after a bulk insert by Spark's rows (1.2.0).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

import pyarrow.parquet as pq

from hudi_py.errors import CorruptFileError
from hudi_py.formats.keys.buckets import FIXED_FILE_ID
from hudi_py.formats.varint import read_varint
from hudi_py.model.names import FILE_NAME, PARTITION_PATH, parse_base_file_name

_WRITER = re.compile(r"parquet-(mr|cpp-arrow) version (\d+)\.(\d+)")
_FIRST_EXACT: Final = (1, 13)
"""The first release of parquet-mr after Apache Hudi 0.11."""
_RECORDS_AT: Final = 8
"""Size of an Avro block's content before the length of its first record."""
_LENGTH: Final = 4
_TEXTS: Final = ("string", {"type": "string", "avro.java.string": "String"})


def check_origin(name: object, partition: object, path: str, *, exact: bool = False) -> None:
    """Checks that a file is not another one of the same size and columns.

    Args:
        name: `_hoodie_file_name` of a row; empty or not a text: unknown. Rows of logs have only the file id.
        partition: `_hoodie_partition_path` of a row; empty or not a text: unknown. It is compared where file ids recur
            in every partition (buckets of non-blocking writers).
        path: the base or log file, relative to the table.
        exact: whether rows of the file have its whole name. Releases before 0.11 keep what an older version of the file
            had, where they copy a row.

    Raises:
        CorruptFileError: it is another file.
    """
    own = path.rpartition("/")[2]
    file_id = own.lstrip(".").partition("_")[0]
    if isinstance(name, str) and name:
        other = name.partition("_")[0] != file_id
        if not other and exact and name != own:
            other = parse_base_file_name(name) is not None
        if other:
            raise _replaced_error(path, own, name)
    if file_id.endswith(FIXED_FILE_ID):
        check_partition(partition, path)


def check_partition(partition: object, path: str) -> None:
    """Checks that a file is in the partition that its rows or deletes name; empty or not a text: unknown.

    Raises:
        CorruptFileError: it is a file of another partition.
    """
    folder = path.rpartition("/")[0]
    if isinstance(partition, str) and partition and partition != folder:
        raise _replaced_error(path, folder, f"the partition {partition!r}")


def _replaced_error(path: str, own: str, other: str) -> CorruptFileError:
    return CorruptFileError(
        f"Cannot read {path}: its rows are those of {other}, so another file has taken its place; restore the file "
        "from a copy",
        path=path,
        expected=own,
        found=other,
    )


def check_footer(metadata: pq.FileMetaData, path: str, names: list[str] | None = None) -> None:
    """Checks as `check_origin`, for a Parquet base file, by the statistics in its footer. Files with other names pass.

    Args:
        names: the file's leaf columns, if they are known already.
    """
    own = path.rpartition("/")[2]
    if not metadata.num_row_groups or parse_base_file_name(own) is None:
        return
    names = metadata.schema.names if names is None else names
    name = footer_text(metadata, FILE_NAME, names)
    fixed = own.partition("_")[0].endswith(FIXED_FILE_ID)
    partition = footer_text(metadata, PARTITION_PATH, names) if fixed else None
    if name is not None or partition is not None:
        check_origin(name, partition, path, exact=_is_exact(metadata.created_by))


def footer_text(metadata: pq.FileMetaData, column: str, names: list[str]) -> str | None:
    """Returns the only text in a column of the first row group; None if there are others, or the footer does not
    say."""
    if column not in names or not metadata.num_row_groups:
        return None
    known = metadata.row_group(0).column(names.index(column)).statistics
    if known is None or not known.has_min_max:
        return None
    # truncated texts differ, and so do the names that old releases keep
    low, high = known.min, known.max
    return low if isinstance(low, str) and low == high else None


@lru_cache(maxsize=64)
def _is_exact(writer: str) -> bool:
    match = _WRITER.match(writer or "")
    return match is not None and (match[1] == "cpp-arrow" or (int(match[2]), int(match[3])) >= _FIRST_EXACT)


def check_first_record(content: bytes, schema: str | None, path: str) -> None:
    """Checks as `check_origin`, for an Avro block of a log, by its first record.

    Args:
        content: the block's content, or its beginning. Bytes that are no record pass: who decodes them reports that.
        schema: the block's Avro schema, as JSON.
    """
    fields = _leading_texts(schema or "")
    if fields is None or int.from_bytes(content[4:_RECORDS_AT], "big", signed=True) < 1:
        return
    result: dict[str, str] = {}
    offset = _RECORDS_AT + _LENGTH
    try:
        for name, null in fields:
            if null is not None:
                branch, offset = content[offset], offset + 1
                if branch == null << 1:
                    continue
            doubled, offset = read_varint(content, offset)
            end = offset + (doubled >> 1)
            if doubled & 1 or end > len(content):
                return
            result[name], offset = content[offset:end].decode(), end
    except (IndexError, ValueError):
        return
    check_origin(result.get(FILE_NAME), result.get(PARTITION_PATH), path)


@lru_cache(maxsize=256)
def _leading_texts(schema: str) -> tuple[tuple[str, int | None], ...] | None:
    """Returns the fields of a record up to the file name, which are texts, each with the number of the union's null
    branch; None if the record has other fields or no name."""
    try:
        fields = json.loads(schema)["fields"]
        leading: list[tuple[str, int | None]] = []
        for field in fields:
            null = _null_branch(field["type"])
            leading.append((field["name"], null))
            if field["name"] == FILE_NAME:
                return tuple(leading)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _null_branch(kind: Any) -> int | None:
    """Returns the number of the null branch of a text type. Raises ValueError for other types."""
    if kind in _TEXTS:
        return None
    if isinstance(kind, list) and len(kind) == 2 and "null" in kind and any(branch in _TEXTS for branch in kind):
        return kind.index("null")
    raise ValueError(kind)
