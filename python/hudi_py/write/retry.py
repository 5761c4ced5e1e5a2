"""Writing again what another writer got in the way of."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import TypeVar

from hudi_py.errors import ConflictError, first_line

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


def redo_on_conflict(write: Callable[[], Result], retries: int) -> tuple[Result, int]:
    """Runs a write, and again as a whole after a conflict (`HoodieSparkSqlWriter`, 1.2.0: a new instant, a new look-up
    of keys, no pause): the rows of one write must never come of two states of the table.

    Args:
        write: rolls back what it did when it fails. Its input must be there again each time.
        retries: how often it is repeated at most.

    Returns:
        Its result, and how often it was repeated.

    Raises:
        ConflictError: the last attempt met a conflict, too.
    """
    for done in itertools.count():
        try:
            return write(), done
        except ConflictError as error:
            if done >= retries:
                raise
            _log.warning("writing again, %d of %d times: %s", done + 1, retries, first_line(error))
    raise AssertionError("itertools.count never ends")
