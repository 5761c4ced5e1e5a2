"""What its options make of the operation of a write."""

from __future__ import annotations

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig


def effective_operation(operation: Operation, options: Options) -> Operation:
    """What a write does that asks for `operation`: an upsert that drops or refuses known keys is an insert
    (`HoodieSparkSqlWriter.deduceOperation`, 1.2.0).

    Raises:
        ConfigError: a bulk insert, which looks up no keys, is to drop duplicates.
    """
    if operation.traits.known is None and operation.traits.replaces is None:
        older = options.get(write_config.DROP_DUPLICATES)
        if older or options.get(write_config.INSERT_DUPLICATES) == "drop":
            option = write_config.DROP_DUPLICATES if older else write_config.INSERT_DUPLICATES
            raise ConfigError(
                f"Option {options.name_of(option)} = '{'true' if older else 'drop'}' is not supported with the "
                f"operation {operation.value}, which looks up no keys; use insert"
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
    if not operation.takes_whole_rows:
        raise generated_keys_error(config, f"{operation.value} rows by their keys")
    return Operation.INSERT


def insert_duplicates(options: Options) -> str:
    """What an insert does with keys that the table has: `none`, `drop` or `fail`. `fail` prevails over the older
    option, which prevails over `none` (`DataSourceUtils.handleDuplicates`, 1.2.0)."""
    policy: str = options.get(write_config.INSERT_DUPLICATES)
    return "drop" if policy == "none" and options.get(write_config.DROP_DUPLICATES) else policy


def combines(operation: Operation, options: Options) -> bool:
    """Whether rows of one key in the data are merged first."""
    if operation.looks_up_keys:
        updates = operation.traits.known == "update"
        return options.get(write_config.COMBINE_BEFORE_UPSERT if updates else write_config.COMBINE_BEFORE_DELETE)
    if options.given(write_config.COMBINE_BEFORE_INSERT):
        return options.get(write_config.COMBINE_BEFORE_INSERT)
    return options.get(write_config.DROP_DUPLICATES)


def deleted_partitions(operation: Operation, options: Options) -> tuple[str, ...] | None:
    """Return the partitions that the options name for `delete_partition`; None if its rows do, and for other
    operations."""
    named = options.get(write_config.DELETED_PARTITIONS)
    return named if named and operation.traits.needs == "partitions" else None


def sets_columns(operation: Operation, options: Options) -> bool:
    """Whether known rows keep the values of columns that the data lacks."""
    return operation.traits.known == "update" and options.get(write_config.PARTIAL_UPSERT)


def generated_keys_error(config: TableConfig, what: str) -> ConfigError:
    """The refusal of what needs keys that the data has."""
    return ConfigError(
        f"Cannot {what} in the table '{config.name}', whose record keys are generated (it has no "
        "hoodie.table.recordkey.fields); use Table.update, Table.delete with a filter, or Table.merge"
    )
