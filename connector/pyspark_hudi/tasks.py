"""Runs a planned read in Spark's Python workers without the data source.

Spark starts a new Python process for each step of planning a Python source: one for its schema, one for its partitions.
A read that this process has planned needs neither.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_py.errors import first_line
from pyspark_hudi.reader import HudiPartition, HudiReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""As PySpark names it to servers."""
_BYTES_OF_AN_ID = 64
_MAX_IDS = 1 << 20
"""Ids of a task, so that they cost little beside the files."""


def is_classic(spark: SparkSession) -> bool:
    """Whether Spark's driver runs beside this process, in the same environment: not behind Spark Connect."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def rows_of(
    spark: SparkSession, reader: HudiReader, schema: StructType, partitions: Sequence[HudiPartition] | None = None
) -> DataFrame:
    """The rows that the reader reads: a task for each of its partitions (or of those given), in the workers that Spark
    keeps."""
    partitions = reader.partitions() if partitions is None else partitions
    tasks = [pickle.dumps(partition) for partition in partitions]
    volume = sum(split.size for partition in partitions for split in partition.splits)
    # Catalyst estimates sizes from the number of ids, and broadcasts what seems small; Python gets the first of a task
    ids = min(max(volume // len(tasks) // _BYTES_OF_AN_ID, 1), _MAX_IDS)

    def hudi_py(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _read(reader, tasks, ids, batches)

    first = spark.range(0, len(tasks) * ids, 1, len(tasks)).where(f"id % {ids} = 0")
    return in_tasks(first, hudi_py, schema)


def in_tasks(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """The rows that a function makes of the batches of each task.

    Raises:
        ImportError: pandas, which PySpark needs to call functions over Arrow batches, is missing.
    """
    try:
        made = frame.mapInArrow(function, schema)
    except ImportError as error:
        raise without_pandas(error) from None
    if not is_classic(frame.sparkSession):
        _say_python(made)
    return made


server_pythons: dict[str, str] = {}
"""The Python of each Spark Connect server that has answered a call, by session: `3.11`."""


def _say_python(frame: DataFrame) -> None:
    """Let a server of another Python run a function that `mapInArrow` was given. PySpark refuses those, because the
    code of functions does not fit; but these are of modules that the server has, and their names are pickled alone."""
    session: Any = frame.sparkSession
    version = server_pythons.get(session.session_id)
    if version is not None and version != PYTHON:
        plan: Any = frame
        with contextlib.suppress(AttributeError):  # another PySpark, which refuses then
            plan._plan._function._function._python_ver = version


def without_pandas(error: ImportError) -> ImportError:
    """Says what brings pandas where PySpark misses it."""
    return ImportError(
        f"PySpark needs pandas to run hudi-py in its tasks ({first_line(error)}): pip install 'hudi-py[spark]', which "
        f"brings it, or 'pandas>=2.2.2,<3', for {sys.executable}"
    )


def _read(
    reader: HudiReader, tasks: Sequence[bytes], ids: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of the task to which the ids of the batches belong."""
    _settle()
    numbers = {batch.column(0)[0].as_py() // ids for batch in batches if batch.num_rows}
    for number in numbers:
        partition = pickle.loads(tasks[number])
        assert isinstance(partition, HudiPartition)
        yield from reader.read(partition)


@functools.cache
def _settle() -> None:
    """Exempt what this process has loaded from garbage collection. Spark's workers run a full collection after each
    task, which otherwise takes as long as decoding a megabyte of logs (50 ms)."""
    gc.collect()
    gc.freeze()
