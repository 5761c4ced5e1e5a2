"""Write operations: one table of what each does with rows and file groups.

Options, checks, the write pipeline and the command line read its rows. To add an operation, add a member of
`Operation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig


@dataclass(frozen=True, slots=True)
class OperationTraits:
    """What an operation does."""

    needs: Literal["rows", "keys", "partitions"] = "rows"
    """What it needs from the data: whole rows, whose keys may be new; the key and partition columns; or only the
    partition columns."""
    known: Literal["update", "delete", "refuse"] | None = None
    """What to do with rows whose keys exist: update or delete the stored rows, or skip or refuse the new ones if
    options say so. None: keys are not looked up."""
    fills: bool = False
    """Whether added rows fill small files first. Otherwise they go to new file groups, sorted if options say so."""
    replaces: Literal["partitions", "table"] | None = None
    """Which file groups it replaces: those of partitions for which there are rows, or those of the whole table."""


class Operation(str, Enum):
    """The kind of a write; the value is the one of `hoodie.datasource.write.operation`."""

    UPSERT = "upsert", OperationTraits(known="update", fills=True)
    INSERT = "insert", OperationTraits(known="refuse", fills=True)
    BULK_INSERT = "bulk_insert", OperationTraits()
    DELETE = "delete", OperationTraits(needs="keys", known="delete")
    INSERT_OVERWRITE = "insert_overwrite", OperationTraits(replaces="partitions")
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table", OperationTraits(replaces="table")
    DELETE_PARTITION = "delete_partition", OperationTraits(needs="partitions", replaces="partitions")

    traits: OperationTraits

    def __new__(cls, value: str, traits: OperationTraits = OperationTraits()) -> Operation:
        member = str.__new__(cls, value)
        member._value_ = value
        member.traits = traits
        return member

    @property
    def java_name(self) -> str:
        """Name of the `WriteOperationType` in commit metadata."""
        return self.name

    @property
    def looks_up_keys(self) -> bool:
        """Returns whether the operation always looks up keys, whatever the options."""
        return self.traits.known in ("update", "delete")

    @property
    def overwrites(self) -> bool:
        """Returns whether its rows replace others."""
        return self.takes_whole_rows and self.traits.replaces is not None

    @property
    def takes_whole_rows(self) -> bool:
        """Returns whether it writes rows; otherwise they only name what to delete."""
        return self.traits.needs == "rows"

    @property
    def writes_files(self) -> bool:
        """Returns whether it adds files to the table; otherwise it only replaces file groups."""
        return self.traits.needs != "partitions"

    def action(self, config: TableConfig) -> Action:
        """Returns its action on the table's timeline (`CommitUtils.getCommitActionType`)."""
        if self.traits.replaces is not None:
            return Action.REPLACE_COMMIT
        return Action.DELTA_COMMIT if config.is_mor else Action.COMMIT


BOOTSTRAP: Final = "bootstrap"
"""The value of `hoodie.datasource.write.operation` that creates a table from files, and takes no rows."""
REPLACING: Final = frozenset(operation.java_name for operation in Operation if operation.traits.replaces)
"""Names, in commit metadata, of operations that delete the rows of replaced file groups."""
ADDING: Final = frozenset(
    operation.java_name for operation in Operation if operation.takes_whole_rows and not operation.traits.replaces
)
"""Names of operations that add rows and replace no file group."""
REWRITING: Final = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Names of table services that move rows to other files without changing them."""
