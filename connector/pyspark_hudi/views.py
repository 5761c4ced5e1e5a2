"""`option("view", ...)`: reports on a table, or on a read of it, as DataFrames."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.expressions import parse_filter
from hudi_py.inspect import split_report, table_report
from hudi_py.read import check_columns
from hudi_py.services.distributed import pending_report
from hudi_py.wiring import index_table
from pyspark_hudi.native import NativePlan
from pyspark_hudi.types import arrow_schema, to_target


def read_view(path: str, options: Options) -> pa.Table:
    """Returns the rows of the view that the options name.

    `columns` and `filter` select from the view; for `splits` and `plan` they belong to the read that is explained, as
    all other options do.

    Raises:
        HudiError: as for a read of rows.
    """
    view = options.get(read_config.VIEW)
    if view in ("splits", "plan"):
        plan = NativePlan.of(path, options)
        return split_report(plan.planned.splits, plan.reasons) if view == "splits" else plan.report()
    return _chosen_rows(_table_report(path, options), options, path)


def _table_report(path: str, options: Options) -> pa.Table:
    view = options.get(read_config.VIEW) or ""
    if view == "indexes":
        return index_table(path, options)
    return pending_report(path, options) if view == "plans" else table_report(path, options, view)


def _chosen_rows(report: pa.Table, options: Options, path: str) -> pa.Table:
    condition = parse_filter(options.get(read_config.FILTER), report.schema)
    if condition is not None:
        report = report.filter(condition.evaluate(report), null_selection_behavior="drop")
    names = read_config.column_names(options.get(read_config.COLUMNS))
    return report if names is None else report.select(check_columns(names, report.schema, path))


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
    """Encodes a report as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, report.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(report)
    data: bytes = sink.getvalue().to_pybytes()
    return data
