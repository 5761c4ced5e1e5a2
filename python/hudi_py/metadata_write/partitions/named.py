"""Indexes that are created by name (`HoodieIndexUtils.getSecondaryOrExpressionIndexDefinition`, 1.2.0)."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.metadata.definitions import DEFINITIONS, PATH_KEY, IndexDefinition, definitions_path, read_definitions
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.model.layout import INDEX_DEFINITIONS
from hudi_py.model.properties import TableConfig
from hudi_py.schema import StoredRows
from hudi_py.schema.paths import type_at
from hudi_py.storage import Storage
from hudi_py.timeline.properties import update_table_config


def put_definition(storage: Storage, config: TableConfig, definition: IndexDefinition) -> TableConfig:
    """Stores a definition, replacing an earlier one of that name but keeping its version. The table lock must be held.

    Returns:
        The properties, which name the definitions file once there is a definition.
    """
    there = read_definitions(storage, config)
    before = there.get(definition.name)
    after = _merge_definition(before, definition)
    if before != after:
        _write_definitions(storage, config, {**there, definition.name: after})
    if PATH_KEY not in config.properties:
        config = update_table_config(storage, {PATH_KEY: INDEX_DEFINITIONS})
    return config


def put_definitions(storage: Storage, config: TableConfig, definitions: Mapping[str, Mapping[str, Any]]) -> None:
    """Stores definitions in place of those with the same names. The table lock must be held."""
    there = read_definitions(storage, config)
    if any(there.get(name) != definition for name, definition in definitions.items()):
        _write_definitions(storage, config, {**there, **definitions})


def is_stored(definitions: Mapping[str, Mapping[str, Any]], config: TableConfig, definition: IndexDefinition) -> bool:
    """Returns whether `put_definition` would change nothing in a table with these definitions."""
    before = definitions.get(definition.name)
    return PATH_KEY in config.properties and before is not None and before == _merge_definition(before, definition)


def drop_definitions(storage: Storage, config: TableConfig, names: Iterable[str]) -> None:
    """Deletes the definitions of some indexes. The table lock must be held."""
    there = read_definitions(storage, config)
    gone = set(names) & set(there)
    if gone:
        _write_definitions(storage, config, {name: value for name, value in there.items() if name not in gone})


def version_of(definitions: Mapping[str, Mapping[str, Any]], name: str, config: TableConfig) -> str:
    """Returns `V1` or `V2`: the version of an index's records as defined, or else as a new definition would set it."""
    definition = definitions.get(name)
    if definition is not None:
        return str(definition.get("version") or "V1")
    return f"V{config.index_version}"


def source_fields(definitions: Mapping[str, Mapping[str, Any]], name: str) -> Sequence[str] | None:
    """Returns the columns of an index; None if it is not defined."""
    definition = definitions.get(name)
    return None if definition is None else columns_of(definition)


def columns_of(definition: Mapping[str, Any]) -> Sequence[str]:
    """Returns the columns in a stored definition."""
    return [str(column) for column in definition.get("sourceFields") or ()]


def _merge_definition(before: Mapping[str, Any] | None, definition: IndexDefinition) -> dict[str, Any]:
    after = definition.to_json()
    if before is not None and before.get("version"):
        after["version"] = before["version"]
    return after


def _write_definitions(storage: Storage, config: TableConfig, definitions: Mapping[str, Any]) -> None:
    content = json.dumps({DEFINITIONS: definitions}, separators=(",", ":"), ensure_ascii=False)
    storage.put(definitions_path(config), content.encode())


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
    """The partition of an index that is created by name for a column, which is stored in the table's index
    definitions."""

    name: str
    prefix: ClassVar[str]
    """Prefix of the partition's name, before the index's own name."""
    kinds: ClassVar[tuple[str, ...]]
    """Its kinds in definitions, SQL and options."""
    word: ClassVar[str]
    """The word for it in errors."""

    @property
    def file_id_prefix(self) -> str:
        return self.name.replace("_", "-")

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return False  # see `asked`

    @classmethod
    @abstractmethod
    def asked(cls, options: Options) -> IndexRequest | None:
        """Returns the index that the options of a write ask for; its name is empty if they name none."""

    @classmethod
    @abstractmethod
    def define(
        cls, config: TableConfig, schema: pa.Schema | None, request: IndexRequest, settings: Options
    ) -> IndexDefinition:
        """Returns the definition of a new index.

        Args:
            schema: of the table; None: it has none yet.
            settings: options of the write, for what the index has no options of its own.

        Raises:
            ConfigError: the name is not valid, or the table cannot have such an index.
        """

    @classmethod
    def is_same(cls, definition: Mapping[str, Any], request: IndexRequest) -> bool:
        """Returns whether an index of the table is the one that options ask for
        (`isNewSecondaryIndexDefinitionRequired`, `isNewExpressionIndexDefinitionRequired`, 1.2.0)."""
        return ".".join(columns_of(definition)) == request.column

    @classmethod
    def missing_needs(
        cls, storage: Storage, config: TableConfig, request: IndexRequest, options: Options, later: Collection[str]
    ) -> tuple[str, ...]:
        """Returns the partitions to create first because the index needs them.

        Args:
            later: partitions that the table gets anyway.

        Raises:
            ConfigError: the table does not get a partition that it needs.
        """
        return ()

    @classmethod
    def check_rows(cls, storage: Storage) -> str:
        """Returns why the rows of the table, as far as they are known, do not allow it; empty if they do."""
        return ""

    def outdated_by(self, before: pa.DataType | None, after: pa.DataType | None) -> bool:
        """Returns whether a change of its column's type makes its records wrong, so that it must be rebuilt. None:
        there is no such column."""
        return before != after

    def maintainable(self, definition: Mapping[str, Any]) -> bool:
        return (
            bool(columns_of(definition))
            and definition.get("version") in _VERSIONS
            and definition.get("indexType") in self.kinds
        )

    @classmethod
    def full_name(cls, name: str) -> str:
        """Returns the name of the partition of an index, given with or without the prefix."""
        return name if name.startswith(cls.prefix) else cls.prefix + name

    @classmethod
    def start_of_error(cls, config: TableConfig, name: str) -> str:
        """Returns the beginning of errors about an index that cannot be created."""
        return f"Cannot create the {cls.word} {name!r} of the table {config.name!r}"


def column_type(config: TableConfig, schema: pa.Schema | None, request: IndexRequest, what: str) -> pa.DataType:
    """Returns the type of the column for which an index is created.

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
