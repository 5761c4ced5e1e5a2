"""`df.write`, `df.writeTo` and `df.writeStream` for Hudi tables, after `enable`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException

from hudi_py.config import Options, Scope
from hudi_py.config import incremental as incremental_config
from hudi_py.config import read as read_config
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, HudiError, TableExistsError, TableNotFoundError, first_line
from pyspark_hudi.dialect.tables import StatementTarget
from pyspark_hudi.enabled import is_enabled, is_own_format
from pyspark_hudi.failure import raised_here
from pyspark_hudi.named import (
    CREATING,
    PARTITIONS,
    check_format,
    insert_into,
    save_as_table,
    stream_target,
    target_of,
)
from pyspark_hudi.noting import Noting, SourceRequest, hinted
from pyspark_hudi.table import FORMAT, of_storage
from pyspark_hudi.table_writer import write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_PLAIN_WRITES = frozenset({incremental_config.SINK_BATCH_ID.key.lower()})
"""Options that select the plain format, among them those that `write_table` sets itself."""


class _Partitioned(Noting):
    """Records partition columns."""

    def partitionBy(self, *columns: Any) -> Any:  # noqa: N802
        given = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
        self._hudi_py.partitions = list(given)
        return super().partitionBy(*columns)

    def _unpartition(self) -> None:
        """Removes the columns from Spark's writer; they stay recorded."""
        super().partitionBy([])

    def _take(self, format: str | None, partitions: Any, options: dict[str, Any]) -> None:
        """Takes the settings in the last call of a writer as if they were given by calls of their own."""
        self.options(**options)
        if partitions is not None:
            self.partitionBy(partitions)
        if format is not None:
            self.format(format)


class NativeWriter(_Partitioned):
    """A `df.write` that writes our format as `write_table` does, and to names of Hudi tables as SQL does."""

    def mode(self, saveMode: str | None) -> Any:  # noqa: N803
        self._hudi_py.mode = saveMode or self._hudi_py.mode
        return super().mode(saveMode)

    def bucketBy(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        self._hudi_py.plain = True
        return super().bucketBy(*arguments, **named)

    def sortBy(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        self._hudi_py.plain = True
        return super().sortBy(*arguments, **named)

    def clusterBy(self, *columns: Any) -> Any:  # noqa: N802
        self._hudi_py.plain = True
        return super().clusterBy(*columns)

    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        self.mode(mode)
        self._take(format, partitionBy, options)
        asked = self._hudi_py
        if asked.partitions and is_own_format(asked.owner.sparkSession, asked.format):
            self._unpartition()  # Spark refuses them for a source that has the option
            if set(PARTITIONS).isdisjoint(asked.options):
                self.option(table_config.PARTITION_PATH.key, ",".join(asked.partitions))
        if not _native_save(asked, path):
            with hinted(asked, asked.owner.sparkSession):
                super().save(path)

    def saveAsTable(  # noqa: N802
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        self.mode(mode)
        self._take(format, partitionBy, options)
        asked = self._hudi_py
        if not is_own_format(asked.owner.sparkSession, asked.format):
            with hinted(asked, asked.owner.sparkSession):
                if is_enabled(asked.owner.sparkSession):
                    check_format(asked.owner.sparkSession, name)
                super().saveAsTable(name)
            return
        if asked.plain:
            raise ConfigError(
                f"Cannot save as the table {name} with bucketBy, sortBy or clusterBy: Hudi tables have options "
                "instead, such as hoodie.index.type = BUCKET; leave them out"
            )
        save_as_table(asked.owner, name, asked.mode.lower(), asked.options, asked.partitions)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N802, N803
        asked = self._hudi_py
        if asked.partitions or asked.plain or not is_enabled(asked.owner.sparkSession):
            super().insertInto(tableName, overwrite)  # Spark refuses it with its own message
            return
        overwrites = asked.mode.lower() == "overwrite" if overwrite is None else overwrite
        if not insert_into(asked.owner, tableName, asked.options, overwrites=overwrites):
            super().insertInto(tableName, overwrite)


class NativeStreamWriter(_Partitioned):
    """A `df.writeStream` whose `toTable` knows Hudi tables by name."""

    def toTable(  # noqa: N802
        self,
        tableName: str,  # noqa: N803
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        self._take(format, partitionBy, options)
        asked = self._hudi_py
        target = None
        is_ours = is_own_format(asked.owner.sparkSession, asked.format)
        if is_ours or (is_enabled(asked.owner.sparkSession) and asked.format == ""):
            target = stream_target(asked.owner, tableName, asked.options, asked.partitions, is_ours=is_ours)
        if target is None:
            return super().toTable(tableName, outputMode=outputMode, queryName=queryName)
        path, more = target
        if asked.partitions:
            self._unpartition()  # the table has them
        self.options(**more)
        given = asked.path(None) is not None  # Spark accepts only one path
        return super().start(None if given else path, format=FORMAT, outputMode=outputMode, queryName=queryName)


class NativeWriterV2(Noting):
    """A `df.writeTo` that knows Hudi tables by name."""

    def using(self, provider: str) -> Any:
        self._hudi_py.format = provider
        return super().using(provider)

    def tableProperty(self, property: str, value: str) -> Any:  # noqa: N802
        self._hudi_py.note({property: value})
        return super().tableProperty(property, value)

    def partitionedBy(self, *columns: Any) -> Any:  # noqa: N802
        self._hudi_py.partitions = list(columns)
        return super().partitionedBy(*columns)

    def clusterBy(self, *columns: Any) -> Any:  # noqa: N802
        self._hudi_py.plain = True
        return super().clusterBy(*columns)

    def create(self) -> None:
        asked = self._hudi_py
        if asked.plain or not is_own_format(asked.owner.sparkSession, asked.format):
            super().create()
            return
        try:
            columns = asked.owner.select(*asked.partitions).columns
        except PySparkException as error:
            raise ConfigError(
                f"Cannot create the table {asked.table} partitioned by an expression ({first_line(error)}); supported "
                "are columns: add one with the value, or use the key generators of hoodie.table.keygenerator.class"
            ) from error
        save_as_table(asked.owner, asked.table, "error", asked.options, columns)

    def append(self) -> None:
        asked = self._hudi_py
        target = self._target()
        if target is None or not _native_save(replace(asked, format=FORMAT, mode="append"), target.path):
            super().append()

    def overwrite(self, condition: Any) -> None:
        self._refuse("overwrite rows of", "use spark.sql: DELETE FROM, then append()")
        super().overwrite(condition)

    def overwritePartitions(self) -> None:  # noqa: N802
        self._refuse("overwrite partitions of", "use df.write.insertInto(name, overwrite=True)")
        super().overwritePartitions()

    def replace(self) -> None:
        self._refuse("replace", "use df.write.format('hudi-py').mode('overwrite').saveAsTable(name)")
        super().replace()

    def createOrReplace(self) -> None:  # noqa: N802
        self._refuse("replace", "use df.write.format('hudi-py').mode('overwrite').saveAsTable(name)")
        super().createOrReplace()

    def _target(self) -> StatementTarget | None:
        asked = self._hudi_py
        return target_of(asked.owner.sparkSession, asked.table) if is_enabled(asked.owner.sparkSession) else None

    def _refuse(self, what: str, instead: str) -> None:
        """Refuses what Apache Hudi 1.2.0 does not support either."""
        asked = self._hudi_py
        if is_own_format(asked.owner.sparkSession, asked.format) or self._target() is not None:
            raise ConfigError(f"Cannot {what} the table {self._hudi_py.table} by writeTo; {instead}")


def _native_save(asked: SourceRequest, path: Any) -> bool:
    """Writes by `write_table`; returns False, without writing, if the plain format should."""
    table_path, options = asked.path(path), asked.own_options()
    if asked.plain or table_path is None or not is_own_format(asked.owner.sparkSession, asked.format):
        return False
    mode = asked.mode.lower()
    if mode not in CREATING | {"append"} or not _PLAIN_WRITES.isdisjoint(options):
        return False
    if mode in CREATING and _exists(asked.owner.sparkSession, table_path, options):
        if mode == "ignore":
            return True
        raise TableExistsError(
            f"Cannot create a table at {table_path}: there is one already; write to it with mode('append'), or replace "
            "its rows with mode('overwrite')"
        )
    try:
        operation = Options.resolve(options, Scope.WRITE).get(write_config.OPERATION)
    except ConfigError:
        return False
    if operation == "bootstrap":
        return False
    try:
        write_table(asked.owner, table_path, operation=operation, options=options)
    except ImportError as error:  # pandas is missing; nothing was written
        _log.warning("%s is written by the plain format, in which one process merges all rows: %s", table_path, error)
        return False
    except HudiError as error:
        spark_error = error.__context__  # as `df.write` raises it
        if isinstance(spark_error, PySparkException):
            raise spark_error from spark_error.__cause__
        raise AnalysisException(f"{type(error).__module__}.{type(error).__name__}: {error}") from error
    return True


def _exists(spark: SparkSession, path: str, options: Mapping[str, str]) -> bool:
    """Returns whether there is a table."""
    reader = spark.read.format(FORMAT).options(**of_storage(options)).option(read_config.VIEW.key, "properties")
    try:
        with raised_here():
            reader.load(path).schema  # noqa: B018 - Spark Connect looks only now
    except TableNotFoundError:
        return False
    return True
