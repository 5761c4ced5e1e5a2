"""What a caller may hand over as data, as Arrow record batches in the types a Hudi table can have.

Taken are objects with the Arrow C stream or array interface (PyArrow, Polars, DuckDB, ...), PyArrow datasets and
scanners, pandas data frames and lists of dicts. Types without a counterpart in a Hudi table are widened where nothing
is lost (unsigned and small integers, dictionaries, large and view types, timestamps of other units) and refused
otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_py.errors import SchemaMismatchError
from hudi_py.merge.settings import IS_DELETED
from hudi_py.schema import META_FIELDS

_SPARKS_OWN = ("variant", "geography", "geometry")
"""Types which Spark hands on as structs of their bytes, with this name in the metadata of a member. As plain structs
they would be other columns than those that were given."""
BATCH_ROWS = 131_072
"""Largest number of rows of a batch which `Input.batches` yields."""


@dataclass(frozen=True, slots=True)
class Input:
    """Rows to write: a schema in table types without meta columns, and the batches.

    `batches` may be called once only where the source is a stream (`replayable` is False).
    """

    schema: pa.Schema
    open: Callable[[], pa.RecordBatchReader]
    """Reader over the source's own batches, not yet normalised."""
    replayable: bool
    num_rows: int | None = None
    """None when the source does not say."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in order, in `schema`; empty batches are left out.

        Raises:
            SchemaMismatchError: a value cannot be held by the table's type.
        """
        with self.open() as reader:
            for whole in reader:
                for at in range(0, whole.num_rows, BATCH_ROWS):
                    yield normalise_batch(whole.slice(at, BATCH_ROWS), self.schema)


def read_input(data: Any) -> Input:
    """The data as an `Input`.

    Raises:
        SchemaMismatchError: not something rows can be read from, a column occurs twice, or a column type that no Hudi
            table has.
    """
    if isinstance(data, Input):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        # pandas' own stream would add its index as a column
        data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        data = pa.Table.from_pylist(data)
    if isinstance(data, pa.Table):
        return _of_table(data)
    if isinstance(data, pa.RecordBatchReader):
        return Input(normalise_schema(data.schema), lambda: data, replayable=False)
    dataset = sys.modules.get("pyarrow.dataset")  # not imported here: it would load pandas
    if dataset is not None and isinstance(data, dataset.Dataset):
        return Input(normalise_schema(data.schema), lambda: data.scanner().to_reader(), replayable=True)
    if dataset is not None and isinstance(data, dataset.Scanner):
        return Input(normalise_schema(data.projected_schema), data.to_reader, replayable=False)
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Input(normalise_schema(reader.schema), lambda: reader, replayable=False)
    if hasattr(data, "__arrow_c_array__"):
        return read_input(pa.record_batch(data))
    raise SchemaMismatchError(
        f"Cannot read rows from a {type(data).__module__}.{type(data).__qualname__}; supported are PyArrow tables, "
        "batches, readers and datasets, Polars and pandas data frames, lists of dicts, and objects with "
        "__arrow_c_stream__"
    )


def _of_table(table: pa.Table) -> Input:
    return Input(normalise_schema(table.schema), table.to_reader, replayable=True, num_rows=table.num_rows)


def normalise_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in table types, the five meta columns left out (a table's rows may be written back).

    Raises:
        SchemaMismatchError: a column occurs twice or has a type that no Hudi table has.
    """
    fields = [field for field in schema if field.name not in META_FIELDS]
    if not fields:
        raise SchemaMismatchError("The data has no columns; at least the record key's is needed")
    _check_names(fields)
    result = pa.schema(
        [pa.field(field.name, normalise_type(field.type, field.name), field.nullable) for field in fields]
    )
    for field in result:
        if field.name == IS_DELETED and not (pa.types.is_boolean(field.type) or pa.types.is_null(field.type)):
            raise SchemaMismatchError(
                f"Column '{IS_DELETED}', which marks rows as deleted, has the type {field.type}, and must be boolean: "
                "cast it, or give it another name"
            )
    return result


def _check_names(fields: Iterable[pa.Field], path: str = "") -> None:
    """Readers of Hudi compare the names of columns, and of a struct's fields, without regard to case."""
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:
            raise SchemaMismatchError(
                f"Column '{path}{field.name}' occurs more than once in the data; give each its own name"
            )
        seen.add(field.name.lower())


def normalise_type(kind: pa.DataType, path: str) -> pa.DataType:
    """The type in which a table holds values of `kind`. A null type stays: the table's column decides.

    Raises:
        SchemaMismatchError: no Hudi table has such a type. `path` names the column.
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return normalise_type(kind.storage_type, path)
    if types.is_dictionary(kind):
        return normalise_type(kind.value_type, path)
    if types.is_integer(kind):
        return _integer(kind, path)
    if types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind) or types.is_null(kind):
        return kind
    if types.is_float16(kind):
        return pa.float32()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return pa.binary()
    if types.is_decimal(kind):
        return (
            pa.decimal128(kind.precision, kind.scale)
            if kind.precision <= 38 and kind.scale >= 0
            else _refuse(kind, path)
        )
    if types.is_date(kind):
        return pa.date32()
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_struct(kind):
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
        return pa.struct(
            [pa.field(field.name, normalise_type(field.type, f"{path}.{field.name}"), field.nullable) for field in kind]
        )
    if types.is_map(kind):
        if not normalise_type(kind.key_type, f"{path}.key").equals(pa.string()):
            _refuse(kind, path)
        return pa.map_(pa.string(), kind.item_field.with_type(normalise_type(kind.item_type, f"{path}.value")))
    if _is_list(kind):
        item = kind.value_field
        return pa.list_(pa.field("element", normalise_type(item.type, f"{path}.element"), item.nullable))
    return _refuse(kind, path)


def normalise_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in `schema`, which is its own schema's `normalise_schema`."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        _cast(batch.column(batch.schema.get_field_index(field.name)), field.type, field.name) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if array.type.equals(target):
        return array
    if isinstance(array, pa.ExtensionArray):
        return _cast(array.storage, target, path)
    if pa.types.is_dictionary(array.type):
        return _cast(array.dictionary_decode(), target, path)
    try:
        if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
            array = array.cast(pa.large_list(array.type.value_field))
        return array.cast(target)
    except pa.ArrowInvalid as error:
        kind = array.type
        hint = "; round it first" if pa.types.is_timestamp(kind) else ""
        raise SchemaMismatchError(
            f"Column '{path}' of type {kind} holds a value which a table cannot hold as {target}{hint}: {error}"
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise SchemaMismatchError(
            f"Column '{path}' of type {array.type} cannot be written as {target}: {error}"
        ) from error


def _integer(kind: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_uint64(kind):
        _refuse(kind, path)
    return pa.int32() if kind.bit_width < 32 or pa.types.is_int32(kind) else pa.int64()


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _refuse(kind: pa.DataType, path: str) -> pa.DataType:
    raise SchemaMismatchError(
        f"Column '{path}' has the type {kind}, which no Hudi table can hold; supported are boolean, integers up to 64 "
        "bits (uint64 as decimal(20, 0)), float, double, string, binary, decimal up to 38 digits, date, timestamp, "
        "struct, list, and map with string keys: cast the column"
    )


def null_columns(schema: pa.Schema) -> list[str]:
    """Names of columns whose type is null: they take the type of the table's column, a new table cannot have them."""
    return [field.name for field in schema if pa.types.is_null(field.type)]
