"""Which actions of others keep a write from completing."""

from __future__ import annotations

from hudi_py.transaction.conflicts.policy import ConflictPolicy, WriteScope
from hudi_py.transaction.conflicts.single_writer import SingleWriter

__all__ = ["ConflictPolicy", "SingleWriter", "WriteScope"]
