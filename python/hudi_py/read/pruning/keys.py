"""Derives values and record keys from the equality conditions of a filter, and conditions from record keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.expressions.filter import Filter
from hudi_py.expressions.predicate import Column, Comparison, Literal, Membership, Node
from hudi_py.merge.keys import has_own_text
from hudi_py.metadata.keys import secondary_texts
from hudi_py.model.names import EMPTY_KEY_PART
from hudi_py.model.properties import TableConfig
from hudi_py.schema import RECORD_KEY
from hudi_py.schema.paths import type_at

_MAX_KEYS = 10_000
_MAX_MEMBERS = 1000
"""Maximum number of keys compared with bounds one by one; otherwise only the smallest and the greatest are."""


def equalities(condition: Filter | None) -> dict[str, frozenset[object]]:
    """Maps columns to their possible values, by `=`, `<=>` and IN with constants; never null."""
    result: dict[str, frozenset[object]] = {}
    for node in condition.conjuncts() if condition is not None else ():
        for name, values in _equal_to(node):
            result[name] = result.get(name, values) & values
    return result


def texts_of_filter(condition: Filter | None) -> dict[str, frozenset[str]]:
    """Maps columns to the texts of their possible values in a secondary index, by `=`, `<=>` and IN with constants;
    never null.

    Columns of strings, whole numbers, DOUBLE, dates and timestamps that are compared as such.
    """
    result: dict[str, frozenset[str]] = {}
    for node in condition.conjuncts() if condition is not None else ():
        column, kind, values = _compared_constants(node)
        texts = None if column is None else _constant_texts(column, kind, values)
        if column is not None and texts is not None:
            name = column.path[0]
            result[name] = result.get(name, texts) & texts
    return result


def _constant_texts(column: Column, kind: pa.DataType, values: tuple[object, ...]) -> frozenset[str] | None:
    if _is_exact(column, kind, values):
        return frozenset(map(str, values))
    ordered = pa.types.is_float64(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    if len(column.path) > 1 or column.kind != kind or not ordered:
        return None
    if pa.types.is_float64(kind) and 0 in values:
        values = (*values, 0.0, -0.0)  # equal values with different text
    try:
        return frozenset(secondary_texts(pa.array(values, kind)).drop_null().to_pylist())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def keys_of_filter(condition: Filter | None, config: TableConfig, schema: pa.Schema) -> frozenset[str] | None:
    """Returns the possible record keys of rows that satisfy the filter; None if it does not restrict them.

    Considers `_hoodie_record_key` itself, and key columns of strings or integers. A key of one column is its value or
    `column:value`, depending on the release that wrote it, so the result has both (`KeyGenUtils`, 1.2.0).
    """
    known = equalities(condition)
    direct = known.get(RECORD_KEY)
    keys = None if direct is None else frozenset(str(value) for value in direct)
    fields = config.record_key_fields
    if fields and all(field in known for field in fields) and prod(len(known[field]) for field in fields) <= _MAX_KEYS:
        made = frozenset(_record_keys({field: known[field] for field in fields}))
        keys = made if keys is None else keys & made
    return keys


def key_bounds(keys: frozenset[str]) -> list[Node]:
    """Returns conditions on the record key that are true for rows with these keys."""
    column, kind = Column((RECORD_KEY,), pa.string()), pa.string()
    if len(keys) <= _MAX_MEMBERS:
        return [Membership(column, tuple(sorted(keys)), kind, has_null=False)]
    low, high = Literal(min(keys), kind), Literal(max(keys), kind)
    return [Comparison(">=", column, low, kind), Comparison("<=", column, high, kind)]


def virtual_key_fields(config: TableConfig, schema: pa.Schema, uri: str, *, deletes: bool) -> tuple[str, ...]:
    """Returns the columns that make up the record key of a table without meta fields; empty if the table stores the
    key.

    Args:
        deletes: whether deletes are also returned as rows.

    Raises:
        UnsupportedTableError: there are no key columns, one has a type whose text may differ from the record key's, or
            deletes are rows, which have no values in these columns.
    """
    if config.populates_meta_fields:
        return ()
    fields = config.record_key_fields
    if deletes:
        raise UnsupportedTableError(
            f"Cannot read deletes by record key from the table at {uri}: it has hoodie.populate.meta.fields=false, and "
            "its deletes do not have the key columns; omit the keys or the deletes"
        )
    if not fields or any(not _makes_key(name, schema) for name in fields):
        raise UnsupportedTableError(
            f"Cannot read rows by record key from the table at {uri}: it has hoodie.populate.meta.fields=false, and "
            f"hoodie.table.recordkey.fields={','.join(fields)}; supported there are columns of strings, integers, "
            "decimals, booleans and timestamps: filter on the columns instead"
        )
    return fields


def _makes_key(name: str, schema: pa.Schema) -> bool:
    kind = type_at(schema, name)
    return kind is not None and has_own_text(kind)


def _record_keys(values: Mapping[str, frozenset[object]]) -> Iterator[str]:
    for row in product(*values.values()):
        texts = [str(value) for value in row]
        yield ",".join(f"{name}:{text or EMPTY_KEY_PART}" for name, text in zip(values, texts, strict=True))
        if len(texts) == 1:
            yield texts[0]


def _equal_to(node: Node) -> Iterator[tuple[str, frozenset[object]]]:
    column, kind, values = _compared_constants(node)
    if column is not None and _is_exact(column, kind, values):
        yield column.path[0], frozenset(values)


def _compared_constants(node: Node) -> tuple[Column | None, pa.DataType, tuple[object, ...]]:
    """Returns the column that the node compares with constants for equality, if any, the type of the comparison, and
    the constants."""
    if isinstance(node, Comparison) and node.operator in ("=", "<=>"):
        left, right = (node.right, node.left) if isinstance(node.left, Literal) else (node.left, node.right)
        if isinstance(left, Column) and isinstance(right, Literal):
            return left, node.kind, (right.value,)
    elif isinstance(node, Membership) and isinstance(node.operand, Column):
        return node.operand, node.kind, node.items
    return None, pa.null(), ()


def _is_exact(column: Column, compared: pa.DataType, values: tuple[object, ...]) -> bool:
    """Returns whether the value determines the column's text."""
    if len(column.path) > 1:
        return False
    if pa.types.is_string(column.kind) and pa.types.is_string(compared):
        return all(isinstance(value, str) for value in values)
    whole = pa.types.is_integer(column.kind) and pa.types.is_integer(compared)
    return whole and all(isinstance(value, int) and not isinstance(value, bool) for value in values)
