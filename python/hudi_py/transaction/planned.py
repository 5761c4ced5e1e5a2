"""Writes that are planned before they begin, and planned again if the table has changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hudi_py.model.instant import Action
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import FileSystemView

Plan = TypeVar("Plan")


class NothingToDoError(Exception):
    """Raised when a planned write has nothing to change; the message gives the reason."""


@contextmanager
def begin_planned(
    session: TableSession,
    plan: Callable[[FileSystemView], Plan],
    *,
    action: Action,
    operation: str,
    seen: FileSystemView | None = None,
) -> Iterator[tuple[WriteTransaction, Plan]]:
    """Plans a write, begins it, and plans it again if the timeline has moved in between.

    The first plan is made without the table lock, so that an impossible write is refused before there is an instant.

    Args:
        plan: called with the file slices that the write sees. Its exceptions end the write and leave nothing behind.
        seen: the state to plan for first; by default it is read.

    Raises:
        ConflictError, LockError, ConfigError: as `WriteTransaction.begin`.
    """
    view = session.view_for_write(session.timeline()) if seen is None else seen
    planned = plan(view)
    with WriteTransaction.begin(session, action=action, operation=operation) as transaction:
        if transaction.timeline.moved_since(view.timeline):
            planned = plan(transaction.view)
        else:
            transaction.share(view)
        yield transaction, planned
