"""Computes record keys and partition paths of rows, exactly as Apache Hudi does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import table as table_config
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.expressions.dates import DateRule
from hudi_py.formats.arrays import empty_batch, is_instant
from hudi_py.model.names import EMPTY_KEY_PART, NULL_KEY_PART
from hudi_py.model.properties import CONSISTENT_TIMESTAMPS, SLASHED_DATES
from hudi_py.model.zones import local_zone_name
from hudi_py.schema.paths import column_of, values_at
from hudi_py.write.rows.keygen.texts import PathStyle, java_timestamps, join_segments, partition_segment, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hudi_py.config import Options
    from hudi_py.model.properties import TableConfig

__all__ = [
    "KeyGenerator",
    "KeyGeneratorType",
    "check_fields",
    "field_type",
    "infer_keygen_type",
    "key_generator",
    "parse_keygen",
]


class KeyGeneratorType(str, Enum):
    """The key generators this release writes with (`KeyGeneratorType`, 1.2.0)."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"

    @property
    def java_class(self) -> str:
        return f"org.apache.hudi.keygen.{_CLASS_STEMS[self]}KeyGenerator"


_CLASS_STEMS = {
    KeyGeneratorType.SIMPLE: "Simple",
    KeyGeneratorType.COMPLEX: "Complex",
    KeyGeneratorType.NON_PARTITION: "Nonpartitioned",
    KeyGeneratorType.TIMESTAMP: "TimestampBased",
    KeyGeneratorType.CUSTOM: "Custom",
}
_SLASHING = (KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX, KeyGeneratorType.CUSTOM)
_TYPES = {kind.value: kind for kind in KeyGeneratorType} | {f"{kind.value}_AVRO": kind for kind in KeyGeneratorType}
_CLASSES = {f"{stem}{infix}KeyGenerator": kind for kind, stem in _CLASS_STEMS.items() for infix in ("", "Avro")}
_SUPPORTED = f"supported: {', '.join(KeyGeneratorType.__members__)}"
FIELD_TYPES = ("SIMPLE", "TIMESTAMP")
"""The types that a partition field of the CUSTOM key generator may have."""


def infer_keygen_type(key_fields: Sequence[str], partition_fields: Sequence[str]) -> KeyGeneratorType:
    """Returns the default generator of a table (`KeyGenUtils.inferKeyGeneratorType`). Partition fields may be
    `name:TYPE`."""
    if not partition_fields:
        return KeyGeneratorType.NON_PARTITION
    if ":" in partition_fields[0]:
        return KeyGeneratorType.CUSTOM
    if len(key_fields) <= 1 and len(partition_fields) == 1:
        return KeyGeneratorType.SIMPLE
    return KeyGeneratorType.COMPLEX


def parse_keygen(type_name: str, class_name: str) -> KeyGeneratorType | None:
    """Returns the generator named by type or, if that is empty, by Java class; None if both are empty.

    Raises:
        UnsupportedTableError: it is not one of the supported ones.
    """
    if type_name:
        if type_name.upper() not in _TYPES:
            raise UnsupportedTableError(f"Key generator type '{type_name}' cannot be written: {_SUPPORTED}")
        return _TYPES[type_name.upper()]
    if class_name:
        stem = class_name.rpartition(".")[2]
        if stem not in _CLASSES:
            raise UnsupportedTableError(f"Key generator class '{class_name}' cannot be written: {_SUPPORTED}")
        return _CLASSES[stem]
    return None


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """How a table forms record keys and partition paths. Pickles.

    Fields are columns or, as `a.b`, fields of structs. Without key fields, keys are generated as rows are written.

    `names_single_key`: the COMPLEX form of a single key field is `field:value` (Apache Hudi up to 0.14.0 and from 1.1,
    always on table version 9), not the bare value (0.14.1 to 1.0.2).
    """

    type: KeyGeneratorType
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    hive_style: bool = False
    url_encoded: bool = False
    names_single_key: bool = True
    millis_columns: frozenset[str] = frozenset()
    """Timestamp columns the table stores as milliseconds."""
    dated_fields: frozenset[str] = frozenset()
    """The partition fields that `dates` converts to texts."""
    dates: DateRule | None = None
    slashed_dates: bool = False
    """Whether a partition `yyyy-MM-dd` has the path `yyyy/MM/dd`."""
    timestamp_zone: str | None = None
    """The zone in which instants are texts in keys; None: they are numbers."""

    @property
    def generates_keys(self) -> bool:
        """Whether keys do not come from columns."""
        return not self.key_fields

    def key_columns(self, schema: pa.Schema) -> list[str]:
        """Returns the columns that form record keys."""
        return [column_of(field, schema) for field in self.key_fields]

    def partition_columns(self, schema: pa.Schema) -> list[str]:
        """Returns the columns that form partition paths."""
        return [column_of(field, schema) for field in self.partition_fields]

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        """Computes one key for each row, without nulls. Source: `KeyGenUtils.getRecordKey`, 1.2.0.

        Raises:
            ConfigError: a key column has a type that cannot be a key.
            SchemaMismatchError: a key column is missing, or the key of a row is null or empty.
        """
        assert self.key_fields, "keys of this table are generated"
        texts = [self._field_text(batch, field, "a record key") for field in self.key_fields]
        if not self._names_fields:
            (text,) = texts
            bad = pc.sum(pc.equal(pc.binary_length(text), 0).fill_null(True)).as_py() or 0
            if bad:
                raise SchemaMismatchError(
                    f"Record key column '{self.key_fields[0]}' is null or empty in {bad} of {len(batch)} rows; "
                    "every row needs a key: fill the column or leave the rows out"
                )
            return text
        if len(batch):
            self._check_some_part(texts, len(batch))
            self._check_parents(batch)
        pieces: list[pa.Array | str] = []
        for position, (field, text) in enumerate(zip(self.key_fields, texts, strict=True)):
            part = pc.if_else(pc.equal(pc.binary_length(text), 0), EMPTY_KEY_PART, text).fill_null(NULL_KEY_PART)
            pieces += [f",{field}:" if position else f"{field}:", part]
        return pc.binary_join_element_wise(*pieces, "")

    def partition_paths(self, batch: pa.RecordBatch) -> pa.StringArray:
        """Computes one partition path for each row, without nulls; `""` for an unpartitioned table. Raises the errors
        of `record_keys`."""
        if self.type is KeyGeneratorType.NON_PARTITION or not self.partition_fields:
            return pa.repeat(pa.scalar("", pa.string()), len(batch))
        return join_segments([self._field_segments(batch, field) for field in self.partition_fields])

    def check_partitions(self, batch: pa.RecordBatch) -> None:
        """Raises the errors of `partition_paths`, at less cost: each distinct value is checked once."""
        for field in self.partition_fields:
            column = column_of(field, batch.schema)
            if column in batch.schema.names:
                values = batch[column]
                if not pa.types.is_nested(values.type):
                    values = values.unique()
                self._field_segments(pa.record_batch([values], names=[column]), field)

    def _field_segments(self, batch: pa.RecordBatch, field: str) -> pa.StringArray:
        if field in self.dated_fields:
            assert self.dates is not None
            values = self._field_values(batch, field, "a partition value")
            if field in self.millis_columns and pa.types.is_timestamp(values.type):
                values = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms", values.type.tz))
            texts = self.dates.texts(values, field)
        else:
            texts = self._field_text(batch, field, "a partition value")
        return partition_segment(
            texts,
            field,
            PathStyle(self.hive_style, self.url_encoded, self.slashed_dates),
            alone=len(self.partition_fields) == 1,
            dated=field in self.dated_fields,
        )

    def check(self, schema: pa.Schema) -> None:
        """Raises an error of `record_keys` or `partition_paths` if columns of this schema cannot form keys."""
        for field in self.partition_fields if self.timestamp_zone is not None else ():
            if is_instant(self._field_values(empty_batch(schema), field, "a partition value").type):
                raise ConfigError(
                    f"Column '{field}' cannot be a partition value with {CONSISTENT_TIMESTAMPS}=true: the text of a "
                    "timestamp has colons, and Apache Hudi cannot write to such folders; partition by another column, "
                    "or leave the option out"
                )
        if self.key_fields:
            self.record_keys(empty_batch(schema))
        self.partition_paths(empty_batch(schema))
        if self.slashed_dates:
            (field,) = self.partition_fields
            kind = self._field_values(empty_batch(schema), field, "a partition value").type
            if not pa.types.is_string(kind):
                raise ConfigError(
                    f"Column '{field}' of type {kind} cannot be the partition value of a table with "
                    f"{SLASHED_DATES}=true, which Apache Hudi could not read; supported is string: cast the column"
                )

    @property
    def single_key_form_varies(self) -> bool:
        """Whether releases of Apache Hudi differ in the form of this table's keys."""
        return self.type is KeyGeneratorType.COMPLEX and len(self.key_fields) == 1

    def check_existing_key(self, key: str, path: str) -> None:
        """Raises `ConfigError` if a key in the base file `path` has the other form of a single COMPLEX key field."""
        named = key.startswith(f"{self.key_fields[0]}:")
        if named != self.names_single_key:
            expected = f"{self.key_fields[0]}:<value>" if self.names_single_key else "<value>"
            raise ConfigError(
                f"Base file {path} holds the record key {key!r}, but the table's keys have the form {expected}: its "
                "files were written with two forms of the single key of a complex key generator (HUDI-7001), and keys "
                "of one form are not found by the other; repair the table with Apache Hudi first"
            )

    @property
    def _names_fields(self) -> bool:
        if len(self.key_fields) > 1:
            return True
        return self.type is KeyGeneratorType.COMPLEX and self.names_single_key

    def _field_text(self, batch: pa.RecordBatch, field: str, purpose: str) -> pa.StringArray:
        values = self._field_values(batch, field, purpose)
        if self.timestamp_zone is not None and is_instant(values.type):
            return java_timestamps(values, field, self.timestamp_zone)
        return render(values, field, millis=field in self.millis_columns, purpose=purpose)

    def _field_values(self, batch: pa.RecordBatch, field: str, purpose: str) -> pa.Array:
        values = values_at(batch, field)
        if values is None:
            struct = column_of(field, batch.schema)
            where = f"column '{struct}'; it has the type {batch[struct].type}" if struct in batch.schema.names else ""
            raise SchemaMismatchError(
                f"Column '{field}', which is needed as {purpose}, is not in the "
                + (where or f"data; its columns are {', '.join(batch.schema.names)}")
            )
        return values

    def _check_parents(self, batch: pa.RecordBatch) -> None:
        """Refuses null structs, in which Apache Hudi finds no field for a part of a key."""
        for field in self.key_fields:
            parent = field.rpartition(".")[0]
            values = values_at(batch, parent) if parent and field not in batch.schema.names else None
            if values is not None and values.null_count:
                raise SchemaMismatchError(
                    f"Record key field '{field}' is in a struct that is null in {values.null_count} of {len(batch)} "
                    "rows; every row needs it: fill the column or leave the rows out"
                )

    def _check_some_part(self, texts: Sequence[pa.StringArray], rows: int) -> None:
        nothing = None
        for text in texts:
            empty = pc.equal(pc.binary_length(text), 0).fill_null(True)
            nothing = empty if nothing is None else pc.and_(nothing, empty)
        bad = pc.sum(nothing).as_py() or 0
        if bad:
            raise SchemaMismatchError(
                f"Record key columns {', '.join(self.key_fields)} are all null or empty in {bad} of {rows} rows; "
                "every row needs a key: fill one of the columns or leave the rows out"
            )


def key_generator(
    config: TableConfig,
    avro_schema: Mapping[str, object] | None = None,
    *,
    names_single_key: bool = True,
    options: Options | None = None,
) -> KeyGenerator:
    """Creates the key generator of a table.

    Args:
        avro_schema: the table's Avro record, for the unit of its timestamps.
        names_single_key: see `KeyGenerator`; depends on existing data.
        options: options of a write, which supply what the table's properties may lack.

    Raises:
        UnsupportedTableError: another key generator.
        ConfigError: fields and generator do not go together, or the options do not say what the table's properties
            lack.
    """
    keys, partitions = config.record_key_fields, config.partition_fields
    kind = parse_keygen(config.keygen_type, config.keygen_class) or infer_keygen_type(keys, partitions)
    check_fields(kind, keys, partitions)
    dated: tuple[str, ...] = partitions if kind is KeyGeneratorType.TIMESTAMP else ()
    if kind is KeyGeneratorType.CUSTOM:
        dated = _dated_fields(config, () if options is None else options.get(table_config.PARTITION_PATH))
    as_text = config.timestamps_as_text or (options is not None and options.get(table_config.TIMESTAMPS_AS_TEXT))
    return KeyGenerator(
        kind,
        keys,
        partitions,
        hive_style=config.hive_style,
        url_encoded=config.url_encoded,
        names_single_key=names_single_key or config.version >= 9,
        millis_columns=_millis_columns(avro_schema or {}),
        dated_fields=frozenset(dated),
        dates=_date_rule(config, options) if dated else None,
        slashed_dates=config.slashed_dates and len(partitions) == 1 and kind in _SLASHING,
        timestamp_zone=local_zone_name() if as_text else None,
    )


def check_fields(kind: KeyGeneratorType, keys: Sequence[str], partitions: Sequence[str]) -> None:
    """Raises `ConfigError` if a table with these fields cannot have this generator."""
    one = kind in (KeyGeneratorType.SIMPLE, KeyGeneratorType.TIMESTAMP)
    if one and (len(keys) > 1 or len(partitions) != 1):
        other = "COMPLEX" if kind is KeyGeneratorType.SIMPLE else "CUSTOM, with name:TYPE for each partition field"
        raise ConfigError(
            f"Key generator {kind.value} takes one record key and one partition field, not {','.join(keys) or 'none'} "
            f"and {','.join(partitions) or 'none'}; use {other}, or NON_PARTITION for a table without partitions"
        )
    if kind is KeyGeneratorType.NON_PARTITION and partitions:
        raise ConfigError(
            f"Key generator NON_PARTITION does not go with partition field {','.join(partitions)}; "
            "use SIMPLE or COMPLEX"
        )


def _date_rule(config: TableConfig, options: Options | None) -> DateRule:
    given = {} if options is None else {option.key: options.get(option) for option in table_config.DATE_OPTIONS}
    return DateRule.of({key: text for key, text in given.items() if text} | dict(config.properties))


def _dated_fields(config: TableConfig, given: Sequence[str]) -> tuple[str, ...]:
    """Returns the partition fields of a CUSTOM key generator with the type TIMESTAMP."""
    stored = config.typed_partition_fields
    types = dict(field_type(text) for text in (stored if any(":" in text for text in stored) else given))
    for name in config.partition_fields:
        if types.get(name) is None:
            raise ConfigError(
                f"Cannot find out how the table '{config.name}' with a CUSTOM key generator makes paths of the column "
                f"'{name}': tables before version 8 do not store it; set hoodie.datasource.write.partitionpath.field "
                "to each partition field with its type, such as city:SIMPLE,ts:TIMESTAMP"
            )
    return tuple(name for name in config.partition_fields if types[name] == "TIMESTAMP")


def field_type(text: str) -> tuple[str, str | None]:
    """Splits a partition field such as `ts:TIMESTAMP` into its name and type; None if it has no type.

    Raises:
        ConfigError: the type is unknown.
    """
    name, colon, kind = text.partition(":")
    if colon and kind.strip().upper() not in FIELD_TYPES:
        raise ConfigError(
            f"Partition field {text} (hoodie.datasource.write.partitionpath.field) has the type '{kind}'; supported: "
            f"{' and '.join(FIELD_TYPES)}"
        )
    return name.strip(), kind.strip().upper() if colon else None


def _millis_columns(avro_schema: Mapping[str, object]) -> frozenset[str]:
    fields = avro_schema.get("fields", ())
    assert isinstance(fields, (list, tuple))
    names = set()
    for field in fields:
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        if any(
            isinstance(branch, dict) and str(branch.get("logicalType", "")).endswith("timestamp-millis")
            for branch in branches
        ):
            names.add(str(field["name"]))
    return frozenset(names)
