"""`read_table`: Spark's own Parquet reader reads base files; Python reads what logs add, and other files.

A join leaves out the rows of base files that logs replace or delete. Catalyst thus sees Parquet files: it prunes
columns, and pushes filters down to row groups.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from hudi_py.config import Options, Scope
from hudi_py.config import read as read_config
from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError, HistoryCleanedError, HudiError, first_line
from hudi_py.read import CHUNK_ROWS
from pyspark_hudi.counting import Counting, counted
from pyspark_hudi.failure import raised_here
from pyspark_hudi.native import NativePlan
from pyspark_hudi.paths import checked_path
from pyspark_hudi.pruning import known_columns, parts_of
from pyspark_hudi.reader import HudiReader, ReplacedReader
from pyspark_hudi.tasks import is_classic
from pyspark_hudi.types import quoted, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_log = logging.getLogger(__name__)

FORMAT = "hudi-py"

_EXACTLY = {
    # folder names are not partition columns, and every file must exist
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # as hudi-py does
    "parquet.page.verify-checksum.enabled": "true",
}
"""Options of Spark's Parquet reader that override the session's."""
_LISTED_AT_ONCE = 32
"""Files that a reader looks up in the driver (default of `spark.sql.sources.parallelPartitionDiscovery.threshold`): for
more it starts a job with up to a task for each, which takes several times as long."""
_MOST_READERS = 160
"""Maximum number of such readers in a plan: planning each takes time as well, so that the job pays for more files."""
_LISTED_BY_A_JOB = 10_000
"""Files of a reader where there are more: no argument list grows with the table."""
_LISTED_BY_A_TASK = 256
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""By default 10,000 at most, each for a file or two (on Spark Connect, which lists at each use, it stays so)."""
_FILE, _CHUNK, _ROW, _BITS = (f"__hudi_py_{name}" for name in ("file", "chunk", "row", "bits"))
"""Columns of the join that leaves out replaced rows, by names that no table has."""
_ROW_ID = (
    f"_metadata.file_name AS {_FILE}",
    f"shiftright(_metadata.row_index, {CHUNK_ROWS.bit_length() - 1}) AS {_CHUNK}",
    f"CAST(_metadata.row_index & {CHUNK_ROWS - 1} AS INT) AS {_ROW}",
)
_REPLACED = StructType(
    [StructField(_FILE, StringType()), StructField(_CHUNK, LongType()), StructField(_BITS, ArrayType(LongType()))]
)
"""The columns of `hudi_py.read.REPLACED_SCHEMA`."""
_IS_KEPT = f"{_BITS} IS NULL OR bit_get(get({_BITS}, shiftright({_ROW}, 6)), {_ROW} & 63) = 0"
_listing = threading.Lock()
_BROADCAST_BYTES = 8 << 30
"""Files with logs of up to this size are joined by broadcast: a row takes a bit. Spark's planner decides beyond."""


def read_table(
    spark: SparkSession,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the rows of `spark.read.format("hudi-py").load(path)` in the fastest way.

    Spark's own Parquet reader reads base files that hold rows exactly as the table shows them, so that it reads only
    the columns a query uses, and pushes its conditions down. Python reads what logs add to them, and other files; the
    view `splits` shows which, and why. Both see the table as it is now, and the DataFrame keeps that state, on Spark
    Connect too. Rows are in no particular order.

    This process plans the table; behind Spark Connect, Spark's driver does.

    Args:
        path: the table's base path, absolute or a URI, as Spark's driver and executors see it.
        columns: columns to read, in the order of the result; None: all.
        filter: a condition in the data source's subset of Spark SQL; rows for which it is true are returned. Times
            without a zone are in UTC, not in the session's zone.
        options: options of `spark.read`, by the keys of Apache Hudi.

    Raises:
        ConfigError: `columns` or `filter` contradict `options`, or the filter is empty or not text.
        HudiError: the errors of planning a scan with `hudi_py.Table`.
        HistoryCleanedError: a file was cleaned during this call.
        pyspark.errors.PySparkException: Spark failed.
    """
    given = option_texts(options or {})
    if spark_config.VIEW.key in given:
        raise ConfigError(
            "Cannot read a view of a table by read_table; use spark.read.format('hudi-py').option('view')"
        )
    if columns is not None:
        _put(given, read_config.COLUMNS.key, ", ".join(quoted(name) for name in columns), "columns")
    if filter is not None:
        if not isinstance(filter, str) or not filter.strip():
            raise ConfigError(
                f"Cannot read {path} with the filter {filter!r}; supported is a condition as text, like 'fare > 10'. "
                "Spark's own conditions go to where() on the result"
            )
        _put(given, read_config.FILTER.key, filter, "filter")
    if not is_classic(spark):
        with _cleaned_since(path):
            frame = _union(list(_frames(spark, _by_source(spark, path, given))))
            # the server looks for the files now, and remembers them
            frame.schema  # noqa: B018
        return frame
    resolved = Options.resolve(given, Scope.READ)
    plan = NativePlan.of(checked_path(path, "read"), resolved)
    with _cleaned_since(path):
        frame = _union(list(_frames(spark, _in_tasks(spark, plan, resolved))))
    return counted(frame, Counting(spark, plan.all_splits(), resolved))


def read_if_native(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame | None:
    """`read_table`; None if it fails: the plain format then reads the table, or raises an error in its own way."""
    try:
        return read_table(spark, path, options=options)
    except (HudiError, PySparkException, OSError, ImportError) as error:
        _log.info("%s is read by the plain format: %s", path, first_line(error))
        return None


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark takes them: by keys in lower case, values as text, and none that is None."""
    return {
        str(key).lower(): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


@dataclass(frozen=True)
class _Sources:
    """The parts of a planned read."""

    plan: Mapping[str, Any]
    """The members of `PLAN_SCHEMA` that concern Spark's reader."""
    replaced: Callable[[], DataFrame]
    """Which rows of its files the logs replace or delete."""
    rest: Callable[[], DataFrame]
    """The rows that Python reads."""
    keys: Sequence[str] = ()
    """Partition columns that `replaced` has too: those of the base file."""


def _in_tasks(spark: SparkSession, plan: NativePlan, options: Options) -> _Sources:
    rest = plan.rest()
    schema = spark_schema(rest.schema)
    keys = known_columns([split for split in rest.splits if split.without_base])
    marked = StructType([*_REPLACED, *(schema[name] for name in keys)])
    return _Sources(
        plan.row(),
        lambda: parts_of(spark, ReplacedReader(rest, options, marked, keys), marked),
        lambda: parts_of(spark, HudiReader(rest, options, schema), schema),
        keys,
    )


@contextmanager
def _cleaned_since(path: str) -> Iterator[None]:
    """Says of a file that Spark's reader does not find why it is gone."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise HistoryCleanedError(
            f"A base file of {path} was cleaned since this read was planned ({first_line(error)}); re-create the "
            "DataFrame"
        ) from error


def _by_source(spark: SparkSession, path: str, given: Mapping[str, str]) -> _Sources:
    with raised_here():
        plan = _source(spark, {**given, spark_config.VIEW.key: "plan"}).load(path).collect()[0].asDict()
    pinned = {**given, spark_config.PIN.key: plan["other_pin"]}
    marks = {**pinned, spark_config.REPLACED.key: "true"}
    return _Sources(
        plan,
        lambda: _source(spark, marks).schema(_REPLACED).load(path),
        lambda: _source(spark, pinned).load(path),
    )


def _frames(spark: SparkSession, sources: _Sources) -> Iterator[DataFrame]:
    plan = sources.plan
    if plan["native_files"]:
        names = [field["name"] for field in json.loads(plan["native_schema"])["fields"]]
        yield _rows(_parquet(spark, plan, "native_files"), plan, more_columns=names != plan["columns"])
    if plan["merged_files"]:
        merged = _parquet(spark, plan, "merged_files", *_ROW_ID)
        few = plan["merged_bytes"] <= _BROADCAST_BYTES
        yield _rows(_without(merged, sources.replaced(), sources.keys, few=few), plan, more_columns=True)
    if plan["merged_files"] or plan["other_splits"] or not plan["native_files"]:
        yield sources.rest()


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda first, second: first.union(second), frames)


def _source(spark: SparkSession, options: Mapping[str, str]) -> DataFrameReader:
    return spark.read.format(FORMAT).options(**options)


def _parquet(spark: SparkSession, plan: Mapping[str, Any], files: str, *more: str) -> DataFrame:
    """The rows of the base files in the plan's column `files`, by Spark's own reader, with more columns (SQL)."""
    schema = StructType.fromJson(json.loads(plan["native_schema"]))
    paths = plan[files]
    reader = spark.read.schema(schema).options(**_EXACTLY)

    def read(step: int) -> DataFrame:
        parts = (paths[at : at + step] for at in range(0, len(paths), step))
        frames = [reader.parquet(*part) for part in parts]
        return _union([frame.selectExpr("*", *more) for frame in frames] if more else frames)

    if len(paths) <= _MOST_READERS * _LISTED_AT_ONCE:
        return read(_LISTED_AT_ONCE)
    with _listing_tasks(spark, -(-_LISTED_BY_A_JOB // _LISTED_BY_A_TASK)):
        return read(_LISTED_BY_A_JOB)


@contextmanager
def _listing_tasks(spark: SparkSession, number: int) -> Iterator[None]:
    """Readers made within list their files by jobs of that many tasks."""
    with _listing:
        before = spark.conf.get(_LISTING_TASKS, None)
        spark.conf.set(_LISTING_TASKS, number)
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_LISTING_TASKS)
            else:
                spark.conf.set(_LISTING_TASKS, before)


def _without(frame: DataFrame, replaced: DataFrame, keys: Sequence[str], *, few: bool) -> DataFrame:
    """The rows of base files without those that logs replace or delete.

    Args:
        keys: columns that are equal for equal files: what Catalyst knows of them on one side, it infers for the other.
    """
    # not an anti-join, which Catalyst would repeat for each reader of the union
    joined = frame.join(replaced.hint("broadcast") if few else replaced, [_FILE, _CHUNK, *keys], "left_outer")
    return joined.where(_IS_KEPT)


def _rows(frame: DataFrame, plan: Mapping[str, Any], *, more_columns: bool) -> DataFrame:
    """The rows that the plan's condition keeps, with the columns to return.

    Args:
        more_columns: whether the frame has other columns, or another order: Spark analyses the plan for each step.
    """
    if plan["native_condition"] is not None:
        frame = frame.where(plan["native_condition"])
    return frame.select(*(quoted(name) for name in plan["columns"])) if more_columns else frame


def _put(given: dict[str, str], key: str, value: str, name: str) -> None:
    if key in given and given[key] != value:
        raise ConfigError(f"{name}={value!r} contradicts the option {key}={given[key]!r}; give one of them")
    given[key] = value
