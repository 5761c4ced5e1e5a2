"""Apache Hudi's table functions, as Python table functions of Spark SQL.

```sql
SELECT * FROM hudi_table_changes('/data/trips', 'latest_state', '20240101000000000');
SELECT * FROM hudi_query_timeline('/data/trips', true);
SELECT * FROM hudi_query('/data/trips', 'read_optimized');
```

Arguments are constants in Apache Hudi's order (`HoodieTableChangesOptionsParser` and its siblings, 1.2.0), with the
table's path in place of its name; a map of read options may follow. Each function runs in one Spark task and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from hudi_py.config import Options, Scope, incremental
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from hudi_py.inspect import relation, relation_schema
from hudi_py.read import plan_table, read_splits
from pyspark_hudi.paths import checked_path
from pyspark_hudi.types import arrow_schema, spark_schema, to_target

Row = tuple[Any, ...]


@dataclass
class PinnedResult(AnalyzeResult):
    """The function's columns, and the state of the table to which they belong."""

    pin: str = ""


class HudiQuery:
    """`hudi_query(path, 'snapshot' | 'read_optimized' [, options])`: the rows of the table when the query was
    analysed."""

    def __init__(self, analyze_result: PinnedResult) -> None:
        self._pin, self._schema = analyze_result.pin, analyze_result.schema

    @staticmethod
    def analyze(
        path: AnalyzeArgument, query_type: AnalyzeArgument, options: AnalyzeArgument | None = None
    ) -> PinnedResult:
        named = {"path": path, "query_type": query_type, "options": options}
        given = [_constant_argument(QUERY, name, argument) for name, argument in named.items()]
        planned = plan_table(checked_path(given[0], "read"), _query_options(*given[1:]), None)
        return PinnedResult(spark_schema(planned.spec.output_schema), pin=planned.pin())

    def eval(self, path: str, query_type: str, options: Any = None) -> Iterator[Row]:
        resolved = _query_options(query_type, {**(options or {}), read_config.PIN.key: self._pin})
        planned = plan_table(path, resolved, None)
        yield from _row_tuples(read_splits(planned.spec, planned.splits, resolved.for_storage()), self._schema)


class TableChanges:
    """`hudi_table_changes(path, 'latest_state' | 'cdc', begin [, end [, options]])`: an incremental query.

    Columns and rows are those of the table when the query was analysed. `begin` is exclusive, `end` inclusive;
    `earliest` is the start of the table.
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
        given = [_constant_argument("hudi_table_changes", name, argument) for name, argument in named.items()]
        planned = plan_table(checked_path(given[0], "read"), _change_options(*given[1:]), None)
        return PinnedResult(spark_schema(planned.spec.output_schema), pin=planned.pin())

    def eval(self, path: str, format: str, begin: Any, end: Any = None, options: Any = None) -> Iterator[Row]:
        resolved = _change_options(format, begin, end, {**(options or {}), read_config.PIN.key: self._pin})
        planned = plan_table(path, resolved, None)
        yield from _row_tuples(read_splits(planned.spec, planned.splits, resolved.for_storage()), self._schema)


class QueryTimeline:
    """`hudi_query_timeline(path [, archived [, options]])`: instants in their highest state, oldest first."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument, archived: AnalyzeArgument | None = None, options: AnalyzeArgument | None = None
    ) -> AnalyzeResult:
        return _analyzed_columns("hudi_query_timeline", path=path, archived=archived, options=options)

    def eval(self, path: str, archived: Any = None, options: Any = None) -> Iterator[Row]:
        return _relation_rows(path, options, "hudi_query_timeline", str(archived).lower() == "true")


class FilesystemView:
    """`hudi_filesystem_view(path [, partition [, options]])`: every committed file slice, or those of the partitions
    whose path matches `partition`, in which `*` matches within one folder name."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument, partition: AnalyzeArgument | None = None, options: AnalyzeArgument | None = None
    ) -> AnalyzeResult:
        return _analyzed_columns("hudi_filesystem_view", path=path, partition=partition, options=options)

    def eval(self, path: str, partition: str | None = None, options: Any = None) -> Iterator[Row]:
        return _relation_rows(path, options, "hudi_filesystem_view", partition)


class Metadata:
    """`hudi_metadata(path [, options])`: the records of the metadata table; no rows if the table has none."""

    @staticmethod
    def analyze(path: AnalyzeArgument, options: AnalyzeArgument | None = None) -> AnalyzeResult:
        return _analyzed_columns("hudi_metadata", path=path, options=options)

    def eval(self, path: str, options: Any = None) -> Iterator[Row]:
        return _relation_rows(path, options, "hudi_metadata")


_KINDS: Final = ("snapshot", "read_optimized")
QUERY: Final = "hudi_query"
FUNCTIONS: Mapping[str, type] = {
    QUERY: HudiQuery,
    "hudi_table_changes": TableChanges,
    "hudi_query_timeline": QueryTimeline,
    "hudi_filesystem_view": FilesystemView,
    "hudi_metadata": Metadata,
}


def query_kind(given: Any) -> str:
    """Returns the query type for `hudi_query` (`HoodieTableValuedFunctionOptionsParser`, 1.2.0).

    Raises:
        ConfigError: it is another one.
    """
    kind = str(given).lower()
    if kind not in _KINDS:
        raise ConfigError(
            f"{QUERY} does not support the query type '{given}'; supported: {' and '.join(_KINDS)}. "
            "hudi_table_changes has incremental queries"
        )
    return kind


def _query_options(kind: Any, options: Any) -> Options:
    given = {**_option_texts(QUERY, options), read_config.QUERY_TYPE.key: query_kind(kind)}
    return Options.resolve(given, Scope.READ)


def _change_options(format: Any, begin: Any, end: Any, options: Any) -> Options:
    if str(format) not in (incremental.LATEST_STATE, incremental.CDC):
        raise ConfigError(
            f"hudi_table_changes does not support the format '{format}'; supported: {incremental.LATEST_STATE} and "
            f"{incremental.CDC}"
        )
    given = {
        **_option_texts("hudi_table_changes", options),
        read_config.QUERY_TYPE.key: "incremental",
        incremental.FORMAT.key: str(format),
        incremental.BEGIN.key: "000" if str(begin) == "earliest" else str(begin),
    }
    if end is not None:
        given[incremental.END.key] = str(end)
    return Options.resolve(given, Scope.READ)


def _resolved_options(options: Any) -> Options:
    return Options.resolve(_option_texts("a table function", options), Scope.READ)


def _relation_rows(path: str, options: Any, name: str, *arguments: Any) -> Iterator[Row]:
    report = relation(checked_path(path, "read"), _resolved_options(options), name, *arguments)
    yield from _row_tuples(report.to_batches(), spark_schema(report.schema))


def _option_texts(function: str, options: Any) -> dict[str, str]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"The options of {function} must be a map, such as map('columns', 'id'), not {options!r}")
    return {str(key): str(value) for key, value in options.items()}


def _constant_argument(function: str, name: str, argument: AnalyzeArgument | None) -> Any:
    if argument is None:
        return None
    if argument.isTable or not argument.isConstantExpression:
        raise ConfigError(f"The argument '{name}' of {function} must be a constant, because the result depends on it")
    return argument.value


def _analyzed_columns(function: str, **arguments: AnalyzeArgument | None) -> AnalyzeResult:
    """Returns the function's columns. Checks already during analysis that the arguments are constants and name a table,
    because later errors are not in the first line of Spark's message."""
    values = {name: _constant_argument(function, name, argument) for name, argument in arguments.items()}
    options = _resolved_options(values["options"])
    return AnalyzeResult(spark_schema(relation_schema(checked_path(values["path"], "read"), options, function)))


def _row_tuples(batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch], schema: StructType) -> Iterator[Row]:
    """Yields rows as tuples: table functions whose schema is found at run time cannot return Arrow batches."""
    target = arrow_schema(schema)
    for batch in batches:
        shown = batch if batch.schema.names == target.names else batch.rename_columns(target.names)
        columns = [column.to_pylist(maps_as_pydicts="strict") for column in to_target(shown, target).columns]
        yield from zip(*columns, strict=True)
