"""`count()` of a DataFrame made by `read_table`: reads numbers of rows instead of rows.

Spark would read the rows: Catalyst would ask Python for every column that logs add, and run a join over the rows of
base files. A footer has the number of rows, and merging logs only takes keys.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from hudi_py.config import Options
from hudi_py.errors import HudiError, first_line
from hudi_py.read import Pinned, Split, count_splits, is_counted_by_footer
from pyspark_hudi.reader import HudiPartition, HudiReader
from pyspark_hudi.tasks import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    _Base: Any = object
else:
    _Base = object

_log = logging.getLogger(__name__)

_MAX_FOOTERS = 256
"""Maximum number of footers that the driver reads itself: a Spark job costs as much CPU as hundreds of them."""
_MAX_BYTES = 64 << 20
"""Maximum size of other slices that the driver counts itself; it reads only the keys of base files with logs."""
_THREADS = 4
_COUNTS = StructType([StructField("rows", LongType())])


class CountReader(HudiReader):
    """Reads the number of rows of each task."""

    def __init__(self, pinned: Pinned, options: Options) -> None:
        footers = [split for split in pinned.splits if _by_footer(pinned, split)]
        others = [split for split in pinned.splits if not _by_footer(pinned, split)]
        super().__init__(replace(pinned, splits=tuple(others)), options, _COUNTS)
        steps = range(0, len(footers), _MAX_FOOTERS)
        self._partitions = [part for part in self._partitions if part.splits]
        self._partitions += [HudiPartition(footers[index : index + _MAX_FOOTERS]) for index in steps]

    def _batches(self, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        rows = count_splits(self._spec, splits, self._storage_options)
        yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    def _check_types(self, pinned: Pinned) -> None:
        pass  # the columns are not the table's


@dataclass(frozen=True)
class Counting:
    """Counts the rows of a planned read."""

    spark: SparkSession
    pinned: Pinned
    options: Options

    def rows(self) -> int | None:
        """Counts the rows; None if Spark should raise the error that occurred."""
        pinned, options = self.pinned, self.options
        others = [split for split in pinned.splits if not _by_footer(pinned, split)]
        many = len(pinned.splits) - len(others) > _MAX_FOOTERS or sum(split.size for split in others) > _MAX_BYTES
        logs = pinned.spec.logs
        if many or (logs is not None and logs.merge.merger is not None):  # a user's class runs in tasks only
            counts = rows_of(self.spark, CountReader(pinned, options), _COUNTS)
            return sum(int(row[0]) for row in counts.collect())
        try:
            return count_splits(pinned.spec, pinned.splits, dict(options.storage) or None, threads=_THREADS)
        except (HudiError, OSError, ImportError) as error:
            _log.info("%s is counted by Spark: %s", pinned.spec.uri, first_line(error))
            return None


class _Counted(_Base):  # type: ignore[misc]
    """A PySpark DataFrame that counts from the table's files."""

    _hudi_py: Counting

    def count(self) -> int:
        level = self.storageLevel
        cached = level.useMemory or level.useDisk  # Spark's count fills the cache
        rows = None if cached else self._hudi_py.rows()
        return int(super().count()) if rows is None else rows


@functools.cache
def _counting_class(kind: Any) -> type:
    return type(kind.__name__, (_Counted, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def counted(frame: DataFrame, counting: Counting) -> DataFrame:
    """Returns the DataFrame of a planned read with a `count()` that reads no rows, unless it is cached. DataFrames
    derived from it count as usual, and so does a read with a filter, which is pushed down to Spark's reader."""
    spec = counting.pinned.spec
    if spec.filter is None and spec.keys is None:
        counting_frame: Any = frame
        counting_frame.__class__ = _counting_class(counting_frame.__class__)
        counting_frame._hudi_py = counting
    return frame


def _by_footer(pinned: Pinned, split: Split) -> bool:
    return is_counted_by_footer(replace(split, spec=pinned.spec))
