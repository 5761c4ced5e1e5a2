"""`option("view", ...)`: reports on a table, or on a read of it, as DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.config import spark as spark_config
from hudi_py.read import (
    PlannedScan,
    ReadSpec,
    Split,
    check_columns,
    parse_filter,
    plan_table,
    split_report,
    table_report,
)
from hudi_py.schema import COMMIT_TIME
from hudi_py.services.distributed import call_report, pending_report
from hudi_py.wiring import index_table
from pyspark_hudi.condition import spark_condition
from pyspark_hudi.types import arrow_schema, spark_schema, to_target

_SPARK_READS = frozenset(
    {"file", "hdfs", "viewfs", "s3a", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs"}
)
"""Schemes with the same name in Hadoop's file systems."""
_GLOB = frozenset("{}[]*?\\")
PLAN_SCHEMA = pa.schema(
    [
        ("explain", pa.string()),
        ("pin", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("num_splits", pa.int64()),
        ("native_files", pa.list_(pa.string())),
        ("merged_files", pa.list_(pa.string())),
        ("merged_bytes", pa.int64()),
        ("native_schema", pa.string()),
        ("native_condition", pa.string()),
        ("other_splits", pa.int64()),
        ("other_pin", pa.string()),
    ]
)
"""The view `plan`: one row. `pin` fixes the whole read.

Spark's reader reads `native_files`, which have no logs, and `merged_files`, whose logs replace some rows; both have the
columns `native_schema` (Spark's JSON). `native_condition` (Spark SQL) is true for the rows to keep, null where all are.
`other_pin` fixes what the data source reads: the rows that logs add to `merged_files`, and the `other_splits`.
"""


def read_view(path: str, options: Options) -> pa.Table:
    """The rows of the view that the options name.

    `columns` and `filter` select from the view; for `splits` and `plan` they belong to the read that is explained, as
    all other options do.

    Raises:
        HudiError: as for a read of rows.
    """
    view = options.get(spark_config.VIEW)
    if view in ("splits", "plan"):
        names = read_config.column_names(options.get(read_config.COLUMNS))
        planned = plan_table(path, options, names)
        reasons = _why_not_native(planned, options)
        return split_report(planned.splits, reasons) if view == "splits" else _plan_report(planned, reasons)
    return _chosen(_table_report(path, options), options, path)


def _table_report(path: str, options: Options) -> pa.Table:
    view = options.get(spark_config.VIEW) or ""
    if view == "service":
        return call_report(path, options)
    if view == "indexes":
        return index_table(path, options)
    return pending_report(path, options) if view == "plans" else table_report(path, options, view)


def _chosen(report: pa.Table, options: Options, path: str) -> pa.Table:
    condition = parse_filter(options.get(read_config.FILTER), report.schema)
    if condition is not None:
        report = report.filter(condition.evaluate(report), null_selection_behavior="drop")
    names = read_config.column_names(options.get(read_config.COLUMNS))
    return report if names is None else report.select(check_columns(names, report.schema, path))


def _why_not_native(planned: PlannedScan, options: Options) -> list[str | None]:
    """For each split the reason not to use Spark's own reader, or None."""
    spec = planned.spec
    scheme = urlsplit(spec.uri).scheme
    reason = None
    if options.get(spark_config.NATIVE) == "never":
        reason = f"{spark_config.NATIVE.key} is never"
    elif options.storage:
        reason = "Spark's reader does not get the storage options"
    elif scheme not in _SPARK_READS:
        reason = f"Spark's reader may not support the scheme {scheme}"
    elif not _GLOB.isdisjoint(spec.uri):
        reason = "the table's path has characters of glob patterns"
    elif spec.filter is not None and spark_condition(spec.filter) is None:
        reason = "the filter may mean something else in another Spark session"
    return planned.why_not_native() if reason is None else [reason] * len(planned.splits)


def _plan_report(planned: PlannedScan, reasons: Sequence[str | None]) -> pa.Table:
    spec = planned.spec
    readable = [split for split, why in zip(planned.splits, reasons, strict=True) if why is None]
    merged = [split for split in readable if _is_merged(split)]
    native = [split for split in readable if not _is_merged(split)]
    others = [split for split, why in zip(planned.splits, reasons, strict=True) if why is not None]
    row = {
        "explain": "\n".join([planned.explain(), *_readers(native, merged, reasons)]),
        "pin": planned.pin(),
        "columns": list(spec.output_schema.names),
        "num_splits": len(planned.splits),
        "native_files": _base_files(spec, native),
        "merged_files": _base_files(spec, merged),
        "merged_bytes": sum(split.size for split in merged),
        "native_condition": _native_condition(spec),
        "other_splits": len(others),
        "other_pin": planned.pin([*merged, *others], without_base=len(merged)),
    }
    if readable:
        row["native_schema"] = spark_schema(spec.read_schema()).json()
    return pa.Table.from_pylist([row], PLAN_SCHEMA)


def _is_merged(split: Split) -> bool:
    return split.merged and split.spec.mode != "base"


def _base_files(spec: ReadSpec, splits: Sequence[Split]) -> list[str]:
    return [f"{spec.uri.rstrip('/')}/{split.base_file.path}" for split in splits if split.base_file is not None]


def _native_condition(spec: ReadSpec) -> str | None:
    parts = [] if spec.filter is None else [spark_condition(spec.filter)]
    if spec.commit_times is not None:
        times = ", ".join(f"'{time}'" for time in sorted(spec.commit_times))
        parts.append(f"`{COMMIT_TIME}` IN ({times})" if times else "FALSE")
    return " AND ".join(part for part in parts if part is not None) or None


def _readers(native: Sequence[Split], merged: Sequence[Split], reasons: Sequence[str | None]) -> Iterator[str]:
    """Lines on how many slices each reader reads, and why."""
    if native or merged:
        yield f"  by Spark's Parquet reader  {len(native) + len(merged):,} base files, {len(merged):,} merged with logs"
    for reason, count in Counter(reason for reason in reasons if reason is not None).most_common():
        yield f"  by the data source  {count:,}: {reason}"


class ViewPartition(InputPartition):
    """A view's rows as a compressed Arrow IPC stream, read when the DataFrame's schema was resolved."""

    def __init__(self, data: bytes) -> None:
        super().__init__(None)
        self.data = data


class ViewReader(DataSourceReader):
    """Reads the columns of `schema` of a view."""

    def __init__(self, data: bytes, schema: StructType) -> None:
        self._data: bytes | None = data
        self._target = arrow_schema(schema)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_data": None}  # the partition has it

    def partitions(self) -> list[InputPartition]:
        return [ViewPartition(self._data or b"")]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ViewPartition):
            with pa.ipc.open_stream(partition.data) as reader:
                for batch in reader:
                    yield to_target(batch, self._target)


def packed(report: pa.Table) -> bytes:
    """A report as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, report.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(report)
    data: bytes = sink.getvalue().to_pybytes()
    return data
