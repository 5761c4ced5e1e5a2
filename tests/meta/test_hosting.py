"""Files for the place where the project is hosted, and for editors: they call what is there, and repeat no rule."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

from tests.meta.sources import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def steps(text: str) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_the_makefile_or_ci(path: Any) -> None:
    commands = [shlex.split(step["run"]) for step in steps(path.read_text(encoding="utf-8")) if "run" in step]
    assert commands
    for command in commands:
        if command[0] == "make":
            assert set(command[1:]) <= TARGETS
        else:
            assert (ROOT / command[0]).is_file()


def test_the_workflow_of_the_gate_has_the_pythons_that_the_gate_names() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    named = re.search(r'PYTHONS="([^"]+)"', gate)
    assert named
    (setup,) = (
        step for step in steps((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")) if "with" in step
    )
    assert set(named[1].split()) <= set(setup["with"]["python-version"].split())


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_name_each_field_once(path: Any) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"]
    assert form["description"]
    fields = [field["id"] for field in form["body"] if "id" in field]
    assert len(set(fields)) == len(fields)
    assert all(field["attributes"]["label"] for field in form["body"] if "id" in field)


def test_hooks_before_a_commit_use_the_tools_of_the_environment() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["entry"].startswith("tools/run ")
        for name in re.findall(r"tests/\S+", hook["entry"]):
            assert (ROOT / name).is_file()


def test_editors_wrap_python_where_ruff_does() -> None:
    wanted = re.search(r"line-length = (\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = re.search(r"\[\*\.py\]\nmax_line_length = (\d+)", (ROOT / ".editorconfig").read_text(encoding="utf-8"))
    assert wanted
    assert found
    assert wanted[1] == found[1]
