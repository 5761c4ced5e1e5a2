"""Key generation: the record key and partition path of every row of a batch (`KeyGenUtils`, `SimpleKeyGenerator`,
`ComplexKeyGenerator`, `NonpartitionedKeyGenerator`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.write.rows.keygen.partition import join_segments, partition_segment
from hudi_py.write.rows.keygen.render import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hudi_py.model.properties import TableConfig

NULL_KEY_PART = "__null__"
EMPTY_KEY_PART = "__empty__"


class KeyGeneratorType(str, Enum):
    """The key generators this release writes with (`KeyGeneratorType`, 1.2.0)."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"

    @property
    def java_class(self) -> str:
        return f"org.apache.hudi.keygen.{_CLASS_STEMS[self]}KeyGenerator"


_CLASS_STEMS = {
    KeyGeneratorType.SIMPLE: "Simple",
    KeyGeneratorType.COMPLEX: "Complex",
    KeyGeneratorType.NON_PARTITION: "Nonpartitioned",
}
_TYPES = {kind.value: kind for kind in KeyGeneratorType} | {f"{kind.value}_AVRO": kind for kind in KeyGeneratorType}
_CLASSES = {f"{stem}{infix}KeyGenerator": kind for kind, stem in _CLASS_STEMS.items() for infix in ("", "Avro")}
_SUPPORTED = "supported are SIMPLE, COMPLEX and NON_PARTITION"


def infer_keygen_type(key_fields: Sequence[str], partition_fields: Sequence[str]) -> KeyGeneratorType:
    """The default generator of a table (`KeyGenUtils.inferKeyGeneratorType`)."""
    if not partition_fields:
        return KeyGeneratorType.NON_PARTITION
    if len(key_fields) <= 1 and len(partition_fields) == 1:
        return KeyGeneratorType.SIMPLE
    return KeyGeneratorType.COMPLEX


def parse_keygen(type_name: str, class_name: str) -> KeyGeneratorType | None:
    """The generator named by type or, when that is empty, by Java class; None when both are.

    Raises:
        UnsupportedTableError: it is not one of the three supported ones.
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

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        """One key per row, without nulls. Source: `KeyGenUtils.getRecordKey` (8.2 of the format reference).

        Raises:
            ConfigError: a key column has a type that cannot be a key.
            SchemaMismatchError: a key column is missing, or the key of a row is null or empty.
            UnsupportedTableError: a key is a field of a struct.
        """
        texts = [self._text(batch, field, "a record key") for field in self.key_fields]
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
        pieces: list[pa.Array | str] = []
        for position, (field, text) in enumerate(zip(self.key_fields, texts, strict=True)):
            part = pc.if_else(pc.equal(pc.binary_length(text), 0), EMPTY_KEY_PART, text).fill_null(NULL_KEY_PART)
            pieces += [f",{field}:" if position else f"{field}:", part]
        return pc.binary_join_element_wise(*pieces, "")

    def partition_paths(self, batch: pa.RecordBatch) -> pa.StringArray:
        """One partition path per row, without nulls; `""` for an unpartitioned table. Raises as `record_keys`."""
        if self.type is KeyGeneratorType.NON_PARTITION or not self.partition_fields:
            return pa.repeat(pa.scalar("", pa.string()), len(batch))
        return join_segments([self._segments(batch, field) for field in self.partition_fields])

    def check_partitions(self, batch: pa.RecordBatch) -> None:
        """Raises the errors of `partition_paths`, at less cost: each distinct value is checked once."""
        for field in self.partition_fields:
            index = batch.schema.get_field_index(field)
            if index >= 0:
                self._segments(pa.record_batch([batch.column(index).unique()], names=[field]), field)

    def _segments(self, batch: pa.RecordBatch, field: str) -> pa.StringArray:
        return partition_segment(
            self._text(batch, field, "a partition value"),
            field,
            hive_style=self.hive_style,
            url_encoded=self.url_encoded,
            alone=len(self.partition_fields) == 1,
        )

    def check(self, schema: pa.Schema) -> None:
        """Raises an error of `record_keys` or `partition_paths` if columns of this schema cannot form keys."""
        self.record_keys(_empty(schema))
        self.partition_paths(_empty(schema))

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

    def _text(self, batch: pa.RecordBatch, field: str, purpose: str) -> pa.StringArray:
        index = batch.schema.get_field_index(field)
        if index < 0:
            struct, dot, _ = field.partition(".")
            if dot and struct in batch.schema.names:
                raise UnsupportedTableError(
                    f"Field '{field}' of the column '{struct}' cannot be {purpose}: supported are columns, not fields "
                    "of structs; add a column with this value, or write the table with Apache Hudi"
                )
            raise SchemaMismatchError(
                f"Column '{field}', which is needed as {purpose}, is not in the data; its columns are "
                f"{', '.join(batch.schema.names)}"
            )
        return render(batch.column(index), field, millis=field in self.millis_columns, purpose=purpose)

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
    config: TableConfig, avro_schema: Mapping[str, object] | None = None, *, names_single_key: bool = True
) -> KeyGenerator:
    """The key generator of a table.

    Args:
        avro_schema: the table's Avro record, for the unit of its timestamps.
        names_single_key: see `KeyGenerator`; depends on existing data.

    Raises:
        UnsupportedTableError: another key generator, or a table without record key.
        ConfigError: fields and generator do not go together.
    """
    keys, partitions = config.record_key_fields, config.partition_fields
    if not keys:
        raise UnsupportedTableError(
            "The table has no record key fields (hoodie.table.recordkey.fields): writing tables with generated keys is "
            "not supported"
        )
    kind = parse_keygen(config.keygen_type, config.keygen_class) or infer_keygen_type(keys, partitions)
    if kind is KeyGeneratorType.SIMPLE and (len(keys) != 1 or len(partitions) != 1):
        raise ConfigError(
            f"Key generator SIMPLE takes one record key and one partition field, not {','.join(keys)} and "
            f"{','.join(partitions) or 'none'}; use COMPLEX, or NON_PARTITION for a table without partitions"
        )
    if kind is KeyGeneratorType.NON_PARTITION and partitions:
        raise ConfigError(
            f"Key generator NON_PARTITION does not go with partition field {','.join(partitions)}; "
            "use SIMPLE or COMPLEX"
        )
    return KeyGenerator(
        kind,
        keys,
        partitions,
        hive_style=config.hive_style,
        url_encoded=config.url_encoded,
        names_single_key=names_single_key or config.version >= 9,
        millis_columns=_millis_columns(avro_schema or {}),
    )


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


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
