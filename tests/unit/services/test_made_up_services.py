"""Made-up services: each is described in one module, and a list names it. Whatever runs services knows it then."""

from __future__ import annotations

from typing import Any

import pytest

from hudi_py.model.operation import REWRITING
from hudi_py.services.planned.pending import SERVICE_ACTIONS
from tests.support import made_up_services
from tests.support.made_up_services import ANNOUNCED, ANSWERS

CORE = """
import json
from click.testing import CliRunner
import hudi_py
from hudi_py.cli.main import main
from hudi_py.errors import HudiError
from tests.support.made_up_services import QUIET, announcements, answers, make_table
from tools.services import services as documented

def table(path, name, **given):
    return hudi_py.open_table(path, QUIET).services.run(name, **given).to_dict()

def program(*arguments, code=0):
    ran = CliRunner().invoke(main, [str(each) for each in arguments])
    if ran.exit_code:
        raise HudiError(json.loads(ran.stderr)["message"])
    return json.loads(ran.stdout)

def command(path, name, **given):
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in given.items()]
    return program("run", path, name, *flags, "--yes", "--json")

results = {}
for door in (table, command):
    with announcements() as announced:
        results[door.__name__] = [answers(f"{FOLDER}/{door.__name__}", door), announced]

path = f"{FOLDER}/written"
make_table(path)
rows = [{"id": 2, "p": "x", "v": 2}]
results["after"] = hudi_py.write(path, rows, "insert", {**QUIET, "hoodie.compact.schedule.inline": "true"}).services
opened = hudi_py.open_table(path)
results["plans"] = sorted({row["service"] for row in opened.services.pending().to_pylist()})
results["due"] = {each.service: each.due for each in opened.services.due()}
results["preview"] = program("run", path, "freshen", "--dry-run", "--json")["reason"]
shown = program("show", path, "--json")
results["next"] = [step["command"].replace(path, "PATH") for step in shown["next"]]
pending = opened.services.planned("freshen")
results["fresh"] = pending.run().num_file_groups
results["help"] = CliRunner().invoke(main, ["run", "--help"]).output
results["documented"] = documented()
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_up_services.run_with_made_up(tmp_path_factory.mktemp("made_up"), CORE)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["table", "command"])
def test_doors_give_the_same_reports_errors_and_announcements(results: Any, door: str) -> None:
    answers, announced = results[door]
    assert answers == list(ANSWERS)
    assert announced == ANNOUNCED


@pytest.mark.slow
def test_they_follow_commits_and_are_listed(results: Any) -> None:
    assert results["after"] == ["freshen plan", "tally"]
    assert results["plans"] == ["freshen"]
    assert (results["due"]["freshen"], results["due"]["tally"]) == (True, True)  # a plan is pending
    assert results["preview"] == "no file is left"
    assert results["next"][:2] == ["hudi-py run PATH freshen", "hudi-py run PATH tally"]
    assert results["fresh"] == 2


@pytest.mark.slow
def test_they_are_documented(results: Any) -> None:
    assert "--most: how many file groups at most." in " ".join(results["help"].split())
    assert "| `tally` | Counts files |  | `partition`: where to count; `least`: the least size" in results["documented"]
    assert "| `freshen` | Moves the rows of each file group to a new one | yes |" in results["documented"]


def test_how_many_modules_each_touches() -> None:
    """Besides its own; 20 to 22 and 8 before there were descriptions."""
    assert len(made_up_services.PLANNED) <= 2
    assert len(made_up_services.STEP) <= 1


def test_operations_of_services_change_no_rows() -> None:
    assert SERVICE_ACTIONS.keys() == REWRITING
