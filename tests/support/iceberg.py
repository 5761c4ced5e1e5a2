"""Reading what was published to Iceberg, with pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import hudi_py
from hudi_py.testing.rows import assert_rows_equal


def newest(path: str | Path) -> str:
    """The metadata file that lies beside a table."""
    folder = Path(path) / "metadata"
    return f"file://{folder}/v{(folder / 'version-hint.text').read_text()}.metadata.json"


def metadata(path: str | Path) -> dict[str, Any]:
    return json.loads(Path(newest(path).removeprefix("file://")).read_text())


def iceberg_table(location: str) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(location)


def read(path: str | Path, **scan: Any) -> pa.Table:
    """The rows that pyiceberg reads."""
    return iceberg_table(newest(path)).scan(**scan).to_arrow()


def assert_published(
    path: str | Path, options: Mapping[str, str] | None = None, *, query_type: str = "snapshot"
) -> pa.Table:
    """pyiceberg reads the rows that a scan gives, which are returned."""
    expected = hudi_py.open_table(path, options).scan(query_type=query_type).to_table()
    assert_rows_equal(without_null_structs(read(path)), without_null_structs(expected), ignore=())
    return expected


def without_null_structs(table: pa.Table) -> pa.Table:
    """The rows with empty lists and maps of structs in place of null ones, which pyiceberg (0.12) takes them for."""
    for at, field in enumerate(table.schema):
        kind = field.type
        inner = kind.item_type if pa.types.is_map(kind) else getattr(kind, "value_type", None)
        if (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)) and pa.types.is_struct(
            inner
        ):
            rows = [row or [] for row in table.column(at).to_pylist()]
            table = table.set_column(at, field, pa.chunked_array([pa.array(rows, kind)]))
        elif pa.types.is_struct(kind):
            table = table.set_column(at, field, pa.chunked_array([_without(table.column(at).combine_chunks())]))
    return table


def _without(array: pa.Array) -> pa.Array:
    """Lists within structs are empty if they are null, whatever they hold."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [_without(pc.struct_field(array, at)) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return pa.array([row or [] for row in array.to_pylist()], kind)
    return array
