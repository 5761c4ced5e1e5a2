"""The interface of conflict policies, and their input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import WRITE_ACTIONS, Instant, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.plans import FileGroup
from hudi_py.timeline.timeline import Pin, Timeline

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable

ALTER_SCHEMA: Final = "ALTER_SCHEMA"
"""The operation of commits that change columns, and no rows."""
BUCKET_RESCALE: Final = "BUCKET_RESCALE"
"""The operation of commits that change the numbers of buckets of partitions."""


@dataclass(frozen=True, slots=True)
class WriteScope:
    """The part of the table that a write saw and the part that it changes."""

    instant: InstantTime
    pin: Pin
    touched: frozenset[FileGroup] = frozenset()
    """File groups that the write changes or replaces; unknown until its commit."""
    logged: frozenset[FileGroup] = frozenset()
    """Those of them that only get log files named by their own instant (from table version 8 on)."""
    pending: frozenset[InstantTime] = frozenset()
    """Requested times of the writes and table services that were pending when the write was planned."""
    schema_json: str = ""
    """Avro schema of the table after the write; empty before its commit."""
    alters: bool = False
    """Whether it changes the columns of the table or its numbers of buckets, for which other writes must not have
    written anything meanwhile."""
    replaced: frozenset[FileGroup] = frozenset()
    """File groups that it replaces by others."""

    @classmethod
    def of(
        cls,
        instant: InstantTime,
        pin: Pin,
        metadata: CommitMetadata,
        config: TableConfig,
        pending: frozenset[InstantTime] = frozenset(),
    ) -> WriteScope:
        """The scope of a write that is about to be committed with this metadata."""
        replaced = metadata.replaced_groups
        logs = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is not None}
        bases = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is None}
        logged = logs - bases - replaced if config.logs_named_by_instant else set()
        alters = metadata.operation in (ALTER_SCHEMA, BUCKET_RESCALE)
        schema = metadata.extra.get("schema", "")
        return cls(instant, pin, metadata.changed_groups, frozenset(logged), pending, schema, alters, replaced)


def completed_since(timeline: Timeline, scope: WriteScope) -> list[Instant]:
    """Commits, deltacommits and replacecommits that the write did not see."""
    completed = timeline.completed_since(scope.pin)
    return [each for each in completed if each.time != scope.instant and each.action.comparable in WRITE_ACTIONS]


class ConflictPolicy(Protocol):
    """Compares the current table with what a write saw. Pickles; holds no credentials."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether a write must not begin while another one is pending, unless that one has failed."""
        ...

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        """Checks a planned write before it becomes pending.

        Raises:
            ConflictError: names the conflicting instant.
        """
        ...

    def check_plan(self, table: LockedTable, scope: WriteScope) -> None:
        """Checks a plan that has been carried out before it completes. See `conflicts.plans`.

        Raises:
            ConflictError: names the conflicting instant and the file group.
        """
        ...

    def check_commit(self, table: LockedTable, scope: WriteScope) -> str | None:
        """Checks a write whose files are written before it completes.

        Returns:
            The Avro schema to commit instead of the write's own if another write has changed it; usually None.

        Raises:
            ConflictError: names the conflicting instant and, where applicable, the file group.
        """
        ...
