"""Runs a planned read in Spark's Python workers without the data source.

Spark starts a new Python process for each planning step of a Python source: one for its schema, one for its partitions.
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
"""This Python's version in PySpark's form."""
_BYTES_OF_AN_ID = 64
_MAX_IDS = 1 << 20
"""Maximum number of ids per task, so that they cost little compared with the files."""


def is_classic(spark: SparkSession) -> bool:
    """Returns whether the session is classic: its driver runs in this environment, not behind Spark Connect."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def rows_of(
    spark: SparkSession, reader: HudiReader, schema: StructType, partitions: Sequence[HudiPartition] | None = None
) -> DataFrame:
    """Returns the reader's rows: a task for each of its partitions (or of those given), in the workers that Spark
    keeps."""
    partitions = reader.partitions() if partitions is None else partitions
    tasks = [pickle.dumps(partition) for partition in partitions]
    volume = sum(split.size for partition in partitions for split in partition.splits)
    # Catalyst estimates sizes from the number of ids, and broadcasts what seems small; Python gets the first id of a
    # task
    ids = min(max(volume // len(tasks) // _BYTES_OF_AN_ID, 1), _MAX_IDS)

    def hudi_py(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _read_task(reader, tasks, ids, batches)

    first = spark.range(0, len(tasks) * ids, 1, len(tasks)).where(f"id % {ids} = 0")
    return in_tasks(first, hudi_py, schema)


def in_tasks(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """Applies a function to the batches of each task.

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
"""The Python version of each Spark Connect server that has answered a call, by session: `3.11`."""


def _say_python(frame: DataFrame) -> None:
    """Lets a server with another Python run a function passed to `mapInArrow`. PySpark refuses that, because the code
    of functions does not fit; but these belong to modules that the server has, and only their names are pickled."""
    session: Any = frame.sparkSession
    version = server_pythons.get(session.session_id)
    if version is not None and version != PYTHON:
        plan: Any = frame
        with contextlib.suppress(AttributeError):  # other releases of PySpark will refuse it
            plan._plan._function._function._python_ver = version


def without_pandas(error: ImportError) -> ImportError:
    """Returns the error for missing pandas, with the command that installs it."""
    return ImportError(
        f"PySpark needs pandas to run hudi-py in its tasks ({first_line(error)}): pip install 'hudi-py[spark]', which "
        f"brings it, or 'pandas>=2.2.2,<3', for {sys.executable}"
    )


def _read_task(
    reader: HudiReader, tasks: Sequence[bytes], ids: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of the task to which the ids of the batches belong."""
    _freeze_objects()
    numbers = {batch.column(0)[0].as_py() // ids for batch in batches if batch.num_rows}
    for number in numbers:
        partition = pickle.loads(tasks[number])
        assert isinstance(partition, HudiPartition)
        yield from reader.read(partition)


@functools.cache
def _freeze_objects() -> None:
    """Exempts the objects that this process has loaded from garbage collection. Spark's workers run a full collection
    after each task, which otherwise takes as long as decoding a megabyte of logs (50 ms)."""
    gc.collect()
    gc.freeze()
