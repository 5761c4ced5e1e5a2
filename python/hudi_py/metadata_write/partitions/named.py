"""Definitions of indexes that are made by name (`HoodieIndexUtils.getSecondaryOrExpressionIndexDefinition`, 1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import metadata as config_metadata
from hudi_py.errors import ConfigError
from hudi_py.metadata.locations import SECONDARY_PREFIX
from hudi_py.metadata_write.encoding.payloads import EXPRESSION_PREFIX
from hudi_py.metadata_write.partitions.definitions import IndexDefinition
from hudi_py.metadata_write.partitions.expression_index import STATS_KIND
from hudi_py.metadata_write.partitions.expressions import EXPR, IDENTITY, Expression, check_expression
from hudi_py.metadata_write.partitions.secondary_index import KIND, is_indexable
from hudi_py.model.properties import TableConfig
from hudi_py.schema.paths import type_at

_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,200}", re.ASCII)


def full_name(name: str, kind: str = KIND) -> str:
    """The metadata partition of an index of a kind, given its name with or without the prefix."""
    prefix = SECONDARY_PREFIX if kind == KIND else EXPRESSION_PREFIX
    return name if name.startswith(prefix) else prefix + name


def secondary_definition(
    config: TableConfig, schema: pa.Schema | None, name: str, column: str, options: Mapping[str, str]
) -> IndexDefinition:
    """The definition of a new secondary index.

    Args:
        schema: of the table; None: it has none yet.
        name: of the index, with or without the prefix of its partition.
        column: the column, or a field of a struct as `struct.field`.
        options: stored with it.

    Raises:
        ConfigError: the name is not valid, or the table cannot have such an index.
    """
    what = f"Cannot create the secondary index {name!r} of the table {config.name!r}"
    kind = _column_type(what, config, schema, name, column)
    if not is_indexable(kind):
        raise ConfigError(
            f"{what}: the column {column!r} has the type {kind}; supported are string, int, bigint, float, double, "
            "date and timestamp"
        )
    version = "V2" if config.version >= 9 else "V1"
    return IndexDefinition(full_name(name), "identity", (column,), dict(options), version, KIND)


def expression_definition(
    config: TableConfig, schema: pa.Schema | None, name: str, column: str, options: Mapping[str, str]
) -> IndexDefinition:
    """The definition of a new expression index of kind `column_stats`.

    Args:
        options: `expr`, the function (by default `identity`), and its options.

    Raises:
        ConfigError: as `secondary_definition`; or hudi-py cannot follow the function.
    """
    what = f"Cannot create the expression index {name!r} of the table {config.name!r}"
    kind = _column_type(what, config, schema, name, column)
    expression = Expression(options.get(EXPR, IDENTITY), options)
    check_expression(expression, kind, what)
    if pa.types.is_nested(kind):
        raise ConfigError(f"{what}: the column {column!r} has the type {kind}, whose values have no order")
    version = "V2" if config.version >= 9 else "V1"
    return IndexDefinition(full_name(name, STATS_KIND), expression.name, (column,), dict(options), version, STATS_KIND)


def _column_type(what: str, config: TableConfig, schema: pa.Schema | None, name: str, column: str) -> pa.DataType:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{what}: a name consists of letters, digits and underscores, at most 200")
    if config.version < 8:
        raise ConfigError(f"{what}: it has version {config.version}, and indexes by name need version 8 or 9")
    if not config.populates_meta_fields:
        raise ConfigError(f"{what}: it has no column _hoodie_record_key (hoodie.populate.meta.fields=false)")
    kind = None if schema is None else type_at(schema, column)
    if kind is None:
        known = ", ".join(schema.names) if schema is not None else "none"
        raise ConfigError(f"{what}: it has no column {column!r}; it has {known}")
    return kind


def check_record_index(name: str, config: TableConfig, *, there: bool, partitioned: bool) -> None:
    """Checks the record index that a secondary index leads to.

    Entries of a secondary index have no partition: of a key in two partitions both would go with the first.

    Raises:
        ConfigError: there is none, or it is partitioned.
    """
    why = ""
    if not there:
        why = "it needs a record index, which the table does not have; create it first, or set"
    elif partitioned:
        why = "its record index is partitioned, so a key may be in several partitions; it needs a global one:"
    if why:
        raise ConfigError(
            f"Cannot create the secondary index {name!r} of the table {config.name!r}: {why} "
            f"{config_metadata.GLOBAL_RECORD_INDEX.key}=true"
        )


def is_defined_for(definitions: Mapping[str, Mapping[str, Any]], column: str) -> bool:
    """Whether there is a secondary index of a column."""
    return any(
        each.get("indexType") == KIND and ".".join(map(str, each.get("sourceFields") or ())) == column
        for each in definitions.values()
    )
