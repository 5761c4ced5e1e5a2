"""The sessions for which `enable` was called, and the tables that `register_sql` made in each session."""

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
    """What `register_sql` put into the catalog."""

    text: str
    """The query of the view."""
    path: str
    options: Mapping[str, str]


lock = threading.RLock()
"""Held while the sessions, the tables or PySpark's classes change."""
_sessions: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""With the names of the format, in lower case."""
_tables: WeakKeyDictionary[SparkSession, dict[str, SqlTable]] = WeakKeyDictionary()


def is_enabled(spark: SparkSession) -> bool:
    with lock:
        return spark in _sessions


def set_enabled(spark: SparkSession, *names: str) -> None:
    """`names`: of the format, besides those that the session has already."""
    with lock:
        _sessions.setdefault(spark, set()).update(name.lower() for name in names)


def set_disabled(spark: SparkSession) -> int:
    """Returns how many sessions are still enabled."""
    with lock:
        _sessions.pop(spark, None)
        return len(_sessions)


def is_own_format(spark: SparkSession, name: str) -> bool:
    """Whether an enabled session knows our format by this name."""
    with lock:
        return name.lower() in _sessions.get(spark, ())


_plain: ContextVar[bool] = ContextVar("_plain", default=False)


@contextmanager
def statements_are_sparks() -> Iterator[None]:
    """Statements that this thread gives to `spark.sql` in the context are Spark's, also in an enabled session."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def runs_statements(spark: SparkSession) -> bool:
    """Whether hudi-py runs those statements of `spark.sql` that concern Hudi tables."""
    return not _plain.get() and is_enabled(spark)


def note_table(spark: SparkSession, name: str, table: SqlTable) -> None:
    """`name`: qualified, in lower case."""
    with lock:
        _tables.setdefault(spark, {})[name] = table


def forget_table(spark: SparkSession, name: str) -> None:
    with lock:
        _tables.get(spark, {}).pop(name, None)


def noted_tables(spark: SparkSession) -> dict[str, SqlTable]:
    """By qualified name in lower case. The catalog may have another table of that name since."""
    with lock:
        return dict(_tables.get(spark, {}))
