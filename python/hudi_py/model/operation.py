"""The operations of writes: one table of what each of them does with rows and file groups.

Options, checks, the pipeline in one process and in tasks, and the command line read its rows: to add an operation, add
a member of `Operation`.
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
    """What it needs of the data: whole rows, which it adds if their keys are new, the columns of keys and partitions,
    or only those of partitions."""
    known: Literal["update", "delete", "refuse"] | None = None
    """What becomes of rows whose keys the table has: they update or delete the stored rows, or they are left out or
    refused if options ask for that. If None, no key is looked up."""
    fills: bool = False
    """Whether small files take added rows first; otherwise these go to new file groups, in order if options say so."""
    replaces: Literal["partitions", "table"] | None = None
    """Whose file groups it replaces: those of the partitions that the data is for, or of the whole table."""


class Operation(str, Enum):
    """What a write does to the table; the value is that of `hoodie.datasource.write.operation`."""

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
        """Whether it looks its keys up whatever the options are."""
        return self.traits.known in ("update", "delete")

    @property
    def overwrites(self) -> bool:
        """Whether its rows take the place of others."""
        return self.takes_whole_rows and self.traits.replaces is not None

    @property
    def takes_whole_rows(self) -> bool:
        """Whether it writes rows; otherwise they only say what to delete."""
        return self.traits.needs == "rows"

    @property
    def writes_files(self) -> bool:
        """Whether it adds files to the table; otherwise it only replaces file groups."""
        return self.traits.needs != "partitions"

    def action(self, config: TableConfig) -> Action:
        """Return its action on the timeline of a table (`CommitUtils.getCommitActionType`)."""
        if self.traits.replaces is not None:
            return Action.REPLACE_COMMIT
        return Action.DELTA_COMMIT if config.is_mor else Action.COMMIT


REPLACING: Final = frozenset(each.java_name for each in Operation if each.traits.replaces)
"""The names in commit metadata of operations whose replaced file groups lose their rows."""
ADDING: Final = frozenset(each.java_name for each in Operation if each.takes_whole_rows and not each.traits.replaces)
"""The names of operations that add rows, and replace no file group."""
REWRITING: Final = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""The names of the operations of table services, which write rows to other files and change none."""
