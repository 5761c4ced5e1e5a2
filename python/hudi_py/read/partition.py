"""Derives column values from partition paths."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.model.names import NULL_PARTITION, OLD_NULL_PARTITION
from hudi_py.model.properties import TableConfig
from hudi_py.schema import PARTITION_PATH

_HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
_URL_ENCODED = "hoodie.datasource.write.partitionpath.urlencode"
_VALUE_KEYGENS = re.compile(r"(?:^|\.)(Simple|Complex)(Avro)?KeyGenerator$")
_VALUE_KEYGEN_TYPES = frozenset({"SIMPLE", "COMPLEX", "SIMPLE_AVRO", "COMPLEX_AVRO"})
_PARSED = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32, pa.types.is_decimal)
"""Types that `parse_value` supports."""
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def paths_hold_values(config: TableConfig) -> bool:
    """Returns whether the parts of a path are the partition columns' values: with simple and complex key generators,
    and with custom ones whose parts are all simple."""
    if config.keygen_type in ("CUSTOM", "CUSTOM_AVRO"):
        stored = config.properties.get("hoodie.table.partition.fields", "").upper().split(",")
        return all(part.strip().endswith(":SIMPLE") for part in stored)
    if config.keygen_type:
        return config.keygen_type in _VALUE_KEYGEN_TYPES
    return bool(_VALUE_KEYGENS.search(config.keygen_class))


@dataclass(frozen=True, slots=True)
class PathFormat:
    """How partition paths encode values, resolved once for many paths."""

    fields: tuple[str, ...]
    by_value: bool
    """See `paths_hold_values`."""
    slashed: bool
    """See `is_slashed_date`."""
    hive_style: bool | None
    """Whether parts begin with the column's name; None if unknown."""
    url_encoded: bool | None
    """Whether texts are encoded; None if unknown."""

    @classmethod
    def of(cls, config: TableConfig) -> PathFormat:
        fields, properties = config.partition_fields, config.properties
        return cls(
            fields,
            paths_hold_values(config),
            is_slashed_date(config, fields),
            config.hive_style if _HIVE_STYLE in properties else None,
            config.url_encoded if _URL_ENCODED in properties else None,
        )

    def parts(self, path: str, *, escaped: bool = False) -> dict[str, str] | None:
        """See `path_parts`."""
        parts = path.split("/") if path else []
        if self.slashed and path:
            parts = ["-".join(parts)]
        if len(parts) != len(self.fields):
            return None
        texts: dict[str, str] = {}
        for name, part in zip(self.fields, parts, strict=True):
            if self.hive_style:
                prefix, separator, part = part.partition("=")
                if not separator or prefix != name:
                    return None
            elif self.hive_style is None:
                # Releases before 0.11 stored neither whether they wrote the name nor whether they encoded the text
                part = part.removeprefix(f"{name}=")
            if "%" in part and self.url_encoded is None:
                return None
            texts[name] = unquote(part) if self.url_encoded and not escaped else part
        return texts

    def values(self, schema: pa.Schema, path: str, *, escaped: bool = False) -> dict[str, pa.Scalar]:
        """See `partition_values`."""
        known: dict[str, pa.Scalar] = {}
        if PARTITION_PATH in schema.names:
            known[PARTITION_PATH] = pa.scalar(path, pa.string())
        parts = self.parts(path, escaped=escaped) if self.by_value else None
        for name, text in (parts or {}).items():
            if name in schema.names and text != NULL_PARTITION:
                value = parse_value(text, schema.field(name).type)
                if value is not None:
                    known[name] = value
        return known


def partition_values(
    config: TableConfig, schema: pa.Schema, path: str, *, escaped: bool = False
) -> dict[str, pa.Scalar]:
    """Derives the column values that all rows of a partition share, as far as the path determines them.

    Includes `_hoodie_partition_path` if the table has it. Leaves out null partitions, ambiguous texts, and types whose
    text differs between releases.

    Args:
        escaped: see `path_values`.
    """
    return PathFormat.of(config).values(schema, path, escaped=escaped)


def path_parts(config: TableConfig, path: str, *, escaped: bool = False) -> dict[str, str] | None:
    """Splits a path into its text for each partition column; None if it does not have one part for each column.

    Args:
        escaped: whether to leave url-encoded texts as they are.
    """
    return PathFormat.of(config).parts(path, escaped=escaped)


def is_slashed_date(config: TableConfig, fields: Sequence[str]) -> bool:
    """Returns whether a path's slashes replace the dashes of the only partition column's value."""
    return config.slashed_dates and len(fields) == 1 and not config.hive_style and paths_hold_values(config)


def path_values(
    config: TableConfig, schema: pa.Schema, path: str, uri: str, *, escaped: bool = False
) -> tuple[tuple[str, pa.Scalar], ...]:
    """Derives the columns that take their value from the partition path, as in Apache Hudi on Spark.

    These are the columns that the writer omitted (`omitted_values`). If paths hold the values (`paths_hold_values`),
    they are all columns whose value the path determines and which select partitions (`partition_values`), so that rows
    show what filters see (checked with 1.2.0). Files differ from the path if
    - an index over all partitions has kept rows in the partition in which their keys were before;
    - null partitions contain empty text besides nulls; before table version 6, `default` contains nulls besides that
      text;
    - a single text column has a path of several parts; with slash-separated date partitioning, dashes replace its
      slashes;
    - a FULL_RECORD bootstrap has stored what Spark parsed from the folder's name;
    - a row of a range (`escaped`) has a url-encoded path: the text is that of the path, `50%25` for `50%`. This applies
      to omitted columns too.

    Raises:
        UnsupportedTableError: see `omitted_values`.
    """
    if config.drops_partition_columns:
        return omitted_values(config, schema, path, uri, escaped=escaped)
    by_value = paths_hold_values(config)
    fields = [name for name in config.partition_fields if name in schema.names]
    slashed = is_slashed_date(config, fields)
    if by_value and "/" in path and len(config.partition_fields) == 1 and not slashed:
        texts = [name for name in fields if pa.types.is_string(schema.field(name).type)]
        return omitted_values(config, schema, path, uri, escaped=escaped) if texts else ()
    values: list[tuple[str, pa.Scalar]] = []
    for name, text in (path_parts(config, path, escaped=escaped) or {}).items():
        # Tables of early releases do not name their key generator; the meaning of `default` is known anyway
        is_old_default = text == OLD_NULL_PARTITION and config.version < 6
        if name not in fields or not (by_value or slashed or is_old_default):
            continue
        value = _value_of(text, schema.field(name).type)
        if value is not None:
            values.append((name, value))
    return tuple(values)


def _value_of(text: str, kind: pa.DataType) -> pa.Scalar | None:
    """Parses a part of a path as a value of a type; None if the type is not supported."""
    if text != NULL_PARTITION:
        return parse_value(text, kind)
    return pa.scalar(None, kind) if any(holds(kind) for holds in _PARSED) else None


def columns_from_paths(config: TableConfig) -> frozenset[str]:
    """Returns partition columns for which `path_values` may differ from the files in values or types."""
    if config.drops_partition_columns or paths_hold_values(config) or config.version < 6:
        return frozenset(config.partition_fields)
    return frozenset()


def omitted_values(
    config: TableConfig, schema: pa.Schema, path: str, uri: str, *, escaped: bool = False
) -> tuple[tuple[str, pa.Scalar], ...]:
    """Parses the values of partition columns that the writer omitted from the files from the partition path.

    They are the texts of the path, whatever the key generator; a null partition is null. With a single column, a path
    of several parts is its value as a whole (`HoodieSparkUtils.parsePartitionColumnValues`, 1.2.0).

    Raises:
        UnsupportedTableError: a column's value cannot be parsed from the path.
    """
    parts = path_parts(config, path, escaped=escaped)
    fields = config.partition_fields
    if parts is None and len(fields) == 1 and path:
        prefix = f"{fields[0]}="
        whole = path.removeprefix(prefix) if config.hive_style else path
        parts = {fields[0]: unquote(whole) if config.url_encoded and not escaped else whole}
    values: list[tuple[str, pa.Scalar]] = []
    for name in fields:
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        text = None if parts is None else parts[name]
        value = pa.scalar(None, kind) if text == NULL_PARTITION else None if text is None else parse_value(text, kind)
        if value is None:
            raise UnsupportedTableError(
                f"Table at {uri} has hoodie.datasource.write.drop.partition.columns=true, and partition '{path}' does "
                f"not give column '{name}' a value of type {kind}; supported: paths with one part for each "
                "column, of strings, integers, decimals, booleans and dates"
            )
        values.append((name, value))
    return tuple(values)


def parse_value(text: str, kind: pa.DataType) -> pa.Scalar | None:
    """Parses a part of a path as a column's value; None if that is ambiguous."""
    if pa.types.is_string(kind):
        return pa.scalar(text, kind) if text else None
    if pa.types.is_integer(kind) and _INTEGER.fullmatch(text):
        try:
            return pa.scalar(int(text), kind)
        except (pa.ArrowInvalid, OverflowError):
            return None
    if pa.types.is_boolean(kind) and text in ("true", "false"):
        return pa.scalar(text == "true")
    if pa.types.is_date32(kind) and _DATE.fullmatch(text):
        try:
            return pa.scalar(datetime.date.fromisoformat(text), kind)
        except ValueError:
            return None
    if pa.types.is_decimal(kind) and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text):
        try:
            return pa.scalar(decimal.Decimal(text), kind)
        except pa.ArrowInvalid:
            return None
    return None
