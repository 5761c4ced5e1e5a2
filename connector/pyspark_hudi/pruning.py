"""Lets Catalyst prune parts of what Python reads, by conditions on partition columns.

Spark passes no condition to Python. But it optimizes a branch of a union away if the conditions of a query contradict
what the branch says about its columns: a constant instead of the column, or bounds of its values. Planning the branches
takes time for each query, so only queries that may have such conditions read them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import compress
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import expr

from hudi_py.errors import HudiError
from hudi_py.expressions import parse_filter
from hudi_py.read import Pinned, Split
from hudi_py.schema import backticked
from pyspark_hudi.condition import spark_condition, spark_literal
from pyspark_hudi.reader import HudiPartition, HudiReader
from pyspark_hudi.tasks import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    _Base: Any = object
else:
    _Base = object

_MAX_PARTS = 32
"""Maximum number of branches of a union: building each takes 40 milliseconds, mostly calls of the JVM."""
_QUOTES = frozenset('"\\')
"""Characters whose meaning in a condition depends on the session."""


@dataclass(frozen=True)
class _Facts:
    """What all rows of some tasks have in common, as SQL."""

    constants: dict[str, str]
    """Columns with their only value."""
    bounds: tuple[str, ...]
    """Conditions that are true for all rows."""

    @classmethod
    def of(cls, tasks: Sequence[HudiPartition], columns: Collection[str]) -> _Facts:
        splits = [split for task in tasks for split in task.splits]
        constants: dict[str, str] = {}
        bounds: list[str] = []
        for name in known_columns(splits):
            values = [value for split in splits for column, value in split.known_values if column == name]
            low, high = (spark_literal(pick(values, key=lambda value: value.as_py())) for pick in (min, max))
            if name not in columns or low is None or high is None:
                continue
            if low == high:
                constants[name] = low
            else:
                bounds.append(f"{backticked(name)} >= {low} AND {backticked(name)} <= {high}")
        return cls(constants, tuple(bounds))

    def __bool__(self) -> bool:
        return bool(self.constants or self.bounds)

    def stated(self, frame: DataFrame) -> DataFrame:
        """Returns the frame with these facts, so that Catalyst knows them too."""
        # not conditions, whose contradictions Catalyst does not see, such as IN; and an IF, so that the column may be
        # null, as any column of Spark's file sources
        texts = {name: f"IF({value} IS NULL, NULL, {value})" for name, value in self.constants.items()}
        frame = frame.withColumns({name: expr(text) for name, text in texts.items()}) if texts else frame
        return frame.where(" AND ".join(self.bounds)) if self.bounds else frame


def known_columns(splits: Sequence[Split]) -> tuple[str, ...]:
    """Returns the columns for which each split has a known value."""
    names = [[name for name, _ in split.known_values] for split in splits]
    return tuple(name for name in names[0] if all(name in item for item in names)) if names else ()


def matching(pinned: Pinned, condition: str) -> Pinned:
    """Returns the read without splits whose known values show that no row satisfies a condition; the whole read if
    Spark may understand the condition differently. Catalyst then gets fewer branches."""
    if not _QUOTES.isdisjoint(condition):
        return pinned
    try:
        filter_ = parse_filter(condition, pinned.spec.table_schema)
    except HudiError:  # Spark reports it better
        return pinned
    if filter_ is None or spark_condition(filter_) is None:
        return pinned
    kept = filter_.may_match([dict(split.known_values) for split in pinned.splits])
    return replace(pinned, splits=tuple(compress(pinned.splits, kept)))


def parts_of(spark: SparkSession, reader: HudiReader, schema: StructType) -> DataFrame:
    """Reads as `rows_of`; Catalyst prunes tasks for which a condition on columns with known values is false."""
    tasks = reader.partitions()
    step = -(-len(tasks) // _MAX_PARTS)
    parts = [tasks[start : start + step] for start in range(0, len(tasks), step)]
    facts = [_Facts.of(part, schema.names) for part in parts]
    both = list(zip(parts, facts, strict=True))
    frames = [item.stated(rows_of(spark, reader, schema, part)) for part, item in both if item]
    unknown = [task for part, item in both if not item for task in part]
    if unknown:
        frames.append(rows_of(spark, reader, schema, unknown))
    return reduce(lambda first, second: first.union(second), frames)


@dataclass(frozen=True)
class Parts:
    """A read that Catalyst can prune, to replace a DataFrame of the same rows that is quicker without conditions."""

    columns: frozenset[str]
    """Columns with known values, in lower case."""
    made: Callable[[str | None], DataFrame]
    """Builds rows and columns that equal the other DataFrame's, also by their ids, so that references to one fit the
    other. Given a condition in Spark SQL, builds only the branches that may hold rows for which it is true; None:
    all."""
    of: DataFrame | None = None
    """The DataFrame of the whole read, which is not replaced if it is cached; None for the one with these parts."""


class _WithParts(_Base):  # type: ignore[misc]
    """A PySpark DataFrame that reads in branches if a condition may prune some, now or later."""

    _hudi_py_parts: Parts

    def filter(self, condition: Any) -> Any:
        parts = self._hudi_py_parts
        text = str(condition).lower()
        if any(name in text for name in parts.columns) and not self._is_cached():
            return parts.made(condition if isinstance(condition, str) else None).filter(condition)
        return self._kept("filter", condition)

    def select(self, *columns: Any) -> Any:
        names = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
        return (
            self._kept("select", *columns)
            if all(isinstance(name, str) for name in names)
            else self._other("select", *columns)
        )

    def drop(self, *columns: Any) -> Any:
        return self._kept("drop", *columns)

    def alias(self, alias: str) -> Any:
        return self._kept("alias", alias)

    def selectExpr(self, *expressions: Any) -> Any:  # noqa: N802
        return self._other("selectExpr", *expressions)

    def withColumn(self, colName: str, col: Any) -> Any:  # noqa: N802, N803
        return self._other("withColumn", colName, col)

    def withColumns(self, *colsMap: Any) -> Any:  # noqa: N802, N803
        return self._other("withColumns", *colsMap)

    def withColumnRenamed(self, existing: str, new: str) -> Any:  # noqa: N802
        return self._other("withColumnRenamed", existing, new)

    def join(self, *arguments: Any, **named: Any) -> Any:
        return self._other("join", *arguments, **named)

    def createTempView(self, name: str) -> None:  # noqa: N802
        self._chosen().createTempView(name)

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802
        self._chosen().createOrReplaceTempView(name)

    def createGlobalTempView(self, name: str) -> None:  # noqa: N802
        self._chosen().createGlobalTempView(name)

    def createOrReplaceGlobalTempView(self, name: str) -> None:  # noqa: N802
        self._chosen().createOrReplaceGlobalTempView(name)

    def _chosen(self) -> Any:
        """Returns the DataFrame for queries that may have conditions."""
        return super() if self._is_cached() else self._hudi_py_parts.made(None)

    def _kept(self, method: str, *arguments: Any) -> Any:
        """Wraps a method that keeps columns as they are."""
        parts, frame = self._hudi_py_parts, getattr(super(), method)(*arguments)
        if not self._may_be_pruned(frame):
            return frame

        def made(condition: str | None) -> DataFrame:
            result: DataFrame = getattr(parts.made(condition), method)(*arguments)
            return result

        return with_parts(frame, Parts(parts.columns, made, parts.of or self))

    def _other(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Wraps a method that makes new columns."""
        frame = getattr(super(), method)(*arguments, **named)
        if not self._may_be_pruned(frame):
            return frame
        return getattr(self._hudi_py_parts.made(None), method)(*arguments, **named)

    def _may_be_pruned(self, frame: DataFrame) -> bool:
        known = self._hudi_py_parts.columns
        return not known.isdisjoint(map(str.lower, frame.columns)) and not self._is_cached()

    def _is_cached(self) -> bool:
        whole = self._hudi_py_parts.of
        levels = [item.storageLevel for item in (self, whole) if item is not None]
        return any(level.useMemory or level.useDisk for level in levels)


@functools.cache
def _parts_class(kind: Any) -> type:
    return type(kind.__name__, (_WithParts, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def with_parts(frame: DataFrame, parts: Parts) -> DataFrame:
    """Returns the DataFrame, which is read instead of the parts if conditions do not matter."""
    pruned: Any = frame
    pruned.__class__ = _parts_class(pruned.__class__)
    pruned._hudi_py_parts = parts
    return frame
