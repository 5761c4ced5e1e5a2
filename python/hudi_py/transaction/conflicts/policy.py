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
    pending: frozenset[InstantTime] = frozenset()
    """Requested times of the writes and table services that were pending when the write was planned."""
    schema_json: str = ""
    """The Avro schema that the write leaves behind, without meta columns; before its commit empty."""

    @classmethod
    def of(
        cls,
        instant: InstantTime,
        pin: Pin,
        metadata: CommitMetadata,
        table_version: int,
        pending: frozenset[InstantTime] = frozenset(),
    ) -> WriteScope:
        """That of a write which is about to be committed with this metadata."""
        replaced = {(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids}
        logs = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is not None}
        bases = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is None}
        logged = logs - bases - replaced if table_version >= 8 else set()
        touched = frozenset(logs | bases | replaced)
        return cls(instant, pin, touched, frozenset(logged), pending, metadata.extra.get("schema", ""))


class ConflictPolicy(Protocol):
    """Compares the table as it is with what a write saw. Pickles; holds no credentials."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether a write does not begin while another one is pending, unless that has failed."""
        ...

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        """Before a planned write becomes pending.

        Raises:
            ConflictError: names the instant in the way.
        """
        ...

    def check_commit(self, table: LockedTable, scope: WriteScope) -> str | None:
        """Before a write completes, its files written.

        Returns:
            The Avro schema to commit instead of the write's own, where another write has changed it; usually None.

        Raises:
            ConflictError: names the instant in the way and the file group, where it is about one.
        """
        ...
