"""What a partition's path says about the values of its rows."""

from __future__ import annotations

import datetime
import decimal
import re
from urllib.parse import unquote

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.model.properties import TableConfig
from hudi_py.schema import PARTITION_PATH

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Stands for a null and for an empty text (`PartitionPathEncodeUtils`, 1.2.0)."""
DEFAULT_PARTITION = "default"
"""Stood for both until table version 4."""

_HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
_URL_ENCODED = "hoodie.datasource.write.partitionpath.urlencode"
_PLAIN_KEYGENS = re.compile(r"(?:^|\.)(Simple|Complex)(Avro)?KeyGenerator$")
_PLAIN_TYPES = frozenset({"SIMPLE", "COMPLEX", "SIMPLE_AVRO", "COMPLEX_AVRO"})
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def has_plain_paths(config: TableConfig) -> bool:
    """Whether a path's parts are the partition columns' values as text: simple and complex key generators,
    and custom ones whose parts are all simple."""
    if config.keygen_type in ("CUSTOM", "CUSTOM_AVRO"):
        stored = config.properties.get("hoodie.table.partition.fields", "").upper().split(",")
        return all(part.strip().endswith(":SIMPLE") for part in stored)
    if config.keygen_type:
        return config.keygen_type in _PLAIN_TYPES
    return bool(_PLAIN_KEYGENS.search(config.keygen_class))


def partition_values(
    config: TableConfig, schema: pa.Schema, path: str, *, escaped: bool = False
) -> dict[str, pa.Scalar]:
    """The columns whose value every row of a partition has, as far as its path tells with certainty.

    `escaped`: as rows of a range show them, see `path_values`.

    `_hoodie_partition_path` is always among them where the table has it. A null partition, texts that could have been
    written from several values and types whose text differs between releases are left out.
    """
    known: dict[str, pa.Scalar] = {}
    if PARTITION_PATH in schema.names:
        known[PARTITION_PATH] = pa.scalar(path, pa.string())
    if not has_plain_paths(config):
        return known
    parts = path_parts(config, path, escaped=escaped)
    if parts is None:
        return known
    for name, text in parts.items():
        if name in schema.names and text != NULL_PARTITION:
            value = parse_value(text, schema.field(name).type)
            if value is not None:
                known[name] = value
    return known


def path_parts(config: TableConfig, path: str, *, escaped: bool = False) -> dict[str, str] | None:
    """Partition column to its text in the path; None where the path does not have one part for each column.

    `escaped`: the text as it stands in the path, not decoded.
    """
    fields = config.partition_fields
    parts = path.split("/") if path else []
    if len(parts) != len(fields):
        return None
    texts: dict[str, str] = {}
    for name, part in zip(fields, parts, strict=True):
        if config.hive_style:
            prefix, separator, part = part.partition("=")
            if not separator or prefix != name:
                return None
        elif _HIVE_STYLE not in config.properties:
            # Releases before 0.11 did not store whether they write the name, or encode the text
            part = part.removeprefix(f"{name}=")
        if "%" in part and _URL_ENCODED not in config.properties:
            return None
        texts[name] = unquote(part) if config.url_encoded and not escaped else part
    return texts


def path_values(
    config: TableConfig, schema: pa.Schema, path: str, uri: str, *, escaped: bool = False
) -> tuple[tuple[str, pa.Scalar], ...]:
    """The columns whose value is that of a partition's path, whatever files hold, as Apache Hudi on Spark shows them.

    They are those which the writer left out (`dropped_values`), and of plain key generators (checked on 1.2.0):
    - texts of the null partition, which holds empty texts besides nulls: null;
    - a single text whose path has several parts, as dates have which are stored as `yyyy-MM-dd` and shown as
      `yyyy/MM/dd` (slash-separated date partitioning);
    - in bootstrapped tables every text: a FULL_RECORD bootstrap may have stored what Spark took its folder's name for;
    - in table versions before 6 texts of the partition `default`, which holds nulls besides that text: the text;
    - in rows of a range (`escaped`) texts of url-encoded paths, those left out too: the text as it stands in the path,
      `50%25` for `50%`.

    Raises:
        UnsupportedTableError: see `dropped_values`.
    """
    if config.drops_partition_columns:
        return dropped_values(config, schema, path, uri, escaped=escaped)
    texts = {name for name in config.partition_fields if name in schema.names and _is_text(schema, name)}
    if "/" in path and len(config.partition_fields) == 1 and has_plain_paths(config):
        return dropped_values(config, schema, path, uri, escaped=escaped) if texts else ()
    values: list[tuple[str, pa.Scalar]] = []
    bootstrapped = bool(config.properties.get("hoodie.bootstrap.base.path", "").strip())
    escapes = escaped and config.url_encoded and has_plain_paths(config)
    for name, text in (path_parts(config, path, escaped=escaped) or {}).items():
        if name in texts and text == NULL_PARTITION and has_plain_paths(config):
            values.append((name, pa.scalar(None, pa.string())))
        elif name in texts and (
            (escapes and "%" in text)
            or (bootstrapped and has_plain_paths(config))
            or (text == DEFAULT_PARTITION and config.version < 6)
        ):
            values.append((name, pa.scalar(text)))
    return tuple(values)


def _is_text(schema: pa.Schema, name: str) -> bool:
    return bool(pa.types.is_string(schema.field(name).type))


def columns_of_paths(config: TableConfig) -> frozenset[str]:
    """Partition columns of which `path_values` may tell other values than the files hold, or other types."""
    if config.drops_partition_columns or has_plain_paths(config) or config.version < 6:
        return frozenset(config.partition_fields)
    return frozenset()


def dropped_values(
    config: TableConfig, schema: pa.Schema, path: str, uri: str, *, escaped: bool = False
) -> tuple[tuple[str, pa.Scalar], ...]:
    """The partition columns of a table whose writer left them out of the files, as a partition's path tells them.

    They are the texts of the path, whatever the key generator; a null partition is null. A path of several parts is as
    a whole the value of a single column (`HoodieSparkUtils.parsePartitionColumnValues`, 1.2.0).

    Raises:
        UnsupportedTableError: the path does not tell the value of a column, or its type is none that a path tells.
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
                f"not tell the value of column '{name}' of type {kind}; supported are paths with one part for each "
                "column, of texts, whole numbers, decimals, booleans and dates"
            )
        values.append((name, value))
    return tuple(values)


def parse_value(text: str, kind: pa.DataType) -> pa.Scalar | None:
    """A part of a path as a column's value; None where that is not certain."""
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
