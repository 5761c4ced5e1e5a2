"""The five meta columns that precede a row's own columns, and the columns that files of a table hold.

Files hold all columns of a row, or fewer where properties of the table say so. Sources:
`HoodieRecord.HOODIE_META_COLUMNS`, `HoodieTableConfig.populateMetaFields` (virtual keys) and
`shouldDropPartitionColumns`, `HoodieSparkSqlWriter` (`dropPartitionColumns`), Apache Hudi 1.2.0, checked on its files:
base files lack the columns, and so do the schemas of commits. Log blocks have all columns, of which the meta columns
are null where base files lack them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_py.model.names import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY

if TYPE_CHECKING:
    from hudi_py.model.properties import TableConfig

META_FIELDS: tuple[str, ...] = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""The meta columns in file order; each is a nullable string."""

OPERATION = "_hoodie_operation"
"""The sixth meta column, only present in changelog mode: `I`, `-U`, `U` or `D`."""


def with_meta(schema: pa.Schema) -> pa.Schema:
    """Prepends the five meta columns, replacing columns of the same names."""
    meta = [pa.field(name, pa.string()) for name in META_FIELDS]
    return pa.schema(meta + [field for field in schema if field.name not in META_FIELDS], metadata=schema.metadata)


def with_operation(schema: pa.Schema) -> pa.Schema:
    """Inserts `_hoodie_operation` after the meta columns."""
    if OPERATION in schema.names:
        return schema
    return schema.insert(sum(name in META_FIELDS for name in schema.names), pa.field(OPERATION, pa.string()))


def without_meta(schema: pa.Schema) -> pa.Schema:
    """Removes the five meta columns."""
    return pa.schema([field for field in schema if field.name not in META_FIELDS], metadata=schema.metadata)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """How rows of a table are stored. Can be pickled."""

    has_meta: bool = True
    """Whether base files have meta columns."""
    key_fields: tuple[str, ...] = ()
    """The columns that make up the record key if files have no meta columns."""
    omitted: frozenset[str] = frozenset()
    """Table columns that base files lack, because partition paths hold their values."""

    @classmethod
    def of(cls, config: TableConfig) -> StoredRows:
        """Reads it from the properties of a table."""
        return cls(
            config.populates_meta_fields,
            () if config.populates_meta_fields else config.record_key_fields,
            frozenset(config.partition_fields if config.drops_partition_columns else ()),
        )

    def columns(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of base files. `schema` is the table's, with or without meta columns."""
        own = pa.schema([field for field in schema if field.name not in META_FIELDS and field.name not in self.omitted])
        return with_meta(own) if self.has_meta else own

    def keyed(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of base files for merging: the record key comes first if files lack it."""
        stored = self.columns(schema)
        return stored if self.has_meta else pa.schema([pa.field(RECORD_KEY, pa.string()), *stored])

    def own_avro(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the Avro record of the table's own columns in base files, as recorded in commits."""
        left_out = {*META_FIELDS, *self.omitted}
        return {**record, "fields": [field for field in record["fields"] if field["name"] not in left_out]}

    def avro(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the Avro record of base files."""
        own = self.own_avro(record)
        return avro_with_meta(own) if self.has_meta else own


def avro_with_meta(record: Mapping[str, Any]) -> dict[str, Any]:
    """Prepends the five meta columns to an Avro record, replacing columns of the same names."""
    own = [field for field in record["fields"] if field["name"] not in META_FIELDS]
    return {**record, "fields": [*map(avro_text_field, META_FIELDS), *own]}


def avro_text_field(name: str) -> dict[str, Any]:
    """Returns the Avro field of a meta column."""
    return {"name": name, "type": ["null", "string"], "doc": "", "default": None}


def compact_json(avro: Mapping[str, Any]) -> str:
    """Serialises an Avro record as compact JSON."""
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)
