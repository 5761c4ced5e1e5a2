"""Writes rows from files into tables; deletes, updates and erases rows."""

from __future__ import annotations

import logging
import re
import sys
from base64 import b64decode
from collections.abc import Callable
from dataclasses import asdict, dataclass
from json import JSONDecoder
from typing import IO, Any, Final

import click
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json, parquet

import hudi_py
from hudi_py.cli.declare import CommandTarget, confirm
from hudi_py.cli.export import format_of
from hudi_py.cli.rows import TableCreation
from hudi_py.cli.screen import Screen
from hudi_py.errors import SchemaMismatchError, TableNotFoundError
from hudi_py.model.words import Spoken, capitalised, counted, show_bytes
from hudi_py.schema import META_FIELDS
from hudi_py.table import Table
from hudi_py.write.result import WriteResult

_INEXACT: Final = r"^(\+|-?(0[0-9]|[0-9]{16,}$|[0.]*[1-9]\.?([0-9]\.?){17,}))"
"""Numbers in text that floats do not keep: a plus sign, leading zeros, long integers, more than 17 digits."""
_JSON: Final = JSONDecoder()
_LONG_NUMBER: Final = re.compile(rb"[0-9]{16}")
_ZONED: Final = r"[T ][0-9:.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_log = logging.getLogger(__name__)
_ARROW_FILE: Final = b"ARROW1"
"""First bytes of an Arrow file; a stream begins differently."""


def write(target: CommandTarget, file: str, operation: str, form: str | None, new: TableCreation) -> None:
    """Implements `hudi-py write`."""
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


def bootstrap(target: CommandTarget, source: str, mode: str, regex: str | None, new: TableCreation) -> None:
    """`hudi-py bootstrap`."""
    result = hudi_py.bootstrap(
        target.path,
        source,
        mode,
        target.options,
        regex=regex,
        storage_options=target.storage_options,
        **asdict(new),
    )
    report(target, result)


def read_rows(file: IO[bytes], form: str, known: pa.Schema | None, name: str) -> Any:
    """Reads the rows of a file as Arrow. Columns of CSV and JSON that the table has are read in its types.

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
            # empty text is null: CSV writes both alike
            convert_options=csv.ConvertOptions(
                column_types=types, strings_can_be_null=True, null_values=[""], include_columns=only
            ),
        )

    rows = read(types)
    twice = sorted({name for name in rows.schema.names if rows.schema.names.count(name) > 1})
    if twice:
        raise SchemaMismatchError(f"The header has the column '{twice[0]}' more than once: rename it")
    guessed = [field.name for field in rows.schema if field.name not in types and _is_guess(field.type)]
    texts = read({**types, **dict.fromkeys(guessed, pa.string())}, guessed) if guessed else None
    for name in guessed:
        assert texts is not None
        changed = _changed_as_numbers(texts.column(name), rows.column(name))
        if len(changed):
            kind = "truth value" if pa.types.is_boolean(rows.column(name).type) else "number"
            _log.warning("column %s is read as text: as a %s, %r would change", name, kind, changed[0].as_py())
            rows = rows.set_column(rows.schema.get_field_index(name), name, texts.column(name))
    return rows


def _is_guess(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _changed_as_numbers(texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Restores text that was guessed to be numbers if a number would lose digits, or if it mixes 0 and 1 with true and
    false."""
    if pa.types.is_boolean(numbers.type):
        changed = pc.is_in(texts, value_set=pa.array(["0", "1"]))
    elif pa.types.is_integer(numbers.type):
        changed = pc.not_equal(texts, numbers.cast(pa.string()))
    else:
        too_large = pc.and_(pc.is_inf(numbers), pc.match_substring_regex(texts, "[0-9]"))
        changed = pc.or_(pc.match_substring_regex(texts, _INEXACT), too_large)
    return texts.filter(pc.fill_null(changed, False))


def _json(file: IO[bytes], types: dict[str, pa.DataType]) -> pa.Table:
    data = pa.py_buffer(file.read())

    def read(types: dict[str, pa.DataType]) -> pa.Table:
        # a field that no object has is null, like one that some objects lack
        options = json.ParseOptions(explicit_schema=pa.schema(types) if types else None)
        return json.read_json(pa.BufferReader(data), parse_options=options)

    wanted = dict(types)
    rows = read({name: _as_text(kind) for name, kind in types.items()})
    guessed = {field.name: field.type for field in rows.schema if field.name not in types}
    texts = {name: _as_text(kind) for name, kind in guessed.items() if _as_text(kind) != kind}
    if texts:
        rows = read({**{name: _as_text(kind) for name, kind in types.items()}, **texts})
        wanted.update({name: guessed[name] for name in texts})
    _check_numbers(data.to_pybytes(), {name: kind for name, kind in guessed.items() if _has_double(kind)})
    for at, name in enumerate(rows.schema.names):
        kind = wanted.get(name)
        if kind is not None and rows.schema.field(at).type != kind:
            column = rows.column(at).combine_chunks()
            rows = rows.set_column(at, name, _of_text(column, kind, name))
    return rows


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Returns the type with text for dates, times and bytes, as in JSON."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_text(field.type)) for field in kind])
    return pa.list_(_as_text(kind.value_type)) if pa.types.is_list(kind) else kind


def _of_text(values: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """Converts values read as `_as_text` to the wanted type. Bytes are base64, as `read` writes them.

    Raises:
        SchemaMismatchError: a text is not a value of the type.
    """
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        parts = [_of_text(values.field(field.name), field.type, f"{name}.{field.name}") for field in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        item = _of_text(values.values, kind.value_type, name)
        return pa.ListArray.from_arrays(values.offsets, item, type=kind, mask=values.is_null())
    if not pa.types.is_string(values.type) or pa.types.is_string(kind):
        return values.cast(kind)
    if pa.types.is_binary(kind):
        try:
            decoded = [None if text is None else b64decode(text, validate=True) for text in values.to_pylist()]
        except ValueError as error:
            raise SchemaMismatchError(f"Column '{name}' is binary, and a text of it is no base64: {error}") from None
        return pa.array(decoded, kind)
    if not pa.types.is_timestamp(kind):
        return values.cast(kind)
    zoned = pc.match_substring_regex(values, _ZONED)
    if kind.unit == "s":  # guessed
        if pc.any(zoned).as_py() and not pc.all(zoned).as_py():
            return values
        kind = pa.timestamp("us", "UTC" if pc.any(zoned).as_py() else None)
    elif kind.tz is not None:
        values = pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", ""))
    return values.cast(kind)


def _has_double(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_double(field.type) for field in kind)
    return _has_double(kind.value_type) if pa.types.is_list(kind) else bool(pa.types.is_float64(kind))


def _check_numbers(data: bytes, guessed: dict[str, pa.DataType]) -> None:
    """Refuses whole numbers that would change as doubles. They are guessed to be doubles if they exceed 64 bits or
    occur with fractions.

    Raises:
        SchemaMismatchError: there is one.
    """
    # a Python loop over the few lines with a number that long
    for line in data.splitlines() if guessed and _LONG_NUMBER.search(data) else ():
        text = line.decode().strip().removeprefix("\ufeff") if _LONG_NUMBER.search(line) else ""
        while text:
            row, end = _JSON.raw_decode(text)
            text = text[end:].lstrip()
            for name, kind in guessed.items():
                changed = _changed(row.get(name), kind)
                if changed is not None:
                    raise SchemaMismatchError(
                        f"Column '{name}' has {changed}, which would change as a double: write it as text, in quotes, "
                        "or make the table first, with a type that holds it"
                    )


def _changed(value: Any, kind: pa.DataType) -> int | None:
    if isinstance(value, dict) and pa.types.is_struct(kind):
        changes = (_changed(value.get(field.name), field.type) for field in kind)
    elif isinstance(value, list) and pa.types.is_list(kind):
        changes = (_changed(member, kind.value_type) for member in value)
    else:
        is_whole = isinstance(value, int) and pa.types.is_float64(kind)
        return value if is_whole and (abs(value) >= 10**308 or int(float(value)) != value) else None
    return next((change for change in changes if change is not None), None)


def _parquet(file: IO[bytes], types: dict[str, pa.DataType]) -> pa.RecordBatchReader:
    # standard input cannot seek; `pre_buffer` would keep everything that has been read
    opened = parquet.ParquetFile(file if file.seekable() else pa.BufferReader(file.read()), pre_buffer=False)
    return pa.RecordBatchReader.from_batches(opened.schema_arrow, opened.iter_batches())


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
    """What to delete; exactly one field is set."""

    where: str | None
    keys: list[str] | None
    partition: tuple[str, ...]


def delete(target: CommandTarget, doomed: Doomed, dry_run: bool, yes: bool) -> None:
    """Implements `hudi-py delete`."""
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
    """Counts the rows that would be deleted. In partitions, `*` stands for any text, as in `delete_partition`."""
    partitions = None
    if doomed.partition:
        patterns = [re.compile(".*".join(map(re.escape, path.strip("/").split("*")))) for path in doomed.partition]
        known: list[str] = table.partitions()["partition"].to_pylist()
        partitions = [path for path in known if any(pattern.fullmatch(path) for pattern in patterns)]
        if not partitions:
            return 0
    return table.scan(filter=doomed.where, keys=doomed.keys, partitions=partitions).count()


def update(target: CommandTarget, assignments: dict[str, str], where: str | None, dry_run: bool) -> None:
    """Implements `hudi-py update`."""
    table = target.open()
    if dry_run:
        _would(target, "updated", table.scan(filter=where).count())
        return
    report(target, table.update(assignments, where), "update")


def report(target: CommandTarget, result: WriteResult, statement: str = "") -> None:
    """Reports what a write did. `statement` names it, if that is not its operation."""
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


def _would(target: CommandTarget, word: str, count: int) -> None:
    screen = Screen()
    if target.as_json:
        screen.json({"dry_run": True, f"num_{word}": count})
    else:
        screen.line(f"{counted(count, 'row')} would be {word}. Nothing was changed.")


def _key_columns(table: Table) -> list[str]:
    """Returns columns that identify a row: record key, partition and ordering columns."""
    properties = table.properties
    keys = ("hoodie.table.recordkey.fields", "hoodie.table.partition.fields", "hoodie.table.ordering.fields")
    texts = [properties.get(key, "") for key in keys]
    return list(dict.fromkeys(part.strip().split(":")[0] for text in texts for part in text.split(",") if part.strip()))


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What to erase, by a condition or by keys, and how."""

    where: str | None
    keys: list[str] | None
    delete_savepoints: bool
    reference: str


def erase(target: CommandTarget, asked: ErasureRequest, dry_run: bool, yes: bool) -> bool:
    """Implements `hudi-py erase`; returns whether nothing is left of the rows."""
    table, screen = target.open(), Screen()
    question = f"Erase rows from {table.uri} for good?"
    if dry_run or (not yes and sys.stdin.isatty()):
        plan = table.preview_erase(asked.where, keys=asked.keys)
        if dry_run and target.as_json:
            screen.json({"dry_run": True, **plan.to_dict()})
        elif not target.as_json:
            _show(screen, plan)
        if dry_run or (not plan.needed and not target.as_json):
            return True
        refused = plan.in_the_way or (plan.savepoints and not asked.delete_savepoints)
        yes = bool(refused) or not plan.needed  # nothing will change, so there is no question to ask
        question = f"Erase {counted(plan.num_rows, 'row')}, and older versions, from {table.uri} for good?"
    confirm(question, yes)
    report = table.erase(
        asked.where, keys=asked.keys, delete_savepoints=asked.delete_savepoints, reference=asked.reference
    )
    if target.as_json:
        screen.json(report.to_dict())
    else:
        _show(screen, report)
    return report.complete


def _show(screen: Screen, spoken: Spoken) -> None:
    first, *more = str(spoken).splitlines()
    for line in (capitalised(first), *more):
        screen.line(line, hang=len(line) - len(line.lstrip()) + 2)
