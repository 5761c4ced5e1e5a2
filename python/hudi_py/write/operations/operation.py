"""The kinds of writes, and what they leave to commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig


class Operation(str, Enum):
    """What the rows do to the table; the value is that of `hoodie.datasource.write.operation`."""

    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"

    @property
    def java_name(self) -> str:
        """Name of the `WriteOperationType` in commit metadata."""
        return self.name

    @property
    def looks_up_keys(self) -> bool:
        return self in (Operation.UPSERT, Operation.DELETE)

    def action(self, config: TableConfig) -> Action:
        """Its action on the timeline of a table (`CommitUtils.getCommitActionType`)."""
        if self is Operation.INSERT_OVERWRITE_TABLE:
            return Action.REPLACE_COMMIT
        return Action.DELTA_COMMIT if config.is_mor else Action.COMMIT


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What an operation leaves to commit."""

    stats: list[WriteStat]
    """One for each file written."""
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to the file groups that the commit replaces (overwrite only)."""
