"""`register`: the format and the table functions in a Spark session."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from pyspark_hudi.catalog import register_sql
from pyspark_hudi.environment import ENVIRONMENT_SCHEMA, missing
from pyspark_hudi.preflight import check_session
from pyspark_hudi.source import DefaultSource
from pyspark_hudi.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ERROR = re.compile(r"\w*Error: .+")


def register(spark: SparkSession, name: str = FORMAT) -> None:
    """Registers the format and the table functions with a session, and checks that Spark's Python can run them.

    The session also becomes the active one of the calling thread: classic Spark looks up data sources in the active
    session when it writes, and threads that the driver started itself have none.

    Args:
        name: a second name for the format, besides `hudi-py`. With `hudi`, code written for Apache Hudi's JAR runs
            without the JAR.

    Raises:
        ImportError: Spark's Python lacks hudi-py or a library that it needs.
        ConfigError: Spark has another data source with this name, or settings of Apache Hudi's JAR are left without the
            JAR.
    """
    check_session(spark)
    activate(spark)
    archive = _shipped_wheel()
    if archive is not None:
        spark.addArtifacts(archive, pyfile=True)
    _register_source(spark, DefaultSource)
    if name.lower() != FORMAT:
        register_as(spark, name)
    try:
        rows = _environment_view(spark, FORMAT).collect()
    except PySparkException as error:
        reason = (_ERROR.findall(str(error)) or str(error).splitlines())[-1]
        raise ImportError(
            f"Spark's Python cannot load hudi-py: {reason}; install hudi-py for the Python that PYSPARK_PYTHON names, "
            "on the driver and on every worker, or pass it with --py-files"
        ) from None
    lacking = missing(row.asDict() for row in rows)
    if lacking:
        raise ImportError(
            f"Spark's Python, {rows[0]['location']}, cannot run hudi-py: it needs {', '.join(lacking)}; install them "
            "on the driver and on every worker"
        )
    register_sql(spark)


def activate(spark: SparkSession) -> None:
    """Makes the session the active one of this thread."""
    spark.createDataFrame([], StructType())  # the only public PySpark call that does so


def _register_source(spark: SparkSession, source: type[DefaultSource]) -> bool:
    """Registers a source; returns False if its name is taken. Some releases refuse existing names even for the same
    source."""
    try:
        spark.dataSource.register(source)
    except PySparkException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        return False
    return True


def register_as(spark: SparkSession, name: str) -> None:
    """Registers the format under another name.

    Raises:
        ConfigError: Spark has another data source with this name.
    """
    # pickled by value, because it belongs to no module
    source = type(DefaultSource.__name__, (DefaultSource,), {"name": classmethod(lambda cls: name)})
    if not _register_source(spark, source) and not _is_ours(spark, name):
        raise ConfigError(
            f"Cannot register the format as {name!r}: Spark has another data source with this name; choose another "
            "name, or remove the other one's JAR from the class path"
        )


def _is_ours(spark: SparkSession, name: str) -> bool:
    try:
        columns: list[str] = _environment_view(spark, name).columns
    except PySparkException:
        return False
    return columns == list(ENVIRONMENT_SCHEMA.names)


def _environment_view(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.format(name).option(read_config.VIEW.key, "environment").load()


@functools.cache
def _shipped_wheel() -> str | None:
    """Copies the wheel from which this package was imported to a file with suffix .zip; None if it was not imported
    from one.

    Spark ships every file of `--py-files`, but its workers import only from .zip, .egg and .jar files.
    """
    wheel = Path(__file__).parents[1]
    if wheel.suffix != ".whl" or not wheel.is_file():
        return None
    folder = tempfile.mkdtemp(prefix="hudi-py-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(shutil.copyfile(wheel, Path(folder, f"{wheel.stem}.zip")))
