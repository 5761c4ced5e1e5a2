"""The data source `hudi-py`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from hudi_py.config import Options, Problems, Scope
from hudi_py.config import incremental as incremental_config
from hudi_py.config import read as read_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, HistoryCleanedError, SchemaMismatchError
from hudi_py.read import REPLACED_SCHEMA, Pinned, pin_table
from hudi_py.wiring import checked_write
from pyspark_hudi import calls
from pyspark_hudi.environment import environment_report
from pyspark_hudi.paths import checked_path
from pyspark_hudi.reader import HudiReader, ReplacedReader
from pyspark_hudi.remote import ANSWER, CallReader, call_in
from pyspark_hudi.stream import HudiStreamReader, HudiStreamWriter, stream_schema
from pyspark_hudi.types import spark_schema
from pyspark_hudi.views import ViewReader, packed, read_view
from pyspark_hudi.writer import HudiWriter, TaskMessage


class DefaultSource(DataSource):
    """Apache Hudi tables. Options are Apache Hudi's; docs/options.md lists them.

    A DataFrame sees the table as it was when its schema was resolved: at `load()`. On Spark Connect that happens at the
    first use, and again once the server has dropped the plan from its cache, by default after sixteen others. The
    options `as.of.instant` and `hoodie.py.read.pin`, and `read_table`, fix the state there too.
    """

    _pinned: Pinned | None = None
    """Pickled by Spark with the instance after `schema()`, so that a DataFrame stays one snapshot."""
    _view: bytes | None = None
    """The same for a DataFrame of a view."""
    _answer: bytes | None = None
    """The same for a DataFrame with the result of a `remote` call."""
    _travelled = False
    """Whether this is a copy from another process. For a stream, copies commit and the original plans."""

    @classmethod
    def name(cls) -> str:
        return "hudi-py"

    def schema(self) -> StructType:
        call = call_in(self.options)
        if call is not None:
            self._answer = None if call.number is not None else call.answer()
            return ANSWER
        options = self._options("read")
        if options.given(read_config.VIEW):
            report = self._report(options)
            self._view = packed(report)
            return spark_schema(report.schema)
        if options.get(read_config.REPLACED):
            return spark_schema(REPLACED_SCHEMA)
        names = read_config.column_names(options.get(read_config.COLUMNS))
        if not options.given(incremental_config.STREAM_START_OFFSET):
            try:
                self._pinned = self._pin(options, names)
            except (ConfigError, HistoryCleanedError):
                # A wrong range does not concern a stream, which may continue from its checkpoint; planning a batch
                # raises this again
                if options.get(read_config.QUERY_TYPE) not in ("incremental", "cdc"):
                    raise
            else:
                return spark_schema(self._pinned.schema)
        return spark_schema(stream_schema(self._path("read"), options, names))

    def reader(self, schema: StructType) -> DataSourceReader:
        call = call_in(self.options)
        if call is not None:
            return CallReader(call, self._answer)
        options, pinned = self._options("read"), self._pinned
        if options.given(read_config.VIEW):
            view, self._view = self._view, None
            return ViewReader(packed(self._report(options)) if view is None else view, schema)
        if options.get(read_config.REPLACED):
            names = read_config.column_names(options.get(read_config.COLUMNS))
            return ReplacedReader(self._pin(options, names), options, schema)
        if pinned is None:  # the schema comes from `.schema(...)` or a catalog table
            self._check_columns(options, schema)
            pinned = self._pin_given(options, schema)
        # Spark pickles this instance to each task, which needs only its own splits
        self._pinned = None
        return HudiReader(pinned, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options, path = self._options("write"), self._path("write")
        if options.get(write_config.OPERATION) == "bootstrap":
            return BootstrapWriter(path, options)
        return HudiWriter.of(path, options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._options("read")
        if options.given(read_config.VIEW):
            raise ConfigError(
                f"Cannot stream with the option {options.name_of(read_config.VIEW)}: a stream reads rows or changes "
                "of a table; read the view with spark.read"
            )
        self._check_columns(options, schema)
        # Spark pickles this instance to each task
        self._pinned = None
        return HudiStreamReader(self._path("read"), options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = self._options("write")
        planned = None if self._travelled else schema
        return HudiStreamWriter.of(self._path("stream"), options, planned, overwrite=overwrite)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._travelled = True

    def _pin(self, options: Options, names: Sequence[str] | None) -> Pinned:
        return pin_table(self._path("read"), options, names)

    def _pin_given(self, options: Options, schema: StructType) -> Pinned:
        try:
            return self._pin(options, schema.names)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"{error}. The columns are those of .schema(...), or of Spark's catalog, which alone ALTER TABLE "
                "changes: omit the schema, or register the table again"
            ) from error

    def _check_columns(self, options: Options, schema: StructType) -> None:
        """Checks that the option `columns` and the schema name the same columns."""
        names = read_config.column_names(options.get(read_config.COLUMNS))
        if names is not None and [name.lower() for name in names] != [name.lower() for name in schema.names]:
            raise ConfigError(
                f"Cannot read {self._path('read')} with the option {options.name_of(read_config.COLUMNS)} = "
                f"'{', '.join(names)}' and a schema of the columns {', '.join(schema.names)}: give one of them"
            )

    def _report(self, options: Options) -> pa.Table:
        if options.get(read_config.VIEW) == "environment":
            return environment_report()
        return read_view(self._path("read"), options)

    def _options(self, purpose: str) -> Options:
        if purpose == "read":
            return Options.resolve(_texts(self.options), Scope.READ)
        problems = Problems()
        return checked_write(Options.resolve(_texts(self.options), Scope.WRITE, problems=problems), problems)

    def _path(self, purpose: str) -> str:
        given = {key.lower(): value for key, value in _texts(self.options).items()}
        if "paths" in given:
            several = ", ".join(json.loads(given["paths"]))
            raise ConfigError(f"Cannot {purpose} several paths ({several}): give the base path of one table")
        return checked_path(given.get("path"), purpose)


def _texts(options: Any) -> dict[str, str]:
    given = {str(key): value for key, value in options.items()}
    if "provider" not in given:
        return given
    # CREATE TABLE adds properties of the catalog, and repeats each option
    return {key: value for key, value in given.items() if key != "external" and not key.startswith("option.")}


class BootstrapWriter(DataSourceArrowWriter):
    """A bootstrap, which takes no rows: the process that commits makes the table."""

    def __init__(self, path: str, options: Options) -> None:
        self.path = path
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        if any(batch.num_rows for batch in iterator):
            raise ConfigError(
                f"Cannot bootstrap {self.path} from rows: the operation bootstrap makes a table of the files of "
                "hoodie.bootstrap.base.path; write an empty DataFrame"
            )
        return TaskMessage(None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        calls.bootstrap_by(self.path, self.options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        return
