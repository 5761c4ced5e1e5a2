"""Writes to a table from one process: creates the table if it is absent, runs the operation, and commits.

Implements `hudi_py.write` and the methods of `Table`, on an open storage and resolved options.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_py.config import Option, Options, Problems, Scope
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, TableExistsError, TableNotFoundError
from hudi_py.model.layout import PROPERTIES
from hudi_py.model.operation import BOOTSTRAP, Operation
from hudi_py.model.properties import FIRST_WRITE, TableConfig
from hudi_py.progress import Progress
from hudi_py.storage import Storage
from hudi_py.timeline.properties import create_table_config, load_table_config, make_table_folders
from hudi_py.transaction.locks import NO_ACCESS
from hudi_py.transaction.owner.identity import process_identity
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession, WriteTarget
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.operation import deleted_partitions, effective_operation, operation_on
from hudi_py.write.operations import run_operation
from hudi_py.write.result import WriteResult, result_of
from hudi_py.write.retry import begin_planned, redo_on_conflict, replayable_batches
from hudi_py.write.rows.input import Input, normalise_schema, read_input
from hudi_py.write.rows.keygen import key_generator
from hudi_py.write.settings import WriteSettings, new_table_schema, write_settings
from hudi_py.write.table.first import FirstWrite, check_rows
from hudi_py.write.table.properties import CREATE_SCHEMA, check_options, table_properties
from hudi_py.write.table.support import check_writable

_TABLE_TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


ColumnNames: TypeAlias = str | list[str] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableArguments:
    """The arguments of `write`, `create_table` and `bootstrap` that are options of a table."""

    record_key: ColumnNames | None = None
    partition_by: ColumnNames | None = None
    ordering_by: ColumnNames | None = None
    table_type: str | None = None
    """`cow`, `mor`, or Apache Hudi's names for them."""
    table_version: int | None = None


def write_options(
    options: Mapping[str, object] | None = None,
    arguments: TableArguments = TableArguments(),
    *,
    problems: Problems | None = None,
) -> Options:
    """Resolves the options of a write, with arguments among them. `problems` collects the errors, which the caller
    raises; None: they are raised.

    Raises:
        ConfigError: an option is unknown, not valid or refused, or a keyword contradicts it.
    """
    several = Problems() if problems is None else problems
    resolved = Options.resolve(options, Scope.WRITE, problems=several)
    kind = arguments.table_type
    keywords: list[tuple[str, Option[Any], object]] = [
        ("record_key", table_config.RECORD_KEY, arguments.record_key),
        ("partition_by", table_config.PARTITION_PATH, arguments.partition_by),
        ("ordering_by", table_config.ORDERING, arguments.ordering_by),
        ("table_type", table_config.TABLE_TYPE, _TABLE_TYPES.get(str(kind).lower(), kind)),
        ("table_version", table_config.TABLE_VERSION, arguments.table_version),
    ]
    changes: dict[Option[Any], str] = {}
    for keyword, option, given in keywords:
        if given is None:
            continue
        with several.collected():
            text = _keyword_text(keyword, given)
            value = option.read(text, keyword)
            if resolved.given(option) and resolved.get(option) != value:
                raise ConfigError(
                    f"Argument {keyword}={text!r} contradicts option {resolved.name_of(option)}="
                    f"{resolved.values[option.key]!r}; give one of them"
                )
            changes[option] = text
    if problems is None:
        several.check()
    return resolved.replace(changes)


def naming_partitions(paths: str | Iterable[str]) -> dict[str, str]:
    """Returns the option that names the partitions of `delete_partition`. Raises ConfigError if it cannot express a
    path."""
    named = [paths] if isinstance(paths, str) else list(paths)
    if not named or any(not path.strip() or "," in path for path in named):
        raise ConfigError(
            f"Cannot delete the partitions {named!r}: expected paths without a comma, as Table.partitions() lists "
            "them; for others, pass rows of these partitions to hudi_py.write with operation='delete_partition'"
        )
    return {write_config.DELETED_PARTITIONS.key: ",".join(named)}


def create_empty_table(storage: Storage, schema: pa.Schema, options: Options) -> TableConfig:
    """Creates a table without rows, whose schema is stored with its properties.

    Args:
        schema: the table's columns, without meta columns, in any Arrow types that `read_input` takes.

    Raises:
        TableExistsError: there is a table already.
        ConfigError, SchemaMismatchError, UnsupportedTableError: no record key, or columns and options do not go
        together.
    """
    if storage.stat(PROPERTIES) is not None:
        raise TableExistsError(
            f"Cannot create a table at {storage.uri}: there is one already; open it, or choose another path"
        )
    named = named_options(storage, options)
    columns = normalise_schema(schema)
    made = new_table_schema(TableConfig(table_properties(named)), columns, options)
    config, created = create_table(storage, named, lambda properties: {**properties, CREATE_SCHEMA: made.avro_json})
    if not created:
        raise TableExistsError(
            f"Cannot create a table at {storage.uri}: another writer has created one in the meantime; open it"
        )
    return config


def write_rows(target: WriteTarget, data: Any, operation: str | Operation | None = None) -> WriteResult:
    """Writes data as one commit; creates the table if there is none.

    Args:
        data: see `read_input`.
        operation: a value of `hoodie.datasource.write.operation`; None: as the options say, by default `upsert`.

    An empty input makes an empty commit, as Apache Hudi does, unless `hoodie.allow.empty.commit=false`.

    Raises:
        TableNotFoundError: a delete, of rows or partitions, without a table.
        ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was written.
        ConflictError: another write is pending, or completed meanwhile.
    """
    storage, options = target.durable, target.options
    kind = effective_operation(parse_operation(operation, options), options)
    existing = existing_table(storage)
    source = read_input(data)
    first = FirstWrite.of(process_identity(), options)

    def written(existing: TableConfig | None) -> WriteResult:
        config = open_or_create(target, existing, source, kind, first)
        with first.taken_back(storage, config):
            session = target.session(config)
            done, committed = _write_with_retries(session, source, operation_on(config, kind), options)
        return done if committed is None else replace(done, services=session.run_after(committed))

    try:
        return written(existing)
    except TableNotFoundError:
        if not kind.takes_whole_rows or not source.replayable:
            raise
        return written(existing_table(storage))  # another first write has failed in the meantime, and removed the table


def _write_with_retries(
    session: TableSession, source: Input, kind: Operation, options: Options
) -> tuple[WriteResult, Committed | None]:
    """Runs the write, again after conflicts. Returns None for the second value if there is nothing to commit."""
    batches = source.batches
    if not options.get(write_config.ALLOW_EMPTY_COMMIT) and deleted_partitions(kind, options) is None:
        rows = source.batches()
        some = next(rows, None)
        if some is None:
            return result_of(kind.value, None, None, ()), None
        if not source.replayable:
            batches = partial(itertools.chain, (some,), rows)
    most = session.settings.conflict_retries
    with replayable_batches(source, batches, most) as rows_of:
        (result, committed), retries = redo_on_conflict(
            lambda: _run_operation(session, source, rows_of(), kind, options), most
        )
    return replace(result, retries=retries), committed


def parse_operation(operation: str | Operation | None, options: Options) -> Operation:
    """Returns the operation: the argument, else `hoodie.datasource.write.operation`.

    Raises:
        ConfigError: an unknown operation, one without rows, or argument and option differ.
    """
    option = write_config.OPERATION
    if BOOTSTRAP in (operation, options.get(option)):
        raise ConfigError(
            f"Cannot write rows with {option.key}={BOOTSTRAP}: a bootstrap creates a table from files, not from rows; "
            "call hudi_py.bootstrap, or df.write with an empty DataFrame"
        )
    if operation is None:
        return Operation(options.get(option))
    kind = operation if isinstance(operation, Operation) else Operation(option.read(operation, "operation"))
    if options.given(option) and options.get(option) != kind.value:
        raise ConfigError(
            f"Argument operation={kind.value!r} contradicts option {options.name_of(option)}={options.get(option)!r}; "
            "give one of them"
        )
    return kind


def _run_operation(
    session: TableSession,
    source: Input,
    batches: Iterator[pa.RecordBatch],
    operation: Operation,
    options: Options,
) -> tuple[WriteResult, Committed]:
    config = session.config

    def plan(view: FileSystemView) -> WriteSettings:
        settings = write_settings(view, source.schema, operation, options)
        if source.in_memory and settings.deleted_partitions is None:
            names = settings.keygen.partition_columns(settings.schema.arrow)
            for batch in source.columns(names):
                settings.keygen.check_partitions(settings.schema.conform_some(batch, names))
        return settings

    with Progress.on_terminal(f"{operation.value} {config.name}") as progress:
        begun = begin_planned(session, plan, action=operation.action(config), operation=operation.java_name)
        with begun as (transaction, settings):
            context = WriteContext(transaction, settings, progress=progress)
            written = run_operation(context, batches, operation)
            return context.commit_rows(operation, written, options.commit_metadata)


def existing_table(storage: Storage) -> TableConfig | None:
    """Reads the properties of the table to write to; None if there is no table.

    Raises:
        UnsupportedTableError: it has a feature that cannot be written.
    """
    config = table_config_at(storage)
    if config is not None:
        check_writable(config)
    return config


def table_config_at(storage: Storage) -> TableConfig | None:
    """Returns the properties of the table at the root of a storage, whether or not it can be written; None if there is
    none."""
    try:
        return load_table_config(storage)
    except TableNotFoundError:
        return None


def open_or_create(
    target: WriteTarget,
    existing: TableConfig | None,
    rows: Input | pa.Schema,
    operation: Operation,
    first: FirstWrite,
) -> TableConfig:
    """Returns the table to write to, and creates it if there is none. Refuses what it can before that.

    Args:
        existing: from `existing_table`.
        rows: rows of the write, or their normalised schema.
        first: the write, if it creates the table.

    Raises:
        TableNotFoundError: a delete without a table.
        ConfigError: options contradict the table or each other.
        SchemaMismatchError, UnsupportedTableError: the table cannot have such columns or services.
    """
    storage, options = target.durable, target.options
    if existing is not None and FIRST_WRITE in existing.properties and operation.takes_whole_rows:
        wanted = table_properties(named_options(storage, options))
        existing = None if first.remove_if_dead(storage, existing, wanted) else existing
    if existing is None:
        if not operation.takes_whole_rows:
            raise TableNotFoundError(
                f"Cannot run {operation.value} on the table at {storage.uri}: there is no table; check the path"
            )
        named = named_options(storage, options)
        planned = TableConfig(table_properties(named))
        schema = new_table_schema(planned, rows.schema if isinstance(rows, Input) else rows, options)
        target.check(planned)
        if isinstance(rows, Input):
            check_rows(rows, schema, key_generator(planned, schema.avro, options=options))
        config, _ = create_table(storage, named, first.mark)
        return config
    check_options(existing, options)
    target.check(existing)
    return existing


def named_options(storage: Storage, options: Options) -> Options:
    """Returns the options of a new table, whose default name is that of its folder."""
    if options.get(table_config.TABLE_NAME):
        return options
    return options.replace({table_config.TABLE_NAME: storage.uri.rstrip("/").rpartition("/")[2]})


def _keyword_text(keyword: str, value: object) -> str:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    raise ConfigError(f"Argument {keyword}={value!r} is of type {type(value).__name__}; expected text or a list of it")


def create_table(
    storage: Storage, options: Options, adding: Callable[[dict[str, str]], dict[str, str]] = dict
) -> tuple[TableConfig, bool]:
    """Creates the table at the storage's root, or opens an existing one.

    If several callers create the table at once, one succeeds and the others open its table.

    Args:
        options: options of a write, including the table's name.
        adding: adds properties that no option sets.

    Returns:
        The table's properties, and whether this call created it.

    Raises:
        ConfigError, UnsupportedTableError: as `table_properties`; an existing table contradicts the options; the path
            cannot be written.
    """
    properties = adding(table_properties(options))
    try:
        created = _create_files(storage, properties)
    except OSError as error:
        if error.errno not in NO_ACCESS:
            raise
        raise ConfigError(
            f"Cannot create a table at {storage.uri}: its folder cannot be written ({error.strerror}); give this user "
            "write access to it, or another path"
        ) from error
    config = load_table_config(storage)
    if not created:
        check_options(config, options)
    return config, created


def _create_files(storage: Storage, properties: Mapping[str, str]) -> bool:
    """Creates the table's files. Returns False if there is a table already."""
    if storage.stat(PROPERTIES) is None:
        make_table_folders(storage, properties)
    return create_table_config(storage, properties)
