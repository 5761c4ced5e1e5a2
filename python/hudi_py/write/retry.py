"""Plans writes before they begin, again if the table has changed meanwhile, and repeats them after conflicts with other
writers."""

from __future__ import annotations

import itertools
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from hudi_py.config import Options, Scope
from hudi_py.errors import ConflictError, HistoryCleanedError, first_line
from hudi_py.model.instant import Action
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import FileSystemView
from hudi_py.write.rows.input import Input

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Batches = Callable[[], Iterator[pa.RecordBatch]]

CONFLICTS: tuple[type[Exception], ...] = (ConflictError, HistoryCleanedError)
"""A file that was cleaned while the write was about to read it counts as a conflict: its file group has changed."""

_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 5.0


def redo_on_conflict(
    write: Callable[[], Result],
    retries: int,
    *,
    causes: tuple[type[Exception], ...] = CONFLICTS,
    first_pause_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Result, int]:
    """Runs a write, and again as a whole after a conflict (`HoodieSparkSqlWriter`, 1.2.0): under a new instant, with a
    new look-up of keys, since the rows of one write must never be based on two states of the table.

    Unlike Apache Hudi, it waits before each retry, for a random time that grows, so that conflicting writers do not
    collide again at once.

    Args:
        write: undoes what it did when it fails. Its input must be available each time.
        retries: how often it is repeated at most.
        causes: the errors after which it is repeated.
        first_pause_s: seconds before the first retry, doubled each time; None: as above.

    Returns:
        Its result, and how often it was repeated.

    Raises:
        ConflictError, HistoryCleanedError: the last attempt was in conflict, too. Likewise any other of `causes`.
    """
    for done in itertools.count():
        try:
            return write(), done
        except causes as error:
            if done >= retries:
                if done:
                    _log.warning("giving up after %d retries", done)
                raise
            _log.warning("writing again, retry %d of %d: %s", done + 1, retries, first_line(error))
        if first_pause_s is not None:
            sleep(first_pause_s * 2**done)
        else:
            sleep(min(_FIRST_PAUSE_S * 2**done, _MAX_PAUSE_S) * random.uniform(0.1, 1))
    raise AssertionError("itertools.count never ends")


def conflict_retries(options: Mapping[str, object]) -> int:
    """Returns how often a write with these options is repeated after a conflict. Raises ConfigError if they are not
    valid."""
    return TransactionSettings.of(Options.resolve(options, Scope.WRITE)).conflict_retries


@contextmanager
def replayable_batches(source: Input, batches: Batches, retries: int) -> Iterator[Batches]:
    """Yields a function that returns the rows of a write, which each attempt reads anew.

    Data that can be read only once is first copied to a temporary file, if there may be retries.

    Args:
        batches: the rows of `source`.
    """
    if source.replayable or not retries:
        yield batches
        return
    with tempfile.NamedTemporaryFile(prefix="hudi-py-", suffix=".arrow") as file:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(file, source.schema, options=options) as writer:
            for batch in batches():
                writer.write_batch(batch)
        file.flush()

        def read() -> Iterator[pa.RecordBatch]:
            with pa.OSFile(file.name) as stored, pa.ipc.open_stream(stored) as reader:
                yield from reader

        yield read


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
