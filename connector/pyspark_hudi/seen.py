"""Tracks the state of a table that a DataFrame was read from, so that a write of its rows cannot overwrite changes that
it has not seen.

`read_table` gives its DataFrames an alias that names the table and the state that they show. Spark keeps aliases in
analysed plans, however rows are transformed later, and shows them in EXPLAIN, classic and Connect alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.errors import PySparkException

from hudi_py.config import concurrency as concurrency_config
from hudi_py.errors import ConflictError
from hudi_py.read import PlanPin
from hudi_py.write.distributed import conflict_retries, redo_on_conflict
from pyspark_hudi.paths import checked_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Result = TypeVar("Result")

SEEN: Final = concurrency_config.SEEN.key
_read: set[str] = set()
"""Tables that this process has read, by alias: for other tables no plan needs to be examined."""


def marked(frame: DataFrame, path: str, state: PlanPin) -> DataFrame:
    """Marks the rows of a table's state, so that `seen_in` finds it."""
    alias = _alias_prefix(path)
    _read.add(alias)
    return frame.alias(f"{alias}{state.label}")


def seen_in(frame: DataFrame, path: str) -> str | None:
    """Returns the oldest state of a table that `read_table` has read for a DataFrame, as `hoodie.py.write.seen`; None
    if there is none."""
    alias = _alias_prefix(path)
    if alias not in _read:
        return None
    try:
        row = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {rows}", rows=frame).first()
    except PySparkException:  # the write reports the error
        return None
    labels = re.findall(rf"\b{alias}(\w+)", "" if row is None else str(row[0]))
    return PlanPin.of_label(min(labels)).encode() if labels else None


def saying_seen(frame: DataFrame, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a write of these rows, with the state of the table that they come from unless given."""
    given = dict(options)
    if not any(str(key).lower() == SEEN for key in given):
        seen = seen_in(frame, path)
        if seen is not None:
            given[SEEN] = seen
    return given


def evaluated(
    evaluate: Callable[[], DataFrame],
    path: str,
    options: Mapping[str, Any],
    write: Callable[[DataFrame, dict[str, Any]], Result],
) -> tuple[Result, int]:
    """Writes rows that are evaluated for it, again after a conflict with the state that they were read from. Returns
    the result and how often they were evaluated again. A write of other rows repeats itself.

    Args:
        evaluate: the rows, which read the tables in their newest states.
        write: gets the rows, and the options with what they have seen.
    """
    frame = evaluate()
    given = saying_seen(frame, path, options)
    if len(given) == len(options):
        return write(frame, given), 0
    attempts = [(frame, given)]

    def attempt() -> Result:
        rows, said = attempts.pop() if attempts else _evaluate_rows(evaluate, path, options)
        return write(rows, said)

    return redo_on_conflict(attempt, conflict_retries(options), causes=(ConflictError,))


def _evaluate_rows(
    evaluate: Callable[[], DataFrame], path: str, options: Mapping[str, Any]
) -> tuple[DataFrame, dict[str, Any]]:
    frame = evaluate()
    return frame, saying_seen(frame, path, options)


def _alias_prefix(path: str) -> str:
    """Returns the alias of a table's rows without their state, the same for every spelling of its path."""
    plain = re.sub(r"^file:/+", "/", checked_path(path, "read").rstrip("/")).replace("s3a://", "s3://", 1)
    return f"hudi_py_{hashlib.blake2b(plain.encode(), digest_size=6).hexdigest()}_"
