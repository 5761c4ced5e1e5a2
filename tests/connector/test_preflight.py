"""What keeps hudi-py from working in a session is said in one line, before anything is touched. Without a JVM."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException

from hudi_py.errors import ConfigError
from pyspark_hudi import enable, preflight, register
from pyspark_hudi.preflight import check_pandas, check_session
from pyspark_hudi.tasks import in_tasks

LEFT = {
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
}


def session(settings: dict[str, str] | None = None, jar: bool = False, classic: bool = False) -> Any:
    spark = MagicMock()
    spark.conf.get.side_effect = lambda key, default=None: (settings or {}).get(key, default)
    if not jar:
        text = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: hudi"
        missing = OSError(f"An error of py4j: {text}") if classic else PySparkException(text)
        spark.read.format.return_value.load.side_effect = missing
    return spark


def python(folder: Path, program: str) -> str:
    file = folder / "python3"
    file.write_text(f"#!/bin/sh\n{program}\n")
    file.chmod(0o755)
    return str(file)


def test_settings_of_apache_hudi_are_named(caplog: pytest.LogCaptureFixture) -> None:
    for act in (check_session, enable, register):
        with pytest.raises(ConfigError, match=r"settings of Apache Hudi's JAR, .*spark.kryo.registrator=.*remove them"):
            act(session(LEFT, classic=act is enable))
    check_session(session(LEFT, jar=True))
    with caplog.at_level("WARNING"):
        check_session(session(dict([next(iter(LEFT.items()))])))
    assert "remove spark.sql.extensions=org.apache.spark.sql.hudi" in caplog.text
    check_session(session({"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}))


def test_the_python_of_spark_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mend = r"set PYSPARK_PYTHON to .*python.* before the session starts, as by os.environ\['PYSPARK_PYTHON'\]"
    programs = {
        'echo \'{"version": [3, 1], "error": null}\'': rf"which is 3.1, while .*; Spark needs the same: {mend}",
        'echo \'{"version": [3, 1], "error": "ModuleNotFoundError: x"}\'': rf"cannot load hudi-py \(Mod.*{mend}",
        "exit 3": rf"which does not start \(.*exit status 3.*\): {mend}",
    }
    for program, said in programs.items():
        monkeypatch.setenv("PYSPARK_PYTHON", python(tmp_path, program))
        for act in (check_session, enable, register):
            with pytest.raises(ImportError, match=said) as caught:
                act(session())
            assert "\n" not in str(caught.value)
    check_session(session({"spark.submit.pyFiles": "/a.zip"}))
    major, minor = sys.version_info[:2]
    monkeypatch.setenv("PYSPARK_PYTHON", python(tmp_path, f'echo \'{{"version": [{major}, {minor}], "error": null}}\''))
    check_session(session())
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    with pytest.raises(ImportError, match=f"which is not on the PATH: {mend}"):
        check_session(session())
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    check_session(session())


def test_pandas_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise ImportError("[PACKAGE_NOT_INSTALLED] Pandas >= 2.2.0 must be installed; however, it was not found.")

    check_pandas()
    monkeypatch.setattr(preflight, "require_minimum_pandas_version", lacking)
    frame = MagicMock()
    frame.mapInArrow.side_effect = lambda *_: lacking()
    for act in (check_pandas, lambda: enable(session()), lambda: in_tasks(frame, iter, MagicMock())):  # type: ignore[arg-type]
        with pytest.raises(
            ImportError, match=r"must be installed; .*: pip install 'hudi-py\[spark\]', which brings it"
        ) as caught:
            act()
        assert caught.value.__suppress_context__  # PySpark's traceback is not printed above it
