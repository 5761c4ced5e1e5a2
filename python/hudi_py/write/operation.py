"""The operation of a write, and what its options make of it."""

from __future__ import annotations

from enum import Enum

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig


class Operation(str, Enum):
    """What the rows do to the table; the value is that of `hoodie.datasource.write.operation`."""

    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"

    @property
    def java_name(self) -> str:
        """Name of the `WriteOperationType` in commit metadata."""
        return self.name

    @property
    def looks_up_keys(self) -> bool:
        return self in (Operation.UPSERT, Operation.DELETE)

    @property
    def overwrites(self) -> bool:
        return self in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)

    @property
    def takes_whole_rows(self) -> bool:
        """Whether it writes rows; otherwise they only say what to delete."""
        return self not in (Operation.DELETE, Operation.DELETE_PARTITION)

    def action(self, config: TableConfig) -> Action:
        """Its action on the timeline of a table (`CommitUtils.getCommitActionType`)."""
        if self.overwrites or self is Operation.DELETE_PARTITION:
            return Action.REPLACE_COMMIT
        return Action.DELTA_COMMIT if config.is_mor else Action.COMMIT


def effective_operation(operation: Operation, options: Options) -> Operation:
    """What a write does that asks for `operation`: an upsert that drops or refuses known keys is an insert
    (`HoodieSparkSqlWriter.deduceOperation`, 1.2.0).

    Raises:
        ConfigError: a bulk insert, which looks up no keys, is to drop duplicates.
    """
    if operation is Operation.BULK_INSERT:
        older = options.get(write_config.DROP_DUPLICATES)
        if older or options.get(write_config.INSERT_DUPLICATES) == "drop":
            option = write_config.DROP_DUPLICATES if older else write_config.INSERT_DUPLICATES
            raise ConfigError(
                f"Option {options.name_of(option)} = '{'true' if older else 'drop'}' is not supported with the "
                "operation bulk_insert, which looks up no keys; use insert"
            )
    if operation is Operation.UPSERT and insert_duplicates(options) != "none":
        return Operation.INSERT
    return operation


def operation_on(config: TableConfig, operation: Operation) -> Operation:
    """What the operation does to a table: where keys are generated, every row of an upsert is new.

    Raises:
        ConfigError: a delete, from a table whose keys are generated.
    """
    if config.record_key_fields or not operation.looks_up_keys:
        return operation
    if operation is Operation.DELETE:
        raise generated_keys_error(config, "delete rows by their keys")
    return Operation.INSERT


def insert_duplicates(options: Options) -> str:
    """What an insert does with keys that the table has: `none`, `drop` or `fail`. `fail` prevails over the older
    option, which prevails over `none` (`DataSourceUtils.handleDuplicates`, 1.2.0)."""
    policy: str = options.get(write_config.INSERT_DUPLICATES)
    return "drop" if policy == "none" and options.get(write_config.DROP_DUPLICATES) else policy


def combines_inserts(options: Options) -> bool:
    """Whether rows of one key in the data of an insert are merged first."""
    if options.given(write_config.COMBINE_BEFORE_INSERT):
        return options.get(write_config.COMBINE_BEFORE_INSERT)
    return options.get(write_config.DROP_DUPLICATES)


def deleted_partitions(operation: Operation, options: Options) -> tuple[str, ...] | None:
    """The partitions that the options name for `delete_partition`; None if its rows do, and for other operations."""
    named = options.get(write_config.DELETED_PARTITIONS)
    return named if named and operation is Operation.DELETE_PARTITION else None


def sets_columns(operation: Operation, options: Options) -> bool:
    """Whether known rows keep the values of columns that the data lacks."""
    return operation is Operation.UPSERT and options.get(write_config.PARTIAL_UPSERT)


def generated_keys_error(config: TableConfig, what: str) -> ConfigError:
    """The refusal of what needs keys that the data has."""
    return ConfigError(
        f"Cannot {what} in the table '{config.name}', whose record keys are generated (it has no "
        "hoodie.table.recordkey.fields); use Table.update, Table.delete with a filter, or Table.merge"
    )
