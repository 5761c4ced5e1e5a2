"""Reads input data as Arrow record batches in the types of Hudi tables.

Accepts objects with the Arrow C stream or array interface (PyArrow, Polars, DuckDB, ...), PyArrow datasets and
scanners, pandas data frames, lazy frames of Polars, lists of dicts, dicts of lists, and iterators over dicts or
batches. Types that Hudi tables lack are widened if nothing is lost (unsigned and small integers, dictionaries, large
and view types, timestamps of other units), and refused otherwise. Among Arrow's extension types, `bool8` becomes
boolean, `json` a string and `uuid` its 16 bytes; others are refused. In a field's metadata, `hudi_type` is kept: it
turns a new column into a VECTOR, VARIANT or BLOB.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from hudi_py.errors import SchemaMismatchError, first_line
from hudi_py.formats.hudi_types import VARIANT, Vector, declaration, declared, parse_type
from hudi_py.merge.settings import IS_DELETED
from hudi_py.schema import META_FIELDS, OPERATION, conform_array

_SPARKS_OWN = ("geography", "geometry")
"""Types that Spark passes as structs of their bytes, with this name in the metadata of a member. Written as structs,
they would become different columns. Spark passes variants in the same way; these are written."""
BATCH_ROWS = 131_072
"""Maximum number of rows in a batch that `Input.batches` yields."""


@dataclass(frozen=True, slots=True)
class Input:
    """Rows to write: a schema in table types without meta columns, and the batches.

    `batches` may be called only once if the source is a stream (`replayable` is False).
    """

    schema: pa.Schema
    open: Callable[[], pa.RecordBatchReader]
    """Reader over the source's own batches, not yet normalised."""
    replayable: bool
    num_rows: int | None = None
    """None if the source does not know."""

    @property
    def in_memory(self) -> bool:
        """Whether the rows can be read before they are written, at little cost."""
        return self.replayable and self.num_rows is not None

    def columns(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows with some of their columns; ignores names that the data lacks."""
        schema = pa.schema([field for field in self.schema if field.name in names])
        with self.open() as reader:
            for whole in reader:
                yield normalise_batch(whole.select(schema.names), schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows, in order, in `schema`, without empty batches.

        Raises:
            SchemaMismatchError: a value cannot be held by the table's type.
        """
        with self.open() as reader:
            for whole in reader:
                for start in range(0, whole.num_rows, BATCH_ROWS):
                    yield normalise_batch(whole.slice(start, BATCH_ROWS), self.schema)


def read_input(data: Any) -> Input:
    """Converts the data to an `Input`.

    Raises:
        SchemaMismatchError: not something rows can be read from, a column occurs twice, or a column type that no Hudi
            table has.
    """
    if isinstance(data, Input):
        return data
    if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__"):
        return _of_iterator(data)
    data = _as_arrow(data)
    if isinstance(data, pa.Table):
        return _of_table(data)
    if isinstance(data, pa.RecordBatchReader):
        return Input(normalise_schema(data.schema), lambda: data, replayable=False)
    dataset = sys.modules.get("pyarrow.dataset")  # not imported here: it would load pandas
    if dataset is not None and isinstance(data, dataset.Dataset):
        return Input(normalise_schema(data.schema), lambda: data.scanner().to_reader(), replayable=True)
    if dataset is not None and isinstance(data, dataset.Scanner):
        return Input(normalise_schema(data.projected_schema), data.to_reader, replayable=False)
    if _package_of(data) == "polars":
        for name, dtype in (getattr(data, "schema", None) or {}).items():
            _check_polars(dtype, name)
    if hasattr(data, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except pa.ArrowException as error:
            kind = _kind_of(data)
            hint = "; make it a data frame first (to_frame)" if kind.endswith("Series") else ""
            raise SchemaMismatchError(f"Cannot read rows from a {kind}: {first_line(error)}{hint}") from error
        return Input(normalise_schema(reader.schema), lambda: reader, replayable=False)
    if hasattr(data, "__arrow_c_array__"):
        return read_input(pa.record_batch(data))
    raise _not_rows(data)


def _as_arrow(data: Any) -> Any:
    """Returns rows of plain Python objects and of data frames as a table or a frame with a stream; anything else
    unchanged."""
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _package_of(data) == "pandas" and hasattr(data, "columns"):
        # pandas' own stream would add its index as a column
        try:
            return pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            reason = "; ".join(str(part) for part in reversed(error.args))
            raise SchemaMismatchError(f"Cannot read rows from the pandas data frame: {reason}") from error
    if _package_of(data) == "polars" and hasattr(data, "collect"):
        return data.collect()
    if isinstance(data, dict) and all(isinstance(column, (list, tuple)) for column in data.values()):
        return _of_lists(data)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _of_dicts(data)
    return data


def _package_of(data: object) -> str:
    return type(data).__module__.partition(".")[0]


def _kind_of(data: object) -> str:
    return f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")


def _not_rows(data: object) -> SchemaMismatchError:
    kind = _kind_of(data)
    if isinstance(data, str):
        kind += ", which may name a file (read it first, for example with pyarrow.dataset.dataset)"
    elif isinstance(data, dict):
        kind += " of single values (put it into a list: [row])"
    elif isinstance(data, (list, tuple)):
        kind += f" of {', '.join(sorted({type(row).__qualname__ for row in data}))}"
    elif kind.endswith("Series"):
        kind += " (make it a data frame first, with to_frame)"
    return SchemaMismatchError(
        f"Cannot read rows from a {kind}; supported: PyArrow tables, batches, readers and datasets, Polars and "
        "pandas data frames, lists of dicts, dicts of lists, iterators over dicts or batches, and objects with "
        "__arrow_c_stream__"
    )


def _check_polars(dtype: Any, path: str) -> None:
    """Raises SchemaMismatchError for types that Arrow does not have: Polars exports an Object as memory addresses."""
    name = dtype.base_type().__name__
    if name in ("Object", "Int128", "UInt128"):
        raise SchemaMismatchError(
            f"Column '{path}' has Polars' type {name}, which neither Arrow nor a Hudi table can hold; cast it to a "
            "text, a number of 64 bits or a decimal, or leave it out"
        )
    for member in getattr(dtype, "fields", None) or ():
        _check_polars(member.dtype, f"{path}.{member.name}")
    if getattr(dtype, "inner", None) is not None:
        _check_polars(dtype.inner, f"{path}.element")


def _of_iterator(items: Iterator[Any]) -> Input:
    """Returns the input for an iterator over rows or batches. Dicts are held in memory, because only all of them
    together show the columns and their types."""
    first = next(items, None)
    if first is None:
        return read_input([])
    if isinstance(first, dict):
        return read_input([first, *items])
    if not isinstance(first, (pa.RecordBatch, pa.Table)):
        raise SchemaMismatchError(
            f"Cannot read rows from an iterator over {type(first).__qualname__}; supported: dicts, and PyArrow "
            "tables and batches"
        )
    schema = first.schema

    def batches() -> Iterator[pa.RecordBatch]:
        for item in itertools.chain((first,), items):
            if not isinstance(item, (pa.RecordBatch, pa.Table)) or not item.schema.equals(schema):
                raise SchemaMismatchError("Cannot read rows from batches of several schemas: cast them to one schema")
            yield from item.to_batches() if isinstance(item, pa.Table) else (item,)

    return read_input(pa.RecordBatchReader.from_batches(schema, batches()))


def _of_dicts(rows: list[dict[str, Any]]) -> pa.Table:
    """Returns a table with a column for each key of any row, in order of first appearance; null where a row lacks
    it."""
    if not rows:
        raise SchemaMismatchError("An empty list has no columns to make a table of; pass a PyArrow table with a schema")
    return _of_lists({name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)})


def _of_lists(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{name!r} {len(values)}" for name, values in columns.items())
        raise SchemaMismatchError(
            f"Cannot read rows from lists of several lengths: {lengths}; give each row all columns"
        )
    arrays = []
    for name, values in columns.items():
        if not isinstance(name, str):
            raise SchemaMismatchError(f"Cannot read rows with the key {name!r}: keys name columns, and must be strings")
        try:
            arrays.append(pa.array(values))
            if "timestamp" in str(arrays[-1].type) and len({_has_zone(time) for time in _iterate_times(values)}) > 1:
                raise ValueError("some times have a zone and some have none, which would be taken for UTC")
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise SchemaMismatchError(
                f"Column '{name}' of the rows has values without a common type: {error}; give all of them one type, or "
                "pass a PyArrow table"
            ) from error
    return pa.Table.from_arrays(arrays, names=list(columns))


def _iterate_times(values: Any) -> Iterator[datetime]:
    """Yields the times in Python's values, also within lists and dicts. Works value by value, because these are Python
    objects."""
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, datetime):
            yield value
        elif isinstance(value, (list, tuple, Mapping)):
            yield from _iterate_times(value)


def _has_zone(time: datetime) -> bool:
    return time.tzinfo is not None


def _of_table(table: pa.Table) -> Input:
    return Input(normalise_schema(table.schema), table.to_reader, replayable=True, num_rows=table.num_rows)


def normalise_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema in table types, without the five meta columns (a table's rows may be written back).

    Raises:
        SchemaMismatchError: a column occurs twice, has a name which Hudi keeps for itself, or a type that no Hudi table
            has.
    """
    fields = [field for field in schema if field.name not in META_FIELDS]
    if not fields:
        raise SchemaMismatchError("The data has no columns; at least the record key's is needed")
    _check_names(fields)
    for field in fields:
        _check_reserved(field.name)
    result = pa.schema([_normalise_field(field, field.name) for field in fields])
    for field in result:
        if field.name == IS_DELETED and not (pa.types.is_boolean(field.type) or pa.types.is_null(field.type)):
            raise SchemaMismatchError(
                f"Column '{IS_DELETED}', which marks rows as deleted, has the type {field.type}, and must be boolean: "
                "cast it, or give it another name"
            )
    return result


def _check_names(fields: Iterable[pa.Field], path: str = "") -> None:
    """Refuses names of columns, and of a struct's fields, that are equal without regard to case, as readers of Hudi
    compare them."""
    seen: dict[str, str] = {}
    for field in fields:
        lowered = field.name.lower()
        if lowered in seen:
            other = "" if seen[lowered] == field.name else f" (as '{path}{seen[lowered]}', where only the case differs)"
            raise SchemaMismatchError(
                f"Column '{path}{field.name}' occurs more than once in the data{other}; give each its own name"
            )
        seen[lowered] = field.name


def _check_reserved(name: str) -> None:
    """Refuses meta columns in another case: Spark would consider every query ambiguous."""
    for reserved in (*META_FIELDS, IS_DELETED, OPERATION):
        if name != reserved and name.lower() == reserved:
            raise SchemaMismatchError(
                f"Column '{name}' of the data differs from Hudi's own column '{reserved}' in case only, which makes "
                "queries ambiguous; rename it"
            )


def normalise_type(kind: pa.DataType, path: str) -> pa.DataType:
    """Returns the type in which a table holds values of `kind`. A null type stays: the table's column decides.

    Raises:
        SchemaMismatchError: no Hudi table has such a type. `path` names the column.
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _normalise_extension(kind, kind.extension_name, path)
    if types.is_dictionary(kind):
        return normalise_type(kind.value_type, path)
    if types.is_integer(kind):
        return _normalise_integer(kind, path)
    scalar = _normalise_scalar(kind)
    if scalar is not None:
        return scalar
    if types.is_struct(kind):
        return _normalise_struct(kind, path)
    if types.is_map(kind):
        if not normalise_type(kind.key_type, f"{path}.key").equals(pa.string()):
            _refuse_type(kind, path)
        return pa.map_(pa.string(), _normalise_field(kind.item_field, f"{path}.value"))
    if _is_list(kind):
        return pa.list_(_normalise_field(kind.value_field, f"{path}.element").with_name("element"))
    return _refuse_type(kind, path)


_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)


def _normalise_scalar(kind: pa.DataType) -> pa.DataType | None:
    """Returns the type in which a table holds scalars other than integers; None: it holds no such type, or it is
    nested."""
    types = pa.types
    if types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind) or types.is_null(kind):
        return kind
    if types.is_float16(kind):
        return pa.float32()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if any(check(kind) for check in _BINARY):
        return pa.binary()
    if types.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_date(kind):
        return pa.date32()
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    return None


def _normalise_struct(kind: pa.StructType, path: str) -> pa.DataType:
    if not kind.num_fields:
        raise SchemaMismatchError(
            f"Column '{path}' is a struct without fields, which no Hudi table can hold; leave it out"
        )
    _check_names(kind, f"{path}.")
    for member in kind:
        for name in _SPARKS_OWN:
            if (member.metadata or {}).get(name.encode()) == b"true":
                raise SchemaMismatchError(
                    f"Column '{path}' has Spark's type {name}, which cannot be written yet; leave it out, or "
                    "cast it to a text, to binary or to a struct"
                )
    return pa.struct([_normalise_field(field, f"{path}.{field.name}") for field in kind])


def _normalise_field(field: pa.Field, path: str) -> pa.Field:
    name = (field.metadata or {}).get(b"ARROW:extension:name")  # a type unknown to this process
    kind = normalise_type(field.type, path) if name is None else _normalise_extension(field.type, name.decode(), path)
    custom = VARIANT if _is_sparks_variant(field.type) else declared(field)
    vector = None if custom is None else parse_type(custom, path)
    of_bytes = isinstance(vector, Vector) and vector.element == "INT8" and pa.types.is_list(kind)
    if of_bytes and pa.types.is_int32(kind.value_type):  # the type that bytes became
        kind = pa.list_(kind.value_field.with_type(pa.int8()))
    if custom is not None and not isinstance(vector, Vector) and not pa.types.is_struct(kind):
        kind, custom = _declared_within(kind, custom), None
    return pa.field(field.name, kind, field.nullable, metadata=declaration(custom))


def _declared_within(kind: pa.DataType, custom: str) -> pa.DataType:
    """Moves the declared type to the values of a list or map whose values are variants or blobs: Spark has the type of
    values in the metadata of the column."""
    if pa.types.is_list(kind):
        return pa.list_(_declare_values(kind.value_field, custom))
    return pa.map_(kind.key_type, _declare_values(kind.item_field, custom)) if pa.types.is_map(kind) else kind


def _declare_values(field: pa.Field, custom: str) -> pa.Field:
    if pa.types.is_struct(field.type):
        return field.with_metadata(declaration(custom))
    return field.with_type(_declared_within(field.type, custom))


def _is_sparks_variant(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and any((member.metadata or {}).get(b"variant") == b"true" for member in kind)


def _normalise_extension(kind: pa.DataType, name: str, path: str) -> pa.DataType:
    if name == "arrow.bool8":
        return pa.bool_()
    if name not in ("arrow.json", "arrow.uuid"):
        raise SchemaMismatchError(
            f"Column '{path}' has the extension type {name}, which no Hudi table can hold; supported: arrow.bool8, "
            "arrow.json and arrow.uuid: cast the column to its storage type"
        )
    return normalise_type(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind, path)


def normalise_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Converts the batch to `schema`, which is the `normalise_schema` of its own schema."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        conform_array(batch.column(field.name), field.type, path=field.name, convert=_cast_column) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast_column(array: pa.Array, target: pa.DataType, path: str, _: str) -> pa.Array:
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        kind = array.type
        hint = "; round it first" if pa.types.is_timestamp(kind) else ""
        raise SchemaMismatchError(
            f"Column '{path}' of type {kind} holds a value which a table cannot hold as {target}{hint}: {error}"
        ) from error


def _normalise_integer(kind: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_uint64(kind):
        _refuse_type(kind, path)
    return pa.int32() if kind.bit_width < 32 or pa.types.is_int32(kind) else pa.int64()


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    views = (types.is_list_view, types.is_large_list_view)
    return any(check(kind) for check in (types.is_list, types.is_large_list, types.is_fixed_size_list, *views))


def _refuse_type(kind: pa.DataType, path: str) -> pa.DataType:
    raise SchemaMismatchError(
        f"Column '{path}' has the type {kind}, which no Hudi table can hold; supported: boolean, integers up to 64 "
        "bits (uint64 as decimal(20, 0)), float, double, string, binary, decimal up to 38 digits, date, timestamp, "
        "struct, list, and map with string keys: cast the column"
    )
