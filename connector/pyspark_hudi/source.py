"""The data source `hudi-py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from hudi_py.config import Options, Scope
from hudi_py.config import read as read_config
from hudi_py.config.read import column_names
from hudi_py.errors import ConfigError, TableNotFoundError
from pyspark_hudi.pinned import Pinned, pin_table
from pyspark_hudi.reader import HudiReader
from pyspark_hudi.types import spark_schema
from pyspark_hudi.writer import HudiWriter, plan_write

_GLOB = frozenset("*?[{")


class DefaultSource(DataSource):
    """Apache Hudi tables. Options are Apache Hudi's; docs/options.md lists them.

    A DataFrame sees the table as it was when its schema was resolved: `load()`, or on Spark Connect the first use.
    """

    _pinned: Pinned | None = None
    """Travels with the instance that Spark pickles after `schema()`, for a DataFrame to stay one snapshot."""

    @classmethod
    def name(cls) -> str:
        return "hudi-py"

    def schema(self) -> StructType:
        options = self._options("read")
        self._pinned = self._pin(options, column_names(options.get(read_config.COLUMNS)))
        return spark_schema(self._pinned.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        options, pinned = self._options("read"), self._pinned
        if pinned is None:  # the schema was given by `.schema(...)`, or is a catalog table's
            names = column_names(options.get(read_config.COLUMNS))
            if names is not None and [name.lower() for name in names] != [name.lower() for name in schema.names]:
                raise ConfigError(
                    f"Cannot read {self._path('read')} with the option {options.name_of(read_config.COLUMNS)} = "
                    f"'{', '.join(names)}' and a schema of the columns {', '.join(schema.names)}: give one of them"
                )
            pinned = self._pin(options, schema.names)
        # Spark hands this very instance on to each task, which needs one split and not all
        self._pinned = None
        return HudiReader(pinned, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return HudiWriter(plan_write(self._path("write"), self._options("write"), schema, overwrite=overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        raise ConfigError(
            "Cannot stream from a Hudi table: readStream is not built yet; supported are spark.read with "
            "hoodie.datasource.query.type snapshot and read_optimized, and as.of.instant"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        raise ConfigError(
            "Cannot stream into a Hudi table: writeStream is not built yet; use foreachBatch with "
            "df.write.format('hudi-py')"
        )

    def _pin(self, options: Options, names: Sequence[str] | None) -> Pinned:
        path = self._path("read")
        try:
            return pin_table(path, options, names)
        except TableNotFoundError as error:
            if _GLOB.isdisjoint(path):
                raise
            raise TableNotFoundError(
                f"{error}; a path with wildcards is not expanded: give the base path of one table"
            ) from error

    def _options(self, purpose: str) -> Options:
        return Options.resolve(_texts(self.options), Scope.READ if purpose == "read" else Scope.WRITE)

    def _path(self, purpose: str) -> str:
        given = {key.lower(): value for key, value in _texts(self.options).items()}
        if "paths" in given:
            several = ", ".join(json.loads(given["paths"]))
            raise ConfigError(f"Cannot {purpose} several paths ({several}): a load is of one table; give its base path")
        path = given.get("path", "").strip()
        if not path:
            how = "load(path)" if purpose == "read" else "save(path)"
            raise ConfigError(
                f"Cannot {purpose} a Hudi table without its path: give {how}, or in SQL the table WITH (path = '...'), "
                "since Spark does not hand a catalog table's location on"
            )
        if not urlsplit(path).scheme and not path.startswith("/"):
            raise ConfigError(
                f"Cannot {purpose} the relative path '{path}': Spark runs the source in a folder of its own; give an "
                "absolute path or a URI"
            )
        return path


def _texts(options: Any) -> dict[str, str]:
    return {str(key): value for key, value in options.items()}
