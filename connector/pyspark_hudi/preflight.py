"""Checks a session for what would keep hudi-py from working, before using it: each error is one line with its remedy,
where Spark would raise pages of Java."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.pandas.utils import require_minimum_pandas_version

from hudi_py.errors import ConfigError, first_line
from pyspark_hudi.tasks import is_classic, without_pandas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_OF_APACHE_HUDI: Final = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.kryo.registrator")
"""Settings of Apache Hudi's JAR, which name its classes."""
_SHIPPED: Final = ("spark.submit.pyFiles", "spark.archives", "spark.yarn.dist.archives")
"""Settings that ship packages to Spark's Python."""
_ASK: Final = """
import json, sys
found = {"version": list(sys.version_info[:2]), "error": None}
try:
    import pyspark_hudi.source
except Exception as error:  # whatever keeps it from being imported
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
_TIMEOUT_S: Final = 120


def check_session(spark: SparkSession) -> None:
    """Checks the settings of a session, and the Python that a classic session runs on this machine.

    Raises:
        ConfigError: settings of Apache Hudi's JAR are left, and the JAR is not there.
        ImportError: Spark would run a Python that cannot import hudi-py, or one of another version.
    """
    _check_settings(spark)
    if is_classic(spark) and not any(_setting_text(spark, key) for key in _SHIPPED):
        _check_python(str(os.environ.get("PYSPARK_PYTHON") or "python3"))


def check_pandas() -> None:
    """Raises ImportError if pandas is missing or too old for PySpark."""
    try:
        require_minimum_pandas_version()
    except ImportError as error:
        raise without_pandas(error) from None


def _check_settings(spark: SparkSession) -> None:
    settings = {key: _setting_text(spark, key) for key in _OF_APACHE_HUDI}
    left = {key: value for key, value in settings.items() if "hudi" in value.lower() or "hoodie" in value.lower()}
    if not left or _has_jar(spark):
        return
    listed = ", ".join(f"{key}={value}" for key, value in left.items())
    if list(left) == [_OF_APACHE_HUDI[0]]:  # Spark works without these classes
        _log.warning(
            "the session has a setting of Apache Hudi's JAR, which is not on the class path: remove %s", listed
        )
        return
    raise ConfigError(
        f"Cannot use hudi-py in this session: it has settings of Apache Hudi's JAR, which is not on the class path "
        f"({listed}); remove them and start the session again, hudi-py needs no settings"
    )


def lacks_source(error: Exception) -> bool:
    """Returns whether Spark has no data source of the name given to a reader or writer. Classic Spark raises an error
    of py4j, which Spark Connect's client does not have."""
    condition = error.getCondition() if isinstance(error, PySparkException) else ""
    text = f"{condition} {error}"
    return any(sign in text for sign in ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException"))


def _has_jar(spark: SparkSession) -> bool:
    try:
        spark.read.format("hudi").load("/")
    except Exception as error:  # of py4j, too
        return not lacks_source(error)
    return True


def _check_python(given: str) -> None:
    """Checks whether the Python with this name can run hudi-py. A Python in the folder of the current one can."""
    python = shutil.which(given)
    mend = (
        f"set PYSPARK_PYTHON to {sys.executable} before the session starts, as by "
        "os.environ['PYSPARK_PYTHON'] = sys.executable"
    )
    if python is None:
        raise ImportError(f"Spark runs Python as '{given}', which is not on the PATH: {mend}")
    if Path(python).parent == Path(sys.executable).parent:
        return
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise ImportError(
            f"Spark runs Python as {python}, which does not start ({first_line(error)}): {mend}"
        ) from None
    own = list(sys.version_info[:2])
    if answer["error"] is not None:
        raise ImportError(
            f"Spark runs Python as {python}, which cannot load hudi-py ({answer['error']}), while this is "
            f"{sys.executable}: {mend}"
        )
    if answer["version"] != own:
        theirs, ours = (".".join(map(str, item)) for item in (answer["version"], own))
        raise ImportError(
            f"Spark runs Python as {python}, which is {theirs}, while {sys.executable} is {ours}; "
            f"Spark needs the same: {mend}"
        )


def _setting_text(spark: SparkSession, key: str) -> str:
    return str(spark.conf.get(key, "") or "")
