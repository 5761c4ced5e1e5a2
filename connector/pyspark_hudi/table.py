"""`read_table`: Spark's own Parquet reader reads base files; Python reads the rows that logs add, and other files.

A join removes the rows of base files that logs replace or delete. Catalyst thus sees Parquet files: it prunes columns,
and pushes filters down to row groups.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from hudi_py.config import SECRET_KEYS, SECRET_PREFIX, STORAGE_PREFIX, Options, Scope
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, HistoryCleanedError, HudiError, first_line
from hudi_py.read import CHUNK_ROWS, Pinned, PlanPin, have_distinct_hashes
from hudi_py.schema import backticked
from pyspark_hudi.counting import Counting, counted
from pyspark_hudi.failure import raised_here
from pyspark_hudi.native import NativePlan
from pyspark_hudi.paths import checked_path
from pyspark_hudi.pruning import Parts, known_columns, matching, parts_of, with_parts
from pyspark_hudi.reader import HudiReader, ReplacedReader
from pyspark_hudi.seen import marked
from pyspark_hudi.tasks import is_classic, rows_of
from pyspark_hudi.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

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
"""Maximum number of files that a reader looks up in the driver (default of
`spark.sql.sources.parallelPartitionDiscovery.threshold`). For more it starts a job with up to one task per file, which
takes several times as long."""
_MAX_READERS = 160
"""Maximum number of such readers in a plan: planning each takes time as well, so that the job pays for more files."""
_LISTED_BY_A_JOB = 10_000
"""Files per reader if there are more: no argument list grows with the table."""
_LISTED_BY_A_TASK = 256
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""Tasks of a listing. Spark's default is up to 10,000, each for a file or two; Spark Connect, which lists at each use,
keeps that."""
_FILE, _CHUNK, _ROW, _BITS, _KEY = (f"__hudi_py_{name}" for name in ("file", "chunk", "row", "bits", "key"))
"""Columns of the join that removes replaced rows, with names that no table uses."""
_CHUNK_BITS = 23
_PACKED = f"(xxhash64({{}}) & {-1 << _CHUNK_BITS}L) | {{}}"
"""File and chunk packed into a long, by which Spark's join is several times as fast as by a name and a number."""
_NAME, _NUMBER = "_metadata.file_name", f"shiftright(_metadata.row_index, {CHUNK_ROWS.bit_length() - 1})"
_ROW_ID = (
    f"{_NAME} AS {_FILE}",
    f"{_NUMBER} AS {_CHUNK}",
    f"CAST(_metadata.row_index & {CHUNK_ROWS - 1} AS INT) AS {_ROW}",
)
_PACKED_ID = (f"{_PACKED.format(_NAME, _NUMBER)} AS {_KEY}", _ROW_ID[-1])
"""As `_ROW_ID`, for files with distinct hashes."""
_REPLACED = StructType(
    [StructField(_FILE, StringType()), StructField(_CHUNK, LongType()), StructField(_BITS, ArrayType(LongType()))]
)
"""The columns of `hudi_py.read.REPLACED_SCHEMA`."""
_IS_KEPT = f"{_BITS} IS NULL OR bit_get(get({_BITS}, shiftright({_ROW}, 6)), {_ROW} & 63) = 0"
_OF_SESSION = ("hoodie.", "spark.hoodie.")
OF_SQL = ("hoodie.spark.sql.", "hoodie.sql.")
"""Options of statements, not of reads and writes."""
_listing = threading.Lock()
_BROADCAST_BYTES = 8 << 30
"""Maximum size of files with logs that are joined by broadcast: a row takes about a bit. Above it, Spark's planner
decides."""


def read_table(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Reads the rows of `spark.read.format("hudi-py").load(path)` in the fastest way.

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
    path = os.fspath(path)
    given = option_texts(options or {})
    if read_config.VIEW.key in given:
        raise ConfigError(
            "Cannot read a view of a table by read_table; use spark.read.format('hudi-py').option('view')"
        )
    if columns is not None:
        _put(given, read_config.COLUMNS.key, ", ".join(backticked(name) for name in columns), "columns")
    if filter is not None:
        if not isinstance(filter, str) or not filter.strip():
            raise ConfigError(
                f"Cannot read {path} with the filter {filter!r}; supported: a condition as text, like 'fare > 10'. "
                "Spark's own conditions go to where() on the result"
            )
        _put(given, read_config.FILTER.key, filter, "filter")
    if not is_classic(spark):
        with _cleaned_since(path):
            row, sources = _by_source(spark, path, given)
            frame = _BaseFiles.of(spark, row).with_others(sources)
            frame = marked(frame, path, PlanPin.decode(row["pin"]))
            # the server looks the files up now, and caches them
            frame.schema  # noqa: B018
        return frame
    resolved = Options.resolve(given, Scope.READ)
    plan = NativePlan.of(checked_path(path, "read"), resolved)
    rest = plan.rest()
    known = [name for split in rest.splits for name, _ in split.known_values]
    with _cleaned_since(path):
        base = _BaseFiles.of(spark, plan.row())
        state = plan.planned.state

        @functools.lru_cache(maxsize=1)
        def parts(condition: str | None) -> DataFrame:
            some = rest if condition is None else matching(rest, condition)
            return marked(base.with_others(_in_parts(spark, some, resolved)), path, state)

        if base.native is None and base.merged is None and known:
            frame = parts(None)
        else:
            frame = marked(base.with_others(_in_tasks(spark, rest, resolved)), path, state)
            frame = with_parts(frame, Parts(frozenset(map(str.lower, known)), parts)) if known else frame
    return counted(frame, Counting(spark, plan.all_splits(), resolved))


def read_or(
    spark: SparkSession, path: str, options: Mapping[str, str], plain: Callable[[], Result]
) -> DataFrame | Result:
    """Runs `read_table`; if it fails, falls back to the plain format, whose error is raised if there is one. Warns that
    the plain format is used, and why."""
    try:
        return read_table(spark, path, options=options)
    except (HudiError, PySparkException, OSError, ImportError) as error:
        try:
            frame = plain()
        except PySparkException as failed:
            raise failed from None  # it says the same, after the traceback of a Spark process
        _log.warning("%s is read by the plain format, which takes longer: %s", path, first_line(error))
        return frame


def read_plain(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """Reads the table in the plain format, with its current columns."""
    return spark.read.format(FORMAT).options(**{**options, read_config.NATIVE.key: "never"}).load(path)


def session_options(spark: SparkSession) -> dict[str, str]:
    """Returns the read options of a session: `hoodie...`, and `spark.hoodie...`, which the former override. `df.write`
    uses neither (Apache Hudi 1.2.0)."""
    settings: Mapping[str, Any] = spark.conf.getAll
    named = {key: str(settings[key]) for key in sorted(settings, reverse=True) if key.startswith(_OF_SESSION)}
    plain = {key.removeprefix("spark."): value for key, value in named.items()}
    return {key: value for key, value in plain.items() if not key.startswith(OF_SQL)}


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Converts options to Spark's form: keys in lower case, values as text, without None."""
    return {
        str(key).lower(): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


def of_storage(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns storage options and secrets, by keys whose values Spark does not show."""
    stored = {key: value for key, value in options.items() if key.lower().startswith(STORAGE_PREFIX)}
    hidden = {key.lower(): value for key, value in options.items() if key.lower() in SECRET_KEYS}
    return {**stored, **{f"{SECRET_PREFIX}{key}": value for key, value in hidden.items()}}


@dataclass(frozen=True)
class _ReadSources:
    """The DataFrames that Python reads in a planned read."""

    replaced: Callable[[], DataFrame]
    """Returns which rows of base files the logs replace or delete."""
    rest: Callable[[], DataFrame]
    """Returns the other rows."""
    keys: Sequence[str] = ()
    """Partition columns that `replaced` has too, with the base file's values."""


def _in_tasks(spark: SparkSession, rest: Pinned, options: Options) -> _ReadSources:
    return _ReadSources(
        lambda: rows_of(spark, ReplacedReader(rest, options, _REPLACED), _REPLACED),
        lambda: rows_of(spark, HudiReader(rest, options, spark_schema(rest.schema)), spark_schema(rest.schema)),
    )


def _in_parts(spark: SparkSession, rest: Pinned, options: Options) -> _ReadSources:
    """Reads the same rows in branches, which conditions on columns with known values can prune."""
    schema = spark_schema(rest.schema)
    keys = known_columns([split for split in rest.splits if split.without_base])
    marked = StructType([*_REPLACED, *(schema[name] for name in keys)])
    return _ReadSources(
        lambda: parts_of(spark, ReplacedReader(rest, options, marked, keys), marked),
        lambda: parts_of(spark, HudiReader(rest, options, schema), schema),
        keys,
    )


@contextmanager
def _cleaned_since(path: str) -> Iterator[None]:
    """Explains why a file is missing that Spark's reader does not find."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise HistoryCleanedError(
            f"A base file of {path} was cleaned since this read was planned ({first_line(error)}); re-create the "
            "DataFrame"
        ) from error


def _by_source(spark: SparkSession, path: str, given: Mapping[str, str]) -> tuple[Mapping[str, Any], _ReadSources]:
    with raised_here():
        plan = _source(spark, {**given, read_config.VIEW.key: "plan"}).load(path).collect()[0].asDict()
    if plan["note"] is not None:  # the server has logged it, far from here
        _log.warning("reading %s: %s", path, plan["note"])
    pinned = {**given, read_config.PIN.key: plan["other_pin"]}
    marks = {**pinned, read_config.REPLACED.key: "true"}
    return plan, _ReadSources(
        lambda: _source(spark, marks).schema(_REPLACED).load(path),
        lambda: _source(spark, pinned).load(path),
    )


@dataclass(frozen=True)
class _BaseFiles:
    """The rows of base files, read by Spark's own reader."""

    plan: Mapping[str, Any]
    """The members of `PLAN_SCHEMA` for these files."""
    native: DataFrame | None
    """Rows of the files that hold the table's rows."""
    merged: DataFrame | None
    """Rows of the files that have logs, with their position."""

    @classmethod
    def of(cls, spark: SparkSession, plan: Mapping[str, Any]) -> _BaseFiles:
        """Reads the base files. `plan` is one row of `PLAN_SCHEMA`."""
        native = merged = None
        if plan["native_files"]:
            names = [field["name"] for field in json.loads(plan["native_schema"])["fields"]]
            native = _rows(_parquet(spark, plan, "native_files"), plan, more_columns=names != plan["columns"])
        if plan["merged_files"]:
            place = _PACKED_ID if _have_keys(plan["merged_files"]) else _ROW_ID
            merged = _parquet(spark, plan, "merged_files", *place)
        return cls(plan, native, merged)

    def with_others(self, sources: _ReadSources) -> DataFrame:
        """Returns all rows. If there are base files, the columns are theirs."""
        frames = [] if self.native is None else [self.native]
        if self.merged is not None:
            few = self.plan["merged_bytes"] <= _BROADCAST_BYTES
            kept = _without(self.merged, sources.replaced(), sources.keys, few=few)
            frames.append(_rows(kept, self.plan, more_columns=True))
        if self.merged is not None or self.plan["other_splits"] or not frames:
            frames.append(sources.rest())
        return _union(frames)


def _have_keys(files: Sequence[str]) -> bool:
    """Returns whether no two files share a packed key."""
    return have_distinct_hashes([file.rpartition("/")[2] for file in files], 64 - _CHUNK_BITS)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda first, second: first.union(second), frames)


def _source(spark: SparkSession, options: Mapping[str, str]) -> DataFrameReader:
    return spark.read.format(FORMAT).options(**options)


def _parquet(spark: SparkSession, plan: Mapping[str, Any], files: str, *more: str) -> DataFrame:
    """Reads the base files in the plan's column `files` with Spark's own reader, adding columns (SQL)."""
    schema = StructType.fromJson(json.loads(plan["native_schema"]))
    paths = plan[files]
    reader = spark.read.schema(schema).options(**_EXACTLY)

    def read(step: int) -> DataFrame:
        parts = (paths[start : start + step] for start in range(0, len(paths), step))
        frames = [reader.parquet(*part) for part in parts]
        return _union([frame.selectExpr("*", *more) for frame in frames] if more else frames)

    if len(paths) <= _MAX_READERS * _LISTED_AT_ONCE:
        return read(_LISTED_AT_ONCE)
    with _listing_tasks(spark, -(-_LISTED_BY_A_JOB // _LISTED_BY_A_TASK)):
        return read(_LISTED_BY_A_JOB)


@contextmanager
def _listing_tasks(spark: SparkSession, number: int) -> Iterator[None]:
    """Limits the jobs in which readers created within the context list their files to that many tasks."""
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
    """Removes the rows of base files that logs replace or delete.

    Args:
        keys: columns that are equal for equal files: what Catalyst knows of them on one side, it infers for the other.
    """
    names = [_FILE, _CHUNK]
    if _KEY in frame.columns:
        names = [_KEY]
        replaced = replaced.selectExpr(f"{_PACKED.format(_FILE, _CHUNK)} AS {_KEY}", _BITS, *map(backticked, keys))
    # not an anti-join, which Catalyst would repeat for each branch of the union
    joined = frame.join(replaced.hint("broadcast") if few else replaced, [*names, *keys], "left_outer")
    return joined.where(_IS_KEPT)


def _rows(frame: DataFrame, plan: Mapping[str, Any], *, more_columns: bool) -> DataFrame:
    """Selects the rows that satisfy the plan's condition, with the columns to return.

    Args:
        more_columns: whether the frame has other columns, or another order: Spark analyses the plan for each step.
    """
    if plan["native_condition"] is not None:
        frame = frame.where(plan["native_condition"])
    return frame.select(*(backticked(name) for name in plan["columns"])) if more_columns else frame


def _put(given: dict[str, str], key: str, value: str, name: str) -> None:
    if key in given and given[key] != value:
        raise ConfigError(f"{name}={value!r} contradicts the option {key}={given[key]!r}; give one of them")
    given[key] = value
