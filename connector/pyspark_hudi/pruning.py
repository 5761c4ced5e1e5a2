"""Lets Catalyst leave out parts of what Python reads, by conditions on partition columns.

Spark passes no condition to Python. But it optimizes a part of a union away if the conditions of a query contradict
what the part says of its own columns: a constant in place of the column, or bounds of its values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from hudi_py.read import Split
from pyspark_hudi.condition import spark_literal
from pyspark_hudi.reader import HudiPartition, HudiReader
from pyspark_hudi.tasks import rows_of
from pyspark_hudi.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_MOST_PARTS = 32
"""Parts of a union: Catalyst takes a few milliseconds for each."""


@dataclass(frozen=True)
class _Facts:
    """What all rows of some tasks have in common, as SQL."""

    constants: dict[str, str]
    """Columns with the only value they hold."""
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
                bounds.append(f"{quoted(name)} >= {low} AND {quoted(name)} <= {high}")
        return cls(constants, tuple(bounds))

    def __bool__(self) -> bool:
        return bool(self.constants or self.bounds)

    def stated(self, frame: DataFrame) -> DataFrame:
        """The frame, so that Catalyst knows it too."""
        # not conditions, of which Catalyst does not see that others contradict them, such as IN; and an IF, so that the
        # column may be null, as any column of Spark's file sources
        texts = {name: f"IF({value} IS NULL, NULL, {value})" for name, value in self.constants.items()}
        frame = frame.withColumns({name: expr(text) for name, text in texts.items()}) if texts else frame
        return frame.where(" AND ".join(self.bounds)) if self.bounds else frame


def known_columns(splits: Sequence[Split]) -> tuple[str, ...]:
    """The columns of which each of the splits has a known value."""
    names = [[name for name, _ in split.known_values] for split in splits]
    return tuple(name for name in names[0] if all(name in each for each in names)) if names else ()


def parts_of(spark: SparkSession, reader: HudiReader, schema: StructType) -> DataFrame:
    """As `rows_of`; Catalyst leaves out tasks for which a condition on columns with known values is false."""
    tasks = reader.partitions()
    step = -(-len(tasks) // _MOST_PARTS)
    parts = [tasks[start : start + step] for start in range(0, len(tasks), step)]
    facts = [_Facts.of(part, schema.names) for part in parts]
    both = list(zip(parts, facts, strict=True))
    frames = [found.stated(rows_of(spark, reader, schema, part)) for part, found in both if found]
    unknown = [task for part, found in both if not found for task in part]
    if unknown:
        frames.append(rows_of(spark, reader, schema, unknown))
    return reduce(lambda first, second: first.union(second), frames)
