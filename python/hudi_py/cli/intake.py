"""Rows from files into tables, and statements."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import IO, Any, Final

import click
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json, parquet

import hudi_py
from hudi_py.cli.declare import Target, confirm
from hudi_py.cli.export import format_of
from hudi_py.cli.rows import NewTable
from hudi_py.cli.screen import Screen
from hudi_py.errors import SchemaMismatchError, TableNotFoundError
from hudi_py.model.words import counted, show_bytes
from hudi_py.schema import META_FIELDS
from hudi_py.table import Table
from hudi_py.write.result import WriteResult

_INEXACT: Final = r"^(\+|-?(0[0-9]|[0-9]{16,}$|[0.]*[1-9]\.?([0-9]\.?){17,}))"
"""Numbers in text that floating-point numbers do not keep: a plus, leading zeros, long integers, over 17 digits."""
_log = logging.getLogger(__name__)
_ARROW_FILE: Final = b"ARROW1"
"""First bytes of an Arrow file; a stream has others."""


def write(target: Target, file: str, operation: str, form: str | None, new: NewTable) -> None:
    """`hudi-py write`."""
    form, name = form or format_of(file), "standard input" if file == "-" else file
    if form is None:
        raise click.UsageError(f"The format of {name} is unknown: give --from.")
    try:
        known: pa.Schema | None = target.open().schema
    except TableNotFoundError:
        known = None
    with click.open_file(file, "rb") as source:
        result = hudi_py.write(
            target.path,
            read_rows(source, form, known, name),
            operation,
            target.options,
            storage_options=target.storage_options,
            **asdict(new),
        )
    report(target, result)


def read_rows(file: IO[bytes], form: str, known: pa.Schema | None, name: str) -> Any:
    """The rows of a file as Arrow. Columns of CSV and JSON that the table has are read in its types.

    Raises:
        SchemaMismatchError: the file cannot be read, or a value has another type.
    """
    types = {} if known is None else {field.name: field.type for field in known if field.name not in META_FIELDS}
    try:
        return _READERS[form](file, types)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise SchemaMismatchError(f"Cannot read {name} as {form}: {error}") from error


def _csv(file: IO[bytes], types: dict[str, pa.DataType]) -> pa.Table:
    data = pa.py_buffer(file.read())

    def read(types: dict[str, pa.DataType], only: list[str] | None = None) -> pa.Table:
        return csv.read_csv(
            pa.BufferReader(data),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            # empty texts are null: CSV writes both alike
            convert_options=csv.ConvertOptions(
                column_types=types, strings_can_be_null=True, null_values=[""], include_columns=only
            ),
        )

    rows = read(types)
    guessed = [
        field.name
        for field in rows.schema
        if field.name not in types and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
    ]
    texts = read({**types, **dict.fromkeys(guessed, pa.string())}, guessed) if guessed else None
    for name in guessed:
        assert texts is not None
        changed = _changed_as_numbers(texts.column(name), rows.column(name))
        if len(changed):
            _log.warning("column %s is read as text: as a number, %r would change", name, changed[0].as_py())
            rows = rows.set_column(rows.schema.get_field_index(name), name, texts.column(name))
    return rows


def _changed_as_numbers(texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts that were guessed to be numbers, and of which a number would lose digits."""
    if pa.types.is_integer(numbers.type):
        changed = pc.not_equal(texts, numbers.cast(pa.string()))
    else:
        too_large = pc.and_(pc.is_inf(numbers), pc.match_substring_regex(texts, "[0-9]"))
        changed = pc.or_(pc.match_substring_regex(texts, _INEXACT), too_large)
    return texts.filter(pc.fill_null(changed, False))


def _json(file: IO[bytes], types: dict[str, pa.DataType]) -> pa.Table:
    # a field that no object has is null, like one that some objects lack
    options = json.ParseOptions(explicit_schema=pa.schema(types) if types else None)
    return json.read_json(file, parse_options=options)


def _parquet(file: IO[bytes], types: dict[str, pa.DataType]) -> pa.RecordBatchReader:
    # standard input cannot seek
    found = parquet.ParquetFile(file if file.seekable() else pa.BufferReader(file.read()))
    return pa.RecordBatchReader.from_batches(found.schema_arrow, found.iter_batches())


def _arrow(file: IO[bytes], types: dict[str, pa.DataType]) -> Any:
    data = pa.py_buffer(file.read())
    if data[: len(_ARROW_FILE)].to_pybytes() == _ARROW_FILE:
        return pa.ipc.open_file(data).read_all()
    return pa.ipc.open_stream(data)


_READERS: Final[dict[str, Callable[[IO[bytes], dict[str, pa.DataType]], Any]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "arrow": _arrow,
}


@dataclass(frozen=True, slots=True)
class Doomed:
    """What to delete; one of the three is set."""

    where: str | None
    keys: list[str] | None
    partition: tuple[str, ...]


def delete(target: Target, doomed: Doomed, dry_run: bool, yes: bool) -> None:
    """`hudi-py delete`."""
    table = target.open()
    if dry_run or (not yes and sys.stdin.isatty()):
        count = _count(table, doomed)
        if dry_run:
            _would(target, "deleted", count)
            return
        confirm(f"Delete {counted(count, 'row')} of {table.uri}?", yes)
    else:
        confirm(f"Delete rows of {table.uri}?", yes)
    if doomed.where is not None:
        result = table.delete_where(doomed.where)
    elif doomed.partition:
        result = table.delete_partition(doomed.partition)
    else:
        columns = [name for name in _key_columns(table) if name in table.schema.names]
        result = table.delete(table.scan(columns, keys=doomed.keys).to_table())
    report(target, result)


def _count(table: Table, doomed: Doomed) -> int:
    """How many rows would be deleted. In partitions, `*` stands for any text, as in `delete_partition`."""
    partitions = None
    if doomed.partition:
        patterns = [re.compile(".*".join(map(re.escape, path.strip("/").split("*")))) for path in doomed.partition]
        known: list[str] = table.partitions()["partition"].to_pylist()
        partitions = [path for path in known if any(pattern.fullmatch(path) for pattern in patterns)]
        if not partitions:
            return 0
    return table.scan(filter=doomed.where, keys=doomed.keys, partitions=partitions).count()


def update(target: Target, assignments: dict[str, str], where: str | None, dry_run: bool) -> None:
    """`hudi-py update`."""
    table = target.open()
    if dry_run:
        _would(target, "updated", table.scan(filter=where).count())
        return
    report(target, table.update(assignments, where), "update")


def report(target: Target, result: WriteResult, statement: str = "") -> None:
    """Says what a write did; `statement`: what it was, if that is not its operation."""
    screen = Screen()
    if target.as_json:
        screen.json(result)
        return
    if result.instant is None:
        screen.line("Nothing was written: there are no rows.")
        return
    what = statement or result.operation.replace("_", " ")
    screen.line(f"{what.capitalize()} {result.instant}: {result.rows_changed()}")
    screen.line(f"{counted(result.num_files, 'file')}, {show_bytes(result.num_bytes)}", "dim")
    for change in result.schema_changes:
        screen.line(f"Column {change}")
    if result.services:
        screen.line(f"Then: {', '.join(result.services).replace('_', ' ')}", "dim")


def _would(target: Target, word: str, count: int) -> None:
    screen = Screen()
    if target.as_json:
        screen.json({"dry_run": True, f"num_{word}": count})
    else:
        screen.line(f"{counted(count, 'row')} would be {word}. Nothing was changed.")


def _key_columns(table: Table) -> list[str]:
    """Columns that identify a row: those of its key, of its partition, and of its order."""
    properties = table.properties
    keys = ("hoodie.table.recordkey.fields", "hoodie.table.partition.fields", "hoodie.table.ordering.fields")
    texts = [properties.get(key, "") for key in keys]
    return list(dict.fromkeys(part.strip().split(":")[0] for text in texts for part in text.split(",") if part.strip()))
