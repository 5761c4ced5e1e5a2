"""Apache Hudi's table functions, as Python table functions of Spark SQL.

```sql
SELECT * FROM hudi_table_changes('/data/trips', 'latest_state', '20240101000000000');
SELECT * FROM hudi_query_timeline('/data/trips', true);
```

Arguments are constants in Apache Hudi's order (`HoodieTableChangesOptionsParser` and its siblings, 1.2.0), with the
table's path in place of its name; a map of read options may follow. Each function runs in one Spark task and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from hudi_py.config import Options, Scope, incremental
from hudi_py.config import read as read_config
from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError
from hudi_py.read import METADATA_SCHEMA, metadata_report
from hudi_py.read.relations import (
    FILE_SLICE_SCHEMA,
    TIMELINE_SCHEMA,
    file_slice_relation,
    timeline_relation,
)
from hudi_py.read.task import read_split_on
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from pyspark_hudi.paths import checked_path
from pyspark_hudi.pinned import plan_table
from pyspark_hudi.types import arrow_schema, spark_schema, to_target

Row = tuple[Any, ...]


@dataclass
class PinnedResult(AnalyzeResult):
    """The function's columns, and the state of the table that they belong to."""

    pin: str = ""


class TableChanges:
    """`hudi_table_changes(path, 'latest_state' | 'cdc', begin [, end [, options]])`: an incremental query.

    Columns and rows are those of the table when the query was analysed. `begin` is exclusive,
    `end` inclusive; `earliest` is the beginning of the table.
    """

    def __init__(self, analyze_result: PinnedResult) -> None:
        self._pin, self._schema = analyze_result.pin, analyze_result.schema

    @staticmethod
    def analyze(
        path: AnalyzeArgument,
        format: AnalyzeArgument,
        begin: AnalyzeArgument,
        end: AnalyzeArgument | None = None,
        options: AnalyzeArgument | None = None,
    ) -> PinnedResult:
        named = {"path": path, "format": format, "begin": begin, "end": end, "options": options}
        given = [_constant("hudi_table_changes", name, argument) for name, argument in named.items()]
        planned = plan_table(checked_path(given[0], "read"), _changes(*given[1:]), None)
        return PinnedResult(spark_schema(planned.plan.spec.output_schema), pin=planned.pin())

    def eval(self, path: str, format: str, begin: Any, end: Any = None, options: Any = None) -> Iterator[Row]:
        resolved = _changes(format, begin, end, {**(options or {}), spark_config.PIN.key: self._pin})
        plan = plan_table(path, resolved, None).plan
        storage = open_storage(plan.spec.uri, resolved.storage or None)
        for split in plan.splits:
            yield from _rows(read_split_on(storage, split), self._schema)


class QueryTimeline:
    """`hudi_query_timeline(path [, archived [, options]])`: instants in their highest state, oldest first."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument, archived: AnalyzeArgument | None = None, options: AnalyzeArgument | None = None
    ) -> AnalyzeResult:
        _check_table("hudi_query_timeline", path=path, archived=archived, options=options)
        return AnalyzeResult(spark_schema(TIMELINE_SCHEMA))

    def eval(self, path: str, archived: Any = None, options: Any = None) -> Iterator[Row]:
        storage = _open(path, options)
        config = load_table_config(storage)
        with_archive = str(archived).lower() == "true"
        report = timeline_relation(storage, config, load_timeline(storage, config), archived=with_archive)
        yield from _rows(report.to_batches(), spark_schema(TIMELINE_SCHEMA))


class FilesystemView:
    """`hudi_filesystem_view(path [, partition [, options]])`: every committed file slice, of the partitions whose path
    is `partition`, in which `*` stands for a part of one folder's name; without it, of all."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument, partition: AnalyzeArgument | None = None, options: AnalyzeArgument | None = None
    ) -> AnalyzeResult:
        _check_table("hudi_filesystem_view", path=path, partition=partition, options=options)
        return AnalyzeResult(spark_schema(FILE_SLICE_SCHEMA))

    def eval(self, path: str, partition: str | None = None, options: Any = None) -> Iterator[Row]:
        storage = _open(path, options)
        config = load_table_config(storage)
        report = file_slice_relation(storage, config, load_timeline(storage, config), partition)
        yield from _rows(report.to_batches(), spark_schema(FILE_SLICE_SCHEMA))


class Metadata:
    """`hudi_metadata(path [, options])`: the records of the metadata table; no rows if the table has none."""

    @staticmethod
    def analyze(path: AnalyzeArgument, options: AnalyzeArgument | None = None) -> AnalyzeResult:
        _check_table("hudi_metadata", path=path, options=options)
        return AnalyzeResult(spark_schema(METADATA_SCHEMA))

    def eval(self, path: str, options: Any = None) -> Iterator[Row]:
        storage = _open(path, options)
        config = load_table_config(storage)
        report = metadata_report(storage, config, load_timeline(storage, config))
        yield from _rows(report.to_batches(), spark_schema(METADATA_SCHEMA))


FUNCTIONS: Mapping[str, type] = {
    "hudi_table_changes": TableChanges,
    "hudi_query_timeline": QueryTimeline,
    "hudi_filesystem_view": FilesystemView,
    "hudi_metadata": Metadata,
}


def _changes(format: Any, begin: Any, end: Any, options: Any) -> Options:
    if str(format) not in (incremental.LATEST_STATE, incremental.CDC):
        raise ConfigError(
            f"hudi_table_changes does not know the format '{format}'; supported are {incremental.LATEST_STATE} and "
            f"{incremental.CDC}"
        )
    given = {
        **_texts("hudi_table_changes", options),
        read_config.QUERY_TYPE.key: "incremental",
        incremental.FORMAT.key: str(format),
        incremental.BEGIN.key: "000" if str(begin) == "earliest" else str(begin),
    }
    if end is not None:
        given[incremental.END.key] = str(end)
    return Options.resolve(given, Scope.READ)


def _open(path: str, options: Any) -> Storage:
    resolved = Options.resolve(_texts("a table function", options), Scope.READ)
    return open_storage(checked_path(path, "read"), resolved.storage or None)


def _texts(function: str, options: Any) -> dict[str, str]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"The options of {function} are a map, for example map('columns', 'id'), not {options!r}")
    return {str(key): str(value) for key, value in options.items()}


def _constant(function: str, name: str, argument: AnalyzeArgument | None) -> Any:
    if argument is None:
        return None
    if argument.isTable or not argument.isConstantExpression:
        raise ConfigError(f"{function} needs a constant as its argument '{name}', because its result depends on it")
    return argument.value


def _check_table(function: str, **arguments: AnalyzeArgument | None) -> None:
    """Check during analysis that arguments are constants and name a table: later errors do not show in Spark's first
    line."""
    values = {name: _constant(function, name, argument) for name, argument in arguments.items()}
    load_table_config(_open(values["path"], values["options"]))


def _rows(batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch], schema: StructType) -> Iterator[Row]:
    """Rows as tuples: table functions with a schema found at run time cannot return Arrow batches."""
    target = arrow_schema(schema)
    for batch in batches:
        shown = batch if batch.schema.names == target.names else batch.rename_columns(target.names)
        columns = [column.to_pylist(maps_as_pydicts="strict") for column in to_target(shown, target).columns]
        yield from zip(*columns, strict=True)
