"""Indexes that are made by name (`HoodieIndexUtils.getSecondaryOrExpressionIndexDefinition`, 1.2.0)."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.metadata.definitions import IndexDefinition
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.definitions import columns_of
from hudi_py.model.properties import TableConfig
from hudi_py.schema import StoredRows
from hudi_py.schema.paths import type_at
from hudi_py.storage import Storage

_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,200}", re.ASCII)
_VERSIONS: Final = (None, "V1", "V2")


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """An index to create."""

    name: str
    column: str = ""
    """For a record index, the columns of the record key, with commas between them, or none."""
    kind: str = "secondary_index"
    """`secondary_index`, `record_index`, or `column_stats` or `bloom_filters`, which make an expression index."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options stored with the index, such as `expr`."""


@dataclass(frozen=True, slots=True)
class NamedIndex(MetadataPartition):
    """A partition of an index that is made by name for a column, which is in the table's index definitions."""

    name: str
    prefix: ClassVar[str]
    """What precedes the index's own name in that of the partition."""
    kinds: ClassVar[tuple[str, ...]]
    """Its kinds in definitions, SQL and options."""
    word: ClassVar[str]
    """What errors call it."""

    @property
    def file_id_prefix(self) -> str:
        return self.name.replace("_", "-")

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return False  # see `asked`

    @classmethod
    @abstractmethod
    def asked(cls, options: Options) -> IndexRequest | None:
        """The index that the options of a write ask for; its name is empty if they name none."""

    @classmethod
    @abstractmethod
    def define(
        cls, config: TableConfig, schema: pa.Schema | None, request: IndexRequest, settings: Options
    ) -> IndexDefinition:
        """Return the definition of a new index.

        Args:
            schema: of the table; None: it has none yet.
            settings: options of the write, for what the index has no options of its own.

        Raises:
            ConfigError: the name is not valid, or the table cannot have such an index.
        """

    @classmethod
    def is_same(cls, definition: Mapping[str, Any], request: IndexRequest) -> bool:
        """Whether an index of the table is one that options ask for (`isNewSecondaryIndexDefinitionRequired`,
        `isNewExpressionIndexDefinitionRequired`, 1.2.0)."""
        return ".".join(columns_of(definition)) == request.column

    @classmethod
    def missing_needs(
        cls, storage: Storage, config: TableConfig, request: IndexRequest, options: Options, later: Collection[str]
    ) -> tuple[str, ...]:
        """Return the partitions to make before it, as it needs them.

        Args:
            later: partitions that the table gets anyway.

        Raises:
            ConfigError: the table does not get a partition that it needs.
        """
        return ()

    @classmethod
    def check_rows(cls, storage: Storage) -> str:
        """What forbids to create it, as far as the rows of the table are known; empty if nothing does."""
        return ""

    def outdated_by(self, before: pa.DataType | None, after: pa.DataType | None) -> bool:
        """Whether another type of its column makes its records wrong, so that it must be rebuilt. None: there is no
        such column."""
        return before != after

    def maintainable(self, definition: Mapping[str, Any]) -> bool:
        return (
            bool(columns_of(definition))
            and definition.get("version") in _VERSIONS
            and definition.get("indexType") in self.kinds
        )

    @classmethod
    def full_name(cls, name: str) -> str:
        """The name of the partition of an index, given with or without the prefix."""
        return name if name.startswith(cls.prefix) else cls.prefix + name

    @classmethod
    def start_of_error(cls, config: TableConfig, name: str) -> str:
        """Errors about an index that cannot be created begin so."""
        return f"Cannot create the {cls.word} {name!r} of the table {config.name!r}"


def column_type(config: TableConfig, schema: pa.Schema | None, request: IndexRequest, what: str) -> pa.DataType:
    """The type of the column that an index is made for.

    Args:
        what: the beginning of errors.

    Raises:
        ConfigError: the name is not valid, or a table of this kind cannot have indexes by name, or lacks the column.
    """
    column = request.column
    if not _NAME.fullmatch(request.name):
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
