"""The project of docs/dbt.md, built by dbt in an environment of its own, which has the PySpark of this one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark
import pytest

import hudi_py
from tests.meta.sources import ROOT

PAGE: Final = ROOT / "docs" / "dbt.md"
PACKAGES: Final = ("dbt-core==1.11.16", "dbt-spark==1.11.0", f"pyspark=={pyspark.__version__}", "pandas<3")
ENVIRONMENT: Final = ROOT / ".venv-dbt"
# The catalog lies in the test's folder; to compile code would take longer than the queries.
SETTINGS: Final = (
    "spark.ui.enabled false\nspark.sql.shuffle.partitions 1\nspark.sql.warehouse.dir {folder}/warehouse\n"
    "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={folder}\n"
)


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter of dbt's environment."""
    program, uv = ENVIRONMENT / "bin" / "python", Path(sys.executable).with_name("uv")
    if not program.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, ENVIRONMENT], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", program, *PACKAGES, "--editable", ROOT]
    subprocess.run(install, check=True)
    return str(program)


def write_project(folder: Path) -> dict[str, str]:
    """Writes the files of the page; their texts by name."""
    blocks = re.findall(r"^`([\w./]+\.\w+)`.*?:\n\n<!--.*?-->\n```\w+\n(.*?)```", PAGE.read_text("utf-8"), re.M | re.S)
    found = dict(blocks)
    for name, text in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return found


def built(python: str, folder: Path) -> str:
    """Runs the project once more; what dbt said."""
    settings = {
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(folder / "conf"),
        "DBT_PROFILES_DIR": str(folder),
        "DO_NOT_TRACK": "1",
    }
    ran = subprocess.run(
        [python, "build.py", "build"], cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    return ran.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_project_of_the_page(python: str, tmp_path: Path) -> None:
    files = write_project(tmp_path)
    assert len(files) == 8
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(SETTINGS.format(folder=tmp_path))
    built(python, tmp_path)
    lake = tmp_path / "warehouse" / "lake.db"
    fares, by_city, history = (hudi_py.open_table(lake / name) for name in ("fares", "by_city", "fares_history"))
    assert fares.table_type == "MERGE_ON_READ"
    assert rows(fares, "id", "fare") == [(1, 10.5), (2, 20.0), (3, 30.0)]
    changed = files["seeds/trips.csv"].replace("2,1,lima,20.0", "2,2,lima,22.0") + "4,2,bern,40.0\n"
    (tmp_path / "seeds" / "trips.csv").write_text(changed)
    built(python, tmp_path)
    assert rows(fares, "id", "fare") == [(1, 10.5), (2, 22.0), (3, 30.0), (4, 40.0)]
    assert len(fares.instants()) == 2  # merged, not made anew
    by_city = hudi_py.open_table(by_city.uri)
    assert rows(by_city, "city", "fares") == [("bern", 40.0), ("lima", 52.0), ("oslo", 10.5)]
    past = [(row[0], row[1], row[2] is None) for row in rows(history, "id", "fare", "dbt_valid_to")]
    assert past == [(1, 10.5, True), (2, 20.0, False), (2, 22.0, True), (3, 30.0, True), (4, 40.0, True)]


def rows(table: hudi_py.Table, *columns: str) -> list[tuple[object, ...]]:
    found = hudi_py.open_table(table.uri).scan(columns=list(columns)).to_table()
    return sorted(map(tuple, zip(*(found[name].to_pylist() for name in columns), strict=True)), key=repr)
