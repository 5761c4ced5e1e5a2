"""What a new statement, a new procedure and a new service need besides the module that describes them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hudi_py.errors import ConfigError
from pyspark_hudi.dialect import call, run
from pyspark_hudi.dialect.descriptors import Given, Procedure, Rows, SqlStatement
from pyspark_hudi.dialect.tables import StatementTarget
from pyspark_hudi.dialect.text import Cursor, tokens_of
from tests.meta.sources import ROOT
from tests.support import made_up_services
from tests.support.made_up_services import ANNOUNCED, ANSWERS
from tools import statements

SHARED = {"run_compaction", "show_compaction", "show_clustering", "export_instants", "run_service"}
"""Procedures that statements and other procedures run, too, one whose rows the core has for CALL to write into files,
and one with the name of a function of the connector."""

SERVICES = """
import json, os, pathlib, sys
from pyspark.sql import SparkSession
from pyspark_hudi import register, run_service, sql
from tests.support.made_up_services import QUIET, announcements, answers
from tests.support.spark import settings, spark_home, start_session

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_HOME"] = spark_home(pathlib.Path(FOLDER, "home"))
session = start_session(SparkSession.builder.master("local[2,2]"), settings(pathlib.Path(FOLDER)))
register(session)

def function(path, name, **given):
    return run_service(session, path, name, options=QUIET, **given)

def statement(path, name, **given):
    named = {"path": path, "service": name, "options": ",".join("=".join(each) for each in QUIET.items()), **given}
    shown = (f"{key} => {value if type(value) is int else repr(value)}" for key, value in named.items())
    (row,) = sql(session, f"CALL run_service({', '.join(shown)})").collect()
    report = row.asDict()
    return {**json.loads(report.pop("details")), **report}

results = {}
for door in (function, statement):
    with announcements() as announced:
        results[door.__name__] = [answers(f"{FOLDER}/{door.__name__}", door), announced]
session.stop()
print(json.dumps(results))
"""


class Named:
    """Tables of a session that has registered `t`. DataFrames are their rows and columns."""

    spark = SimpleNamespace(createDataFrame=lambda rows, columns: (rows, columns))

    def find(self, names: tuple[str, ...]) -> Any:
        return SimpleNamespace(shown="t") if names == ("t",) else None

    def nothing(self) -> Any:
        return [], ""


def run_text(text: str) -> Any:
    tables: Any = Named()
    tokens = tokens_of(text)
    assert tokens is not None
    return run.run_statement(tables, Cursor(text, tokens))


def test_a_statement_touches_the_list_of_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    vacuumed: list[str] = []

    def vacuum(tables: Any, cursor: Cursor) -> Any:
        cursor.need("VACUUM")
        target = tables.find(cursor.names())
        if target is None:
            return None
        cursor.finish()
        vacuumed.append(target.shown)
        return tables.nothing()

    spark: Any = SimpleNamespace()
    monkeypatch.setattr(run, "Tables", lambda spark: Named())
    assert run.run_if_hudi(spark, "VACUUM t", None, {}) is None
    made_up = SqlStatement(("VACUUM",), vacuum, "`VACUUM t`", "removes what nobody reads")
    monkeypatch.setattr(run, "STATEMENTS", (*run.STATEMENTS, made_up))
    found: Any = run.run_if_hudi(spark, "VACUUM t", None, {})
    assert found == ([], "")
    assert vacuumed == ["t"]
    assert run_text("VACUUM u") is None, "of Spark"
    assert "| `VACUUM t` | removes what nobody reads |" in statements.statements()


def test_a_procedure_touches_the_list_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def weigh(target: StatementTarget, given: Given) -> Rows:
        yield target.shown, given["unit"]

    made_up = Procedure({"table": None, "unit": "kg"}, "name STRING, unit STRING", weigh)
    monkeypatch.setitem(call.PROCEDURES, "weigh", made_up)  # type: ignore[arg-type]  # a dict, to others read only
    assert run_text("CALL weigh('t')") == ([("t", "kg")], made_up.columns)
    assert run_text("CALL weigh(table => 't', unit => 'lb')") == ([("t", "lb")], made_up.columns)
    (described,), _ = run_text("CALL help(cmd => 'weigh')")
    assert "unit (default: 'kg')" in described[0]
    assert "weigh" in run_text("CALL help()")[0][0][0]
    assert "| `weigh` | `table`, `unit => 'kg'` |" in statements.procedures()


@pytest.mark.nightly
def test_services_run_by_their_names_alone(tmp_path: Path) -> None:
    """The doors of Spark answer and announce as those of the core, which tests/unit/services has."""
    results = made_up_services.run_with_made_up(tmp_path, SERVICES)
    for door in ("function", "statement"):
        answers, announced = results[door]
        assert answers == list(ANSWERS), door
        assert announced == ANNOUNCED, door


def test_an_argument_that_no_service_takes_is_refused() -> None:
    """Unlike one of Apache Hudi's procedures, which ignore it."""
    for name in ("name", "target", "colour", "Options2"):
        with pytest.raises(ConfigError, match=f"run the service clean with {name.lower()}: it takes only options"):
            run_text(f"CALL run_service('t', 'clean', {name} => 'x')")


def test_a_procedure_is_named_in_one_module() -> None:
    folders = ("connector/pyspark_hudi", "python/hudi_py/inspect/procedures")
    paths = [
        ROOT / "python/hudi_py/health/procedures.py",
        *(each for one in folders for each in (ROOT / one).rglob("*.py")),
    ]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    counts = {name: sum(f'"{name}"' in text for text in texts) for name in call.PROCEDURES.keys() - SHARED}
    assert len(counts) > 40
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_the_page_has_every_statement_and_procedure() -> None:
    text = statements.DOCUMENT.read_text(encoding="utf-8")
    assert statements.updated(text) == text, "the tables of docs/sql.md are out of date: run `make docs-pages`"
