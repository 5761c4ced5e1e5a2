"""Tracks the sessions for which `enable` was called, and the tables that `register_sql` made in each session."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SqlTable:
    """A table that `register_sql` added to the catalog."""

    text: str
    """The query of the view."""
    path: str
    options: Mapping[str, str]


lock = threading.RLock()
"""Hold it while changing the sessions, the tables or PySpark's classes."""
_sessions: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""Enabled sessions with the names of the format, in lower case."""
_tables: WeakKeyDictionary[SparkSession, dict[str, SqlTable]] = WeakKeyDictionary()


def is_enabled(spark: SparkSession) -> bool:
    with lock:
        return spark in _sessions


def set_enabled(spark: SparkSession, *names: str) -> None:
    """Enables a session. `names` of the format are added to those that the session has."""
    with lock:
        _sessions.setdefault(spark, set()).update(name.lower() for name in names)


def set_disabled(spark: SparkSession) -> int:
    """Disables a session and returns how many sessions are still enabled."""
    with lock:
        _sessions.pop(spark, None)
        return len(_sessions)


def is_own_format(spark: SparkSession, name: str) -> bool:
    """Returns whether an enabled session knows our format by this name."""
    with lock:
        return name.lower() in _sessions.get(spark, ())


_plain: ContextVar[bool] = ContextVar("_plain", default=False)


@contextmanager
def statements_are_sparks() -> Iterator[None]:
    """Leaves statements that this thread passes to `spark.sql` within the context to Spark, even in an enabled
    session."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def runs_statements(spark: SparkSession) -> bool:
    """Returns whether hudi-py runs those statements of `spark.sql` that concern Hudi tables."""
    return not _plain.get() and is_enabled(spark)


def note_table(spark: SparkSession, name: str, table: SqlTable) -> None:
    """Records a table. `name` is qualified, in lower case."""
    with lock:
        _tables.setdefault(spark, {})[name] = table


def forget_table(spark: SparkSession, name: str) -> None:
    with lock:
        _tables.get(spark, {}).pop(name, None)


def noted_tables(spark: SparkSession) -> dict[str, SqlTable]:
    """Returns tables by qualified name in lower case. The catalog may have another table of that name by now."""
    with lock:
        return dict(_tables.get(spark, {}))
