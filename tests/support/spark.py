"""What makes sessions of Spark cheap for many small tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

WARM = Path(__file__).parent / "warm"
# The quick tests ask for a few rows each: to compile code for them takes longer than all else. The slower ones run as
# Spark does by default: there it makes no difference.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def settings(folder: Path) -> dict[str, str]:
    """Those of all sessions of tests; `folder` is for the tables of the session."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        # the tests are many and short: the JVM's optimising compiler would cost more than it gains
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def spark_home(folder: Path) -> str:
    """Spark without the archive of PySpark's modules: workers import PySpark where it is installed, and find it
    compiled. Every process would compile the modules of an archive anew, for half a second."""
    folder.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "python":
            (folder / each.name).symlink_to(each)
    return str(folder)


def start_session(builder: Any, given: dict[str, str]) -> SparkSession:
    """The session of a builder with these settings, whose workers have our modules already."""
    for key, value in given.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(WARM), prepend=os.pathsep)  # of the JVM and its workers
        session: SparkSession = builder.getOrCreate()
    return session
