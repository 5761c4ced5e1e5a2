"""Creates, drops and lists indexes by name (`HoodieSparkIndexClient`, `ShowIndexesCommand`, 1.2.0)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

import pyarrow as pa

from hudi_py.errors import ConfigError, ConflictError, HudiError
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.maintenance.rebuild import drop, rebuild
from hudi_py.metadata_write.partitions.named import IndexRequest, NamedIndex, put_definition
from hudi_py.metadata_write.partitions.registry import (
    index_kinds,
    named_index,
    names_of_index,
    own_names,
    partition_of,
    wanted_partitions,
)
from hudi_py.model.properties import TableConfig
from hudi_py.services.context import ServiceContext
from hudi_py.services.indexing import Indexing, pending_indexings
from hudi_py.services.planned.service import Scheduled, execute_all
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.storage import Storage
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.session import LockedTable

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
"""Indexes of a table, a row each. `ready`: whether readers use it; otherwise it is being built."""


def create_index(context: ServiceContext, request: IndexRequest, *, if_not_exists: bool = False) -> bool:
    """Creates an index beside writers (`services.indexing`). If this process dies, its plan stays: the next call with
    the same name, or the service, completes it.

    Returns:
        False if it exists already and `if_not_exists` is set.

    Raises:
        ConfigError: the index exists, or the table cannot have it.
        ConflictError: a write of a table of version 6 is under way, or another process is building the index.
        CorruptFileError: data files are lost; nothing was changed.
        LockError: the table lock could not be acquired in time.
    """
    start = f"Cannot create the index {request.name!r} of {context.storage.uri}"
    if request.kind not in index_kinds():
        raise ConfigError(f"{start}: there is no kind {request.kind!r}; supported: {', '.join(index_kinds())}")
    config = context.config()
    for own in (partition_of(name) for name in (request.kind, request.name) if name in own_names()):
        why = "" if own is None else own.check_columns(config, request.column)
        if why:
            raise ConfigError(f"{start} on {request.column}: {why}")
    index = named_index(request.kind)
    if (request.name if index is None else index.full_name(request.name)) in config.metadata_partitions:
        if if_not_exists:
            return False
        raise ConfigError(f"{start}: it exists already; refresh it, or drop it first")
    if config.base_file_format == "LANCE" and index is not None:
        raise ConfigError(
            f"{start}: its base files are Lance, and most upserts of Apache Hudi 1.2.0 fail with such an index; a "
            "record index can be created"
        )
    if not config.populates_meta_fields:
        raise ConfigError(
            f"{start}: such an index is made of record keys in files, which the table does not have "
            "(hoodie.populate.meta.fields=false)"
        )
    if FILES not in config.metadata_partitions:
        raise ConfigError(
            f"{start}: the table has no metadata table; write to it with hoodie.metadata.enable=true, or make it with "
            "metadata.rebuild('files')"
        )
    if index is None:
        _create_own(context, request)
    else:
        _create_named(context, request, index)
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
    existing = _existing_name(context.storage, context.config(), name, "drop", missing_ok=if_exists)
    if existing is None:
        return False
    drop(context, [existing])
    return True


def refresh_index(context: ServiceContext, name: str) -> None:
    """Rebuilds an index from the files of the table. Raises as `rebuild`; ConfigError if there is no such index."""
    existing = _existing_name(context.storage, context.config(), name, "refresh")
    rebuild(context, names=[str(existing)])


def index_report(storage: Storage, config: TableConfig) -> pa.Table:
    """Lists the indexes of a table: those with a definition, and partitions of the metadata table besides `files`, by
    name (`INDEXES_SCHEMA`)."""
    definitions = read_definitions(storage, config)
    building = {*config.metadata_partitions_inflight, *config.metadata_partitions_to_make}
    names = sorted({*config.metadata_partitions, *building} - {FILES})
    rows = []
    for name in names:
        definition = definitions.get(name, {})
        rows.append(
            {
                "name": name,
                "kind": str(definition.get("indexType") or name),
                "columns": [str(column) for column in definition.get("sourceFields") or ()],
                "function": str(definition.get("indexFunction") or ""),
                "options": {str(key): str(value) for key, value in (definition.get("indexOptions") or {}).items()},
                "version": str(definition.get("version") or "V1"),
                "ready": name in config.metadata_partitions,
            }
        )
    return pa.Table.from_pylist(rows, INDEXES_SCHEMA)


def _create_own(context: ServiceContext, request: IndexRequest) -> None:
    """Creates an index whose partition has a fixed name."""
    partition = partition_of(request.kind)
    options = None if partition is None else partition.on_request(request.options)
    if options is None or request.name != request.kind:
        raise ConfigError(
            f"Cannot create the index {request.name!r} of the kind {request.kind} of {context.storage.uri}: a table "
            f"has one index of this kind, with the name {request.kind}"
        )
    _build_beside(replace(context, options=context.options.replace(options)), Indexing(request.kind))


def _create_named(context: ServiceContext, request: IndexRequest, index: type[NamedIndex]) -> None:
    storage, options = context.storage, context.options

    def missing(config: TableConfig) -> tuple[str, ...]:
        """Returns the partitions to create first."""
        needed = index.missing_needs(storage, config, request, options, wanted_partitions(options, config))
        why = "" if needed else index.check_rows(storage)
        if why:
            raise ConfigError(f"Cannot create the index {request.name!r} of {storage.uri}: {why}")
        return needed

    def define(table: LockedTable) -> None:
        schema = resolve_table_schema(table)
        put_definition(
            storage,
            table.config,
            index.define(table.config, None if schema is None else schema.arrow, request, options),
        )

    names = [*missing(context.config()), index.full_name(request.name)]
    _build_beside(context, Indexing(",".join(names), first=define))


def _build_beside(context: ServiceContext, service: Indexing) -> None:
    """Builds partitions beside writers. If this process dies, the plan stays."""
    name = service.partitions.rpartition(",")[2]
    pending = [indexing.instant for indexing in pending_indexings(context.state()) if name in indexing.names]
    begun = service.begin(context, pending[0]) if pending else service.schedule_and_begin(context)
    if isinstance(begun, Scheduled):
        if name in context.config().metadata_partitions:
            raise ConflictError(
                f"Cannot create the index {name} of {context.storage.uri}: another process has just created it"
            )
        _build_empty(context, service)
        return
    try:
        execute_all(service, context, begun)
    except BaseException:  # even if interrupted: an index that cannot be built must not stay planned
        with suppress(HudiError):
            unschedule(context, begun.instant)
        raise


def _build_empty(context: ServiceContext, service: Indexing) -> None:
    """Builds partitions of a table without commits."""
    with recovered(context.session, f"create the index {service.partitions}") as table:
        if service.first is not None:
            service.first(table)
    rebuild(context, service.partitions.split(","), needs_unique_keys=True)


def _existing_name(
    storage: Storage, config: TableConfig, name: str, what: str, *, missing_ok: bool = False
) -> str | None:
    there = [*config.metadata_partitions, *config.metadata_partitions_to_make]
    for partition in names_of_index(name):
        if partition in there and partition != FILES:
            return partition
    if missing_ok:
        return None
    known = ", ".join(sorted(set(there) - {FILES})) or "none"
    raise ConfigError(f"Cannot {what} the index {name!r} of {storage.uri}: there is no such index; it has {known}")
