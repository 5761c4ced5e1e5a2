"""Prints the rows of a scan, or of a DuckDB query over scans, or exports them as CSV, JSON lines, Parquet or Arrow."""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timezone
from typing import IO, Any, Final

import click
import numpy as np
import pyarrow as pa
from pyarrow import csv

import hudi_py
from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.rows import ScanQuery
from hudi_py.cli.screen import Screen, ScreenColumn, number
from hudi_py.errors import ConfigError, missing_library
from hudi_py.formats.arrays import is_bytes, is_number
from hudi_py.formats.base.parquet_writer import fill_required, plain_writer
from hudi_py.interop.duckdb import query as run_query
from hudi_py.model.words import counted, show_bytes, visible_json
from hudi_py.progress import Progress
from hudi_py.read import Scan
from hudi_py.schema import META_FIELDS
from hudi_py.table import Table

_ROWS_SHOWN: Final = 20
_ENDINGS: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}
_BINARY: Final = ("parquet", "arrow")
_ONLY = "t"
"""Name of a table without a given name."""


@dataclass(frozen=True, slots=True)
class Form:
    """How to print rows, and where to."""

    to: str | None
    output: str | None

    def resolved(self, as_json: bool) -> str:
        """Returns the format: as given, from `--json` or the file name, or else a table."""
        if as_json and self.to not in (None, "json"):
            raise click.UsageError(f"--json and --to {self.to} contradict each other.")
        form = self.to or ("json" if as_json else None)
        if form is None and self.output is not None:
            form = format_of(self.output)
            if form is None:
                raise click.UsageError(f"The name {self.output} has no ending of a known format: give --to.")
        if form in _BINARY and self.output is None and sys.stdout.isatty():
            raise click.UsageError(f"A terminal cannot show {form} files: give --output.")
        return form or "table"


def format_of(name: str) -> str | None:
    """Returns the format of a file by its name."""
    return _ENDINGS.get(os.path.splitext(name)[1].lower())


def read(target: CommandTarget, query: ScanQuery, meta: bool, to: str | None, output: str | None) -> None:
    """Implements `hudi-py read`."""
    form = Form(to, output)
    shape = form.resolved(target.as_json)
    table = target.open()
    shown = _ROWS_SHOWN if shape == "table" and query.limit is None and Screen().terminal and output is None else None
    # one more than shown, to know whether there are more
    scan = make_scan(table, query if shown is None else replace(query, limit=shown + 1), meta)
    write_rows(scan.to_batches(), scan.schema, form, shape, shown)


def explain(target: CommandTarget, query: ScanQuery) -> None:
    """Implements `hudi-py explain`."""
    scan, screen = make_scan(target.open(), query, meta=False), Screen()
    if not target.as_json:
        title, *lines = scan.explain().splitlines()
        screen.path(title)
        for line in lines:
            screen.line(line, hang=14)
        return
    plan = scan.plan()
    screen.json(
        {
            "text": scan.explain(),
            "num_slices": len(plan.splits),
            "num_bytes": plan.size,
            "partitions": {"before": plan.partitions_before, "after": plan.partitions_after},
            "pruning": [
                {"step": item.step, "what": item.what, "before": item.before, "after": item.after}
                for item in plan.pruning
            ],
        }
    )


def make_scan(table: Table, query: ScanQuery, meta: bool) -> Scan:
    """Plans the scan that the options describe; without meta columns unless requested."""
    if query.cdc and query.incremental:
        raise click.UsageError("--incremental and --cdc contradict each other.")
    ranged = query.cdc or query.incremental
    if not ranged and (query.begin or query.end):
        raise click.UsageError("--begin and --end belong to --incremental or --cdc.")
    kind = "cdc" if query.cdc else "incremental" if query.incremental else "read_optimized"
    scan = table.scan(
        query.columns,
        query.filter,
        as_of=query.as_of,
        query_type=kind if ranged or query.read_optimized else None,
        begin=query.begin,
        end=query.end,
        keys=query.keys,
        partitions=query.partition or None,
        limit=query.limit,
    )
    names = [name for name in scan.schema.names if name not in META_FIELDS]
    if query.columns is not None or meta or query.cdc or len(names) == len(scan.schema) or not names:
        return scan
    return make_scan(table, replace(query, columns=names), meta=True)


def write_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, form: Form, shape: str, shown: int | None = None
) -> None:
    """Prints rows, or writes them to a file that appears when it is complete.

    Args:
        shape: the format.
        shown: rows to show of a table; None: all.
    """
    if shape == "table" and form.output is None:
        show_table(pa.Table.from_batches(list(batches), schema), shown)
        return
    write = {"csv": _write_csv, "json": _write_json, "parquet": _write_parquet, "arrow": _write_arrow}.get(shape)
    if write is None:
        raise click.UsageError("A table is for the terminal: give --to csv, json, parquet or arrow with --output.")
    if form.output is None:
        sys.stdout.flush()
        write(sys.stdout.buffer, batches, schema)
        return
    progress, rows = Progress.on_terminal(f"writing {form.output}"), 0

    def followed() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        progress.phase("reading")
        for batch in batches:
            yield batch
            rows += batch.num_rows
            progress.read(batch.num_rows)

    with progress, _appearing_file(form.output) as file:
        write(file, followed(), schema)
    size = show_bytes(os.path.getsize(form.output))
    click.echo(f"{counted(rows, 'row')} written to {form.output} ({size}).", err=True)


def show_table(rows: pa.Table, most: int | None = None) -> None:
    """Shows rows as a table for people, users' columns first."""
    screen = Screen()
    names = sorted(rows.schema.names, key=lambda name: name in META_FIELDS)
    columns = [number(name) if is_number(rows.schema.field(name).type) else ScreenColumn(name) for name in names]
    listed = rows if most is None else rows.slice(0, most)
    values = [_column_texts(listed[name]) for name in names]
    screen.table(columns, list(zip(*values, strict=True)), empty="No rows.")
    if most is not None and rows.num_rows > most:
        screen.note(f"The first {most} rows; see more with --limit, or all with --output FILE.")


def _column_texts(column: pa.ChunkedArray) -> list[Any]:
    """Formats values of a column for people: null is empty; numbers are plain, so that they can be copied."""
    convert = converter(column.type)
    values = column.to_pylist() if convert is None else [convert(item) for item in column.to_pylist()]
    return [str(item) if isinstance(item, (int, float)) and not isinstance(item, bool) else item for item in values]


def converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Returns a function that converts Python values of an Arrow type to JSON; None if they need no conversion.

    Times are ISO text, those with a zone in UTC; decimals are text; bytes are base64; floats that are no numbers are
    `NaN`, `Infinity` and `-Infinity`, as in Spark's `to_json`; maps are objects.
    """
    result = next((convert for fits, convert in _CONVERTERS if fits(kind)), None)
    if pa.types.is_struct(kind):
        members = {field.name: converter(field.type) for field in kind}
        result = lambda value: {name: _convert_value(members[name], part) for name, part in value.items()}  # noqa: E731
    elif pa.types.is_map(kind):
        item = converter(kind.item_type)
        result = lambda value: {str(key): _convert_value(item, part) for key, part in value}  # noqa: E731
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = converter(kind.value_type)
        result = lambda value: [_convert_value(element, part) for part in value]  # noqa: E731
    if result is None:
        return None
    return lambda value: None if value is None else result(value)


def _convert_value(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _float_json(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _time_json(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def _short_float(value: float) -> float | str:
    return _float_json(float(str(np.float32(value))))  # 0.1, not 0.10000000149011612


def _iso_text(value: date | time) -> str:
    return value.isoformat()


def _base64_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


_CONVERTERS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]]]] = (
    (pa.types.is_float32, _short_float),
    (pa.types.is_floating, _float_json),
    (pa.types.is_timestamp, _time_json),
    (pa.types.is_date, _iso_text),
    (pa.types.is_time, _iso_text),
    (pa.types.is_decimal, str),
    (is_bytes, _base64_text),
)
"""Converters of scalar types to JSON, with tests for types; the first match counts."""


def json_rows(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of a batch as JSON values. By row, since JSON lines are rows."""
    values = []
    for column in batch.columns:
        convert, items = converter(column.type), column.to_pylist()
        values.append(items if convert is None else [convert(item) for item in items])
    names = batch.schema.names
    for row in zip(*values, strict=True):
        yield dict(zip(names, row, strict=True))


def _write_json(file: IO[bytes], batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    for batch in batches:
        lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in json_rows(batch))
        file.write("".join(visible_json(line) + "\n" for line in lines).encode())


def _write_csv(file: IO[bytes], batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Writes CSV with a header. Nested values and bytes are text, as in JSON."""
    texts = {
        field.name
        for field in schema
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_fixed_size_binary(field.type)
    }
    flat = pa.schema([field.with_type(pa.string()) if field.name in texts else field for field in schema])
    with csv.CSVWriter(file, flat) as writer:
        for batch in batches:
            arrays = [
                _as_text(array) if field.name in texts else array
                for field, array in zip(schema, batch.columns, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=flat))


def _as_text(array: pa.Array) -> pa.Array:
    convert = converter(array.type)
    values = [_convert_value(convert, value) for value in array.to_pylist()]
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array(texts, pa.string())


def _write_parquet(file: IO[bytes], batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    with plain_writer(file, schema) as writer:
        for batch in batches:
            writer.write_batch(fill_required(batch))


def _write_arrow(file: IO[bytes], batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Writes an Arrow stream, which programs can also read from a pipe."""
    with pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


@contextmanager
def _appearing_file(path: str) -> Iterator[IO[bytes]]:
    """Opens a file that gets its name only once it is complete."""
    unfinished = f"{path}.part"
    try:
        with open(unfinished, "wb") as file:
            yield file
        os.replace(unfinished, path)
    except BaseException:  # half a file is useless, also after an interrupt
        if os.path.exists(unfinished):
            os.remove(unfinished)
        raise


def sql(target: CommandTarget, query: str, tables: Iterable[str], as_of: str | None, form: Form) -> None:
    """Implements `hudi-py sql`."""
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(str(missing_library(error, "run a query", "duckdb"))) from None
    shape = form.resolved(target.as_json)
    scans = {
        name: hudi_py.open_table(path, target.options, storage_options=target.storage_options).scan(as_of=as_of)
        for name, path in _named_tables(tables).items()
    }
    connection = duckdb.connect()
    try:
        table: pa.Table = run_query(query, scans, connection=connection).to_arrow_table()
    except duckdb.Error as error:
        raise ConfigError(f"Cannot run the query: {error}") from error
    finally:
        connection.close()
    if shape == "table" and form.output is None:
        show_table(table)
    else:
        write_rows(table.to_batches(), table.schema, form, shape)


def _named_tables(tables: Iterable[str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for given in tables:
        name, separator, path = given.partition("=")
        if not separator or not name.isidentifier():
            name, path = _ONLY, given
        if name in result:
            raise click.UsageError(f"Two tables have the name {name}: give each as NAME=PATH.")
        result[name] = path
    return result
