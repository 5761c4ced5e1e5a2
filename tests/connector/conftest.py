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

import pytest
from pyspark.sql import SparkSession

from tests.support.spark import INTERPRETED, settings, spark_home, start_session

CONNECT = os.environ.get("HUDI_PY_SPARK") == "connect"


def connect_port() -> int:
    """Where the Connect server of this process listens."""
    jvm: Any = SparkSession._instantiatedSession._jvm
    service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port: int = getattr(service, "MODULE$").localPort()
    return port


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, through Connect, what does not depend on the kind of session."""
    if not CONNECT:
        return
    left_out = [item for item in items if item.get_closest_marker("classic_only")]
    for item in items:
        only = item.get_closest_marker("connect_only")
        if only is not None and only.args[0] not in item.name:
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    # Spark looks for data sources, and runs workers, with this Python
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_HOME"] = spark_home(folder / "home")
    # two failures of a task are one retry
    builder: Any = SparkSession.builder.remote("local[2,2]") if CONNECT else SparkSession.builder.master("local[2,2]")
    given = settings(folder)
    # before 4.3 Spark binds columns by position, and tells only with this
    given["spark.sql.execution.arrow.pyspark.validateSchema.enabled"] = "true"
    if pytestconfig.option.markexpr == "not slow":
        given |= INTERPRETED
    if CONNECT:
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        # any free one: that of Spark's default may be taken by another process
        given["spark.connect.grpc.binding.port"] = "0"
        DefaultChannelBuilder.default_port = staticmethod(connect_port)
    with warnings.catch_warnings():
        # a Connect client sets all of them once more at the server it started, which has those for its start already
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        session = start_session(builder, given)
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a test may make a table."""
    return str(tmp_path / "table")
