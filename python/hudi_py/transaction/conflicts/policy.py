"""What a conflict policy decides, and what it goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import InstantTime
from hudi_py.timeline.plans import FileGroup
from hudi_py.timeline.timeline import Pin

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable


@dataclass(frozen=True, slots=True)
class WriteScope:
    """What a write saw of the table, and what it changes."""

    instant: InstantTime
    pin: Pin
    touched: frozenset[FileGroup] = frozenset()
    """File groups which the write changes or replaces; before its commit none are known."""
    logged: frozenset[FileGroup] = frozenset()
    """Those of them which only get log files that name their own instant (since table version 8)."""

    @classmethod
    def of(cls, instant: InstantTime, pin: Pin, metadata: CommitMetadata, table_version: int) -> WriteScope:
        """That of a write which is about to be committed with this metadata."""
        replaced = {(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids}
        logs = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is not None}
        bases = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is None}
        logged = logs - bases - replaced if table_version >= 8 else set()
        return cls(instant, pin, frozenset(logs | bases | replaced), frozenset(logged))


class ConflictPolicy(Protocol):
    """Compares the table as it is with what a write saw. Pickles; holds no credentials."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether a write does not begin while another lives: it waits for one that shows no life, and refuses."""
        ...

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        """Before a planned write becomes pending.

        Raises:
            ConflictError: names the instant in the way.
        """
        ...

    def check_commit(self, table: LockedTable, scope: WriteScope) -> None:
        """Before a write completes, its files written.

        Raises:
            ConflictError: names the instant in the way and, for a table service, a file group.
        """
        ...
