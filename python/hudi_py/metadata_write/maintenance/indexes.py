"""Creates, drops and lists indexes by name (`HoodieSparkIndexClient`, `ShowIndexesCommand`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from hudi_py.config import metadata as metadata_config
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.key_scope import read_scope
from hudi_py.metadata.table import FILES, RECORD_INDEX
from hudi_py.metadata_write.maintenance.rebuild import drop, rebuild
from hudi_py.metadata_write.maintenance.verify import source_of
from hudi_py.metadata_write.partitions.definitions import put_definition
from hudi_py.metadata_write.partitions.expression_records import KINDS as EXPRESSION_KINDS
from hudi_py.metadata_write.partitions.expression_records import STATS_KIND
from hudi_py.metadata_write.partitions.named import (
    check_record_index,
    expression_definition,
    full_name,
    secondary_definition,
)
from hudi_py.metadata_write.partitions.record_index import is_partitioned_in, note_kind
from hudi_py.metadata_write.partitions.registry import maintained
from hudi_py.metadata_write.partitions.secondary_index import KIND as SECONDARY_KIND
from hudi_py.metadata_write.table.create import drop_partitions, initialise, lost_files, note_to_make
from hudi_py.metadata_write.table.session import open_metadata_session
from hudi_py.model.names import RECORD_KEY
from hudi_py.model.properties import TableConfig
from hudi_py.services.context import ServiceContext
from hudi_py.storage import Storage
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.transaction.recovery.failed_writes import recovered

_KINDS: Final = (SECONDARY_KIND, *EXPRESSION_KINDS, RECORD_INDEX)
INDEXES_SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("function", pa.string()),
        ("options", pa.map_(pa.string(), pa.string())),
        ("version", pa.string()),
        ("ready", pa.bool_()),
    ]
)
"""Indexes of a table, a row each. `ready`: whether readers use it; otherwise the next write completes it."""


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """An index to create."""

    name: str
    column: str = ""
    """Of a record index: the columns of the record key, with commas between them, or none."""
    kind: str = SECONDARY_KIND
    """`secondary_index`, `record_index`, or `column_stats` or `bloom_filters`, which make an expression index."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options stored with the index, such as `expr`."""


def create_index(context: ServiceContext, request: IndexRequest, *, if_not_exists: bool = False) -> bool:
    """Creates an index from the files of the table, under the table lock. If this process dies, the next write
    completes it.

    Returns:
        False if it exists already and `if_not_exists` is set.

    Raises:
        ConfigError: the index exists, or the table cannot have it.
        ConflictError: a write of a table of version 6 is under way.
        CorruptFileError: data files are lost; nothing was changed.
        LockError: the table lock could not be acquired in time.
    """
    if request.kind not in _KINDS:
        raise ConfigError(
            f"Cannot create the index {request.name!r} of {context.storage.uri}: there is no kind {request.kind!r}; "
            f"supported are {', '.join(_KINDS)}"
        )
    config = context.config()
    if RECORD_INDEX in (request.kind, request.name):
        _check_key_columns(context, config, request)
    partition = request.name if request.kind == RECORD_INDEX else full_name(request.name, request.kind)
    if partition in config.metadata_partitions:
        if if_not_exists:
            return False
        raise ConfigError(f"Cannot create the index {request.name!r} of {context.storage.uri}: it exists already")
    if config.base_file_format == "LANCE" and request.kind != RECORD_INDEX:
        raise ConfigError(
            f"Cannot create the index {request.name!r} of {context.storage.uri}: its base files are Lance, and most "
            "upserts of Apache Hudi 1.2.0 fail with such an index; a record index can be created"
        )
    if not config.populates_meta_fields:
        raise ConfigError(
            f"Cannot create the index {request.name!r} of {context.storage.uri}: such an index is made of record keys "
            "in files, which the table does not have (hoodie.populate.meta.fields=false)"
        )
    if FILES not in config.metadata_partitions:
        raise ConfigError(
            f"Cannot create the index {request.name!r} of {context.storage.uri}: the table has no metadata table; "
            "write to it with hoodie.metadata.enable=true, or make it with metadata.rebuild('files')"
        )
    if request.kind == RECORD_INDEX:
        _create_record_index(context, request)
    else:
        _create_by_name(context, request)
    return True


def drop_index(context: ServiceContext, name: str, *, if_exists: bool = False) -> bool:
    """Drops an index and those that need it.

    Args:
        name: of the index, with or without the prefix of its partition.

    Returns:
        False if there is none and `if_exists` is set.

    Raises:
        ConfigError: there is no such index.
        ConflictError: a write is under way.
        LockError: the table lock could not be acquired in time.
    """
    found = _existing(context.storage, context.config(), name, "drop", missing_ok=if_exists)
    if found is None:
        return False
    drop(context, [found])
    return True


def refresh_index(context: ServiceContext, name: str) -> None:
    """Rebuilds an index from the files of the table. Raises as `rebuild`; ConfigError if there is no such index."""
    found = _existing(context.storage, context.config(), name, "refresh")
    rebuild(context, names=[str(found)])


def index_report(storage: Storage, config: TableConfig) -> pa.Table:
    """The indexes of a table: those with a definition, and partitions of the metadata table besides `files`, by name
    (`INDEXES_SCHEMA`)."""
    definitions = read_definitions(storage, config)
    names = sorted({*config.metadata_partitions, *config.metadata_partitions_to_make} - {FILES})
    rows = []
    for name in names:
        found = definitions.get(name, {})
        rows.append(
            {
                "name": name,
                "kind": str(found.get("indexType") or name),
                "columns": [str(each) for each in found.get("sourceFields") or ()],
                "function": str(found.get("indexFunction") or ""),
                "options": {str(key): str(value) for key, value in (found.get("indexOptions") or {}).items()},
                "version": str(found.get("version") or "V1"),
                "ready": name in config.metadata_partitions,
            }
        )
    return pa.Table.from_pylist(rows, INDEXES_SCHEMA)


def _check_key_columns(context: ServiceContext, config: TableConfig, request: IndexRequest) -> None:
    """A record index holds the record keys, whatever column it is asked for (`CreateIndexCommand`, 1.2.0)."""
    keys = config.record_key_fields or (RECORD_KEY,)
    given = {name.strip().lower() for name in request.column.split(",") if name.strip()}
    if given and given != {name.lower() for name in keys}:
        raise ConfigError(
            f"Cannot create the index {request.name!r} of {context.storage.uri} on {request.column}: a record index is "
            f"one of the record key, which is {', '.join(keys)}; name that, or give a secondary index another name"
        )


def _create_record_index(context: ServiceContext, request: IndexRequest) -> None:
    if request.name != RECORD_INDEX:
        raise ConfigError(
            f"Cannot create the record index {request.name!r} of {context.storage.uri}: its name is {RECORD_INDEX}"
        )
    partitioned = request.options.get("isPartitioned", "").strip().lower() == "true"
    kinds = {
        metadata_config.GLOBAL_RECORD_INDEX: "false" if partitioned else "true",
        metadata_config.RECORD_INDEX: "true" if partitioned else "false",
    }
    rebuild(replace(context, options=context.options.replace(kinds)), [RECORD_INDEX], needs_unique_keys=True)


def _create_by_name(context: ServiceContext, request: IndexRequest) -> None:
    storage = context.storage
    options = context.options
    asked = options.get(metadata_config.GLOBAL_RECORD_INDEX) or options.get(metadata_config.RECORD_INDEX)

    def check(config: TableConfig) -> bool:
        """Whether the record index must be built first."""
        if request.kind != SECONDARY_KIND:
            return False
        there = RECORD_INDEX in config.metadata_partitions
        partitioned = is_partitioned_in(storage, config, options)
        check_record_index(request.name, config, there=there or asked, partitioned=partitioned)
        scope = read_scope(storage) if there else None
        if scope is not None and scope.repeated is not None:
            raise ConfigError(
                f"Cannot create the index {request.name!r} of {storage.uri}: the record key {scope.repeated!r} is in "
                "several file groups, and entries of such an index have no place; delete the other rows and rebuild "
                "the record index with metadata.rebuild('record_index')"
            )
        return not there

    check(context.config())  # refuse before anything is rolled back
    with recovered(context.session, f"create the index {request.name}") as table:
        session, config, timeline = table.session, table.config, table.timeline
        schema = resolve_table_schema(table)
        columns = None if schema is None else schema.arrow
        if request.kind == SECONDARY_KIND:
            definition = secondary_definition(config, columns, request.name, request.column, request.options)
        else:
            definition = expression_definition(
                config,
                columns,
                request.name,
                request.column,
                request.options,
                kind=request.kind,
                settings=options,
            )
        partition = definition.name
        if partition in config.metadata_partitions:
            raise ConflictError(f"Cannot create the index {request.name!r} of {storage.uri}: it was just created")
        lost = lost_files(session.view(timeline))
        if lost:
            raise CorruptFileError(
                f"Cannot create the index {request.name!r} of {storage.uri}: data files are lost: {lost[0]}; restore "
                "them from a copy, or undo the commits (rollback, restore)"
            )
        to_make = [RECORD_INDEX, partition] if check(config) else [partition]
        if RECORD_INDEX in to_make:
            config = note_kind(storage, config, options)
        config = put_definition(storage, config, definition)
        config = note_to_make(storage, {*config.metadata_partitions_to_make, *to_make})
        try:
            own = open_metadata_session(session.at(config))
            for made in maintained(to_make):
                context.progress.phase(f"building {made.name}")
                source = source_of(session.at(config), timeline, options, needs_unique_keys=True)
                config = initialise(own, source, made)
        except BaseException:  # also when interrupted: a half-built index must not stay listed as one to make
            drop_partitions(storage, context.config(), to_make)
            raise


def _existing(storage: Storage, config: TableConfig, name: str, what: str, *, missing_ok: bool = False) -> str | None:
    there = [*config.metadata_partitions, *config.metadata_partitions_to_make]
    for found in (name, full_name(name), full_name(name, STATS_KIND)):
        if found in there and found != FILES:
            return found
    if missing_ok:
        return None
    known = ", ".join(sorted(set(there) - {FILES})) or "none"
    raise ConfigError(f"Cannot {what} the index {name!r} of {storage.uri}: there is no such index; it has {known}")
