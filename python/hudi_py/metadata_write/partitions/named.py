"""Definitions of indexes that are made by name (`HoodieIndexUtils.getSecondaryOrExpressionIndexDefinition`, 1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import metadata as config_metadata
from hudi_py.config import metadata as metadata_config
from hudi_py.errors import ConfigError
from hudi_py.metadata.definitions import IndexDefinition
from hudi_py.metadata.expressions import EXPR, FILTER_SIZES, IDENTITY, IndexFunction
from hudi_py.metadata.locations import EXPRESSION_PREFIX, SECONDARY_PREFIX
from hudi_py.metadata_write.partitions.expression_records import (
    BLOOM_KIND,
    STATS_KIND,
    filters_of,
)
from hudi_py.metadata_write.partitions.secondary_index import KIND, is_indexable
from hudi_py.model.properties import TableConfig
from hudi_py.schema import StoredRows
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
    version = f"V{config.index_version}"
    return IndexDefinition(full_name(name), "identity", (column,), dict(options), version, KIND)


def expression_definition(
    config: TableConfig,
    schema: pa.Schema | None,
    name: str,
    column: str,
    options: Mapping[str, str],
    *,
    kind: str,
    settings: Options,
) -> IndexDefinition:
    """The definition of a new expression index.

    Args:
        options: `expr`, the function (by default `identity`), and its options; for filters also those of their size.
        kind: `column_stats` or `bloom_filters`.
        settings: options of the write, which size filters where `options` do not.

    Raises:
        ConfigError: as `secondary_definition`; or there is no such function of such a column.
    """
    what = f"Cannot create the expression index {name!r} of the table {config.name!r}"
    found = _column_type(what, config, schema, name, column)
    function = options.get(EXPR, IDENTITY)
    version = f"V{config.index_version}"
    expression = IndexFunction.of_index(function, options)
    why = expression.check() or expression.check_column(found)
    if not why and kind == STATS_KIND:
        result = expression.result(found)
        sized = sorted(set(FILTER_SIZES) & options.keys())
        if function == IDENTITY:
            why = f"{STATS_KIND} of the column itself belong to {config_metadata.COLUMN_STATS_COLUMNS.key}; give expr"
        elif pa.types.is_nested(result):
            why = f"the values of {function} have the type {result}, which has no order; use {BLOOM_KIND}"
        elif sized:
            why = f"{STATS_KIND} has no option {sized[0]!r}, which sizes {BLOOM_KIND}"
    if not why and kind == BLOOM_KIND:
        if pa.types.is_binary(expression.result(found)) or pa.types.is_nested(found):
            why = f"filters hold texts, and values of the type {found} have none"
        filters_of(settings, options)
    if why:
        raise ConfigError(f"{what}: {why}")
    return IndexDefinition(full_name(name, kind), function, (column,), dict(options), version, kind)


def _column_type(what: str, config: TableConfig, schema: pa.Schema | None, name: str, column: str) -> pa.DataType:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{what}: a name consists of letters, digits and underscores, at most 200")
    if not config.defines_indexes:
        raise ConfigError(f"{what}: it has version {config.version}, and indexes by name need version 8 or 9")
    if not config.populates_meta_fields:
        raise ConfigError(f"{what}: it has no column _hoodie_record_key (hoodie.populate.meta.fields=false)")
    if column in StoredRows.of(config).omitted:
        raise ConfigError(
            f"{what}: files lack the partition column {column!r} (hoodie.datasource.write.drop.partition.columns=true)"
        )
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


def asked_indexes(
    options: Options, definitions: Callable[[], Mapping[str, Mapping[str, Any]]]
) -> list[tuple[str, str, str]]:
    """The kind, name and column of the indexes that the options of a write ask for and the table lacks
    (`isNewSecondaryIndexDefinitionRequired`, `isNewExpressionIndexDefinitionRequired`, 1.2.0)."""
    wanted: list[tuple[str, str, str]] = []
    column = options.get(metadata_config.SECONDARY_INDEX_COLUMN)
    if column and options.get(metadata_config.SECONDARY_INDEX):
        wanted.append((KIND, "", column))
    given = dict(options.get(metadata_config.EXPRESSION_INDEX_OPTIONS))
    column = options.get(metadata_config.EXPRESSION_INDEX_COLUMN)
    if column and given and options.get(metadata_config.EXPRESSION_INDEX):
        kind = options.get(metadata_config.EXPRESSION_INDEX_TYPE).lower()
        wanted.append((kind, given.get(EXPR, IDENTITY), column))
    if not wanted:
        return []
    there = [
        (
            "" if name.startswith(SECONDARY_PREFIX) else str(each.get("indexFunction") or ""),
            ".".join(map(str, each.get("sourceFields") or ())),
        )
        for name, each in definitions().items()
        if name.startswith((SECONDARY_PREFIX, EXPRESSION_PREFIX))
    ]
    return [
        (kind, options.get(metadata_config.INDEX_NAME) or column.replace(".", "_"), column)
        for kind, function, column in wanted
        if (function, column) not in there
    ]
