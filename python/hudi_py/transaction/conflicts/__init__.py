"""Decides which actions of other writers prevent a write from completing."""

from __future__ import annotations

from hudi_py.transaction.conflicts.optimistic import OptimisticWriters
from hudi_py.transaction.conflicts.policy import ConflictPolicy, SingleWriter, WriteScope, completed_since
from hudi_py.transaction.settings import TransactionSettings

__all__ = ["ConflictPolicy", "OptimisticWriters", "SingleWriter", "WriteScope", "completed_since", "conflict_policy"]


def conflict_policy(settings: TransactionSettings) -> ConflictPolicy:
    """Returns the policy that the options of a write ask for (`hoodie.write.concurrency.mode`)."""
    return OptimisticWriters(settings) if settings.optimistic else SingleWriter()
