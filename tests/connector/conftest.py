"""One Spark session for the whole run: classic, or a Spark Connect one where HUDI_PY_SPARK is `connect`.

Both cannot live in one process; `test_connect.py` starts a second pytest for Connect.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

WARM = Path(__file__).parents[1] / "support" / "warm"
CONNECT = os.environ.get("HUDI_PY_SPARK") == "connect"
# The quick tests ask for a few rows each: to compile code for them takes longer than all else. The slower ones run as
# Spark does by default.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def spark_home(folder: Path) -> str:
    """Spark without the archive of PySpark's modules: workers import PySpark where it is installed, and find it
    compiled. Every process would compile the modules of an archive anew, for half a second."""
    folder.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "python":
            (folder / each.name).symlink_to(each)
    return str(folder)


def connect_port() -> int:
    """Where the Connect server of this process listens."""
    jvm: Any = SparkSession._instantiatedSession._jvm
    service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port: int = getattr(service, "MODULE$").localPort()
    return port


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    # Spark looks for data sources, and runs workers, with this Python
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_HOME"] = spark_home(folder / "home")
    # two failures of a task are one retry
    builder: Any = SparkSession.builder.remote("local[2,2]") if CONNECT else SparkSession.builder.master("local[2,2]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        # the tests are many and short: the JVM's optimising compiler would cost more than it gains
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # before 4.3 Spark binds columns by position, and tells only with this
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    }
    if pytestconfig.option.markexpr == "not slow":
        settings |= INTERPRETED
    if CONNECT:
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        # any free one: that of Spark's default may be taken by another process
        settings["spark.connect.grpc.binding.port"] = "0"
        DefaultChannelBuilder.default_port = staticmethod(connect_port)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(WARM), prepend=os.pathsep)  # of the JVM and its workers
        # a Connect client sets all of them once more at the server it started, which has those for its start already
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        session: SparkSession = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a test may make a table."""
    return str(tmp_path / "table")
