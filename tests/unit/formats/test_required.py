"""Members that may not be null, in structs that are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.base.parquet_writer import has_required, required

LEAF = pa.struct([pa.field("x", pa.string(), nullable=False), pa.field("y", pa.int32())])
WHOLE = pa.struct([pa.field("r", LEAF, nullable=False), pa.field("o", LEAF), pa.field("b", pa.bool_(), nullable=False)])
KINDS = {
    "struct": WHOLE,
    "list": pa.list_(pa.field("element", WHOLE)),
    "firm": pa.list_(pa.field("element", LEAF, nullable=False)),
    "map": pa.map_(pa.string(), pa.field("value", WHOLE)),
}


def loose(kind: pa.DataType) -> pa.DataType:
    """The type with nulls everywhere."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, loose(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), pa.field("value", loose(kind.item_type)))
    return pa.list_(pa.field("element", loose(kind.value_type))) if pa.types.is_list(kind) else kind


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers with another nullability, as a reader of files leaves them."""
    if pa.types.is_struct(kind):
        members = [cast(array.field(at), each.type) for at, each in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [array.keys, cast(array.items, kind.item_type)], fields=[kind.key_field, kind.item_field]
        )
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    if pa.types.is_list(kind):
        child = cast(array.values, kind.value_type)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[child])
    return array


leaf = st.fixed_dictionaries({"x": st.text(max_size=3), "y": st.none() | st.integers(0, 9)})
whole = st.fixed_dictionaries({"r": leaf, "o": st.none() | leaf, "b": st.booleans()})
STRATEGIES: dict[str, Any] = {
    "struct": st.none() | whole,
    "list": st.none() | st.lists(st.none() | whole, max_size=3),
    "firm": st.none() | st.lists(leaf, max_size=3),
    "map": st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | whole), max_size=3),
}


def nulls_in_required(array: pa.Array, field: pa.Field) -> int:
    kind, found = field.type, 0 if field.nullable else array.null_count
    if pa.types.is_struct(kind):
        return found + sum(nulls_in_required(array.field(at), each) for at, each in enumerate(kind))
    if pa.types.is_map(kind):
        return found + nulls_in_required(array.items, kind.item_field)
    return found + (nulls_in_required(array.values, kind.value_field) if pa.types.is_list(kind) else 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data())
def test_nothing_is_null_below(name: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(STRATEGIES[name], max_size=8))
    start = data.draw(st.integers(0, 2))
    field = pa.field("c", KINDS[name])
    array = cast(pa.array([*[None] * start, *rows], loose(field.type)), field.type).slice(start)
    assert has_required(field.type)
    found = required(array, field)
    found.validate(full=True)
    assert found.type == field.type
    assert found.to_pylist() == array.to_pylist() == rows
    assert nulls_in_required(found, field) == 0


@pytest.mark.parametrize(
    ("name", "row", "path"),
    [
        ("struct", {"r": {"x": None, "y": 1}, "o": None, "b": True}, r"c\.r\.x"),
        ("struct", {"r": None, "o": None, "b": True}, r"c\.r"),
        ("struct", {"r": {"x": "a", "y": 1}, "o": {"x": None, "y": 1}, "b": True}, r"c\.o\.x"),
        ("list", [{"r": {"x": "a", "y": 1}, "o": None, "b": None}], r"c\.element\.b"),
        ("firm", [None], r"c\.element"),
    ],
)
def test_nulls_that_are_values(name: str, row: Any, path: str) -> None:
    array = cast(pa.array([None, row], loose(KINDS[name])), KINDS[name])
    with pytest.raises(SchemaMismatchError, match=rf"Column '{path}' has 1 nulls in \d+ values"):
        required(array, pa.field("c", KINDS[name]))


def test_other_types() -> None:
    for kind in (pa.int32(), pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.struct([("x", pa.int32())])):
        assert not has_required(kind)
