"""What is said of the package in several places is said alike, and a wheel that is not as it should be is noticed."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import hudi_py
from tests.meta.sources import ROOT
from tools import check_wheel, package_page, release_notes

PROJECT = check_wheel.project()
needs_toml = pytest.mark.skipif(not PROJECT, reason="Python 3.10 cannot read pyproject.toml")
# Names of packages in conda-forge that differ.
CONDA = {"fastavro": "python-fastavro", "duckdb": "python-duckdb"}


def ranges(requirements: list[str]) -> dict[str, str]:
    """Names, as conda has them, and ranges of versions."""
    found = [re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])? ?(\S.*)", each) for each in requirements]
    return {CONDA.get(each[1], each[1]): each[2] for each in found if each is not None}


@needs_toml
def test_versions_agree() -> None:
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe/recipe.yaml").read_text(encoding="utf-8"))
    assert PROJECT["version"] == hudi_py.__version__ == recipe["context"]["version"]
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert release_notes.notes(changelog, hudi_py.__version__)
    assert release_notes.notes(changelog, "Unreleased")


@needs_toml
def test_the_recipe_requires_what_the_package_requires() -> None:
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe/recipe.yaml").read_text(encoding="utf-8"))
    needed = ranges(recipe["requirements"]["run"])
    needed.pop("python", None)
    assert needed == ranges(PROJECT["dependencies"])
    extras = {name: each for name, each in PROJECT["optional-dependencies"].items() if name not in ("all", "testing")}
    optional = {name: text for each in extras.values() for name, text in ranges(each).items()}
    assert ranges(recipe["requirements"]["run_constraints"]) == optional
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == f"hudi-py = {PROJECT['scripts']['hudi-py']}"
    assert recipe["about"]["summary"] == PROJECT["description"]


@needs_toml
def test_all_has_every_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    (whole,) = extras["all"]
    named = set(whole.removeprefix("hudi-py[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "testing", "spark"}  # `connect` has what `spark` has
    assert ranges(extras["spark"]) == ranges(extras["connect"])


def test_only_the_api_is_shown() -> None:
    assert dir(hudi_py) == sorted(hudi_py.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+", hudi_py.__version__)


def test_the_page_of_the_package_needs_no_repository() -> None:
    text = (
        "[a](docs/sql.md#b) [c](https://c) ![d](docs/assets/x.svg) [e](#f) [g](CONTRIBUTING.md) "
        "[h](docs/differences/not-built.md)"
    )
    assert package_page.page(text, None) == "a [c](https://c)  [e](#f) g h"
    assert package_page.page(text, "https://docs.example") == (
        "[a](https://docs.example/sql.html#b) [c](https://c) ![d](https://docs.example/assets/x.svg) [e](#f) "
        "[g](https://docs.example/contributing.html) "
        "[h](https://docs.example/differences/not-built.html)"
    )
    assert not re.search(r"\]\((docs|[A-Z])", package_page.page((ROOT / "README.md").read_text(encoding="utf-8"), None))


def test_notes_of_a_release() -> None:
    text = "# Changelog\n\n## Unreleased\n\n## [1.1.0] - 2027-01-31\n\n- two\n\n## 1.0.0\n\n- one\n"
    assert release_notes.notes(text, "1.1.0") == "- two\n"
    assert release_notes.notes(text, "1.0.0") == "- one\n"
    for version in ("Unreleased", "2.0.0"):
        with pytest.raises(SystemExit, match=version):
            release_notes.notes(text, version)
    text = "# Changelog\n\n## 1.2.0 (unreleased)\n\n- three\n\n## 1.1.0\n\n- two\n"
    assert [release_notes.notes(text, each) for each in ("1.2.0", "Unreleased", "1.1.0")] == [
        *("- three\n", "- three\n", "- two\n")
    ]


@needs_toml
def test_the_changelog_says_what_the_release_is_tested_with() -> None:
    """The versions are those of the lock files, which the tests run with."""
    text = release_notes.notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "Unreleased")
    rows = dict(re.findall(r"^\| ([a-z0-9-]+)[^|]* \| ([^|]+ \| [^|]+) \|$", text.split("### Added")[0], re.MULTILINE))
    for name, told in rows.items():
        oldest, newest = (
            re.findall(rf"^{name}==([^ ;\n]+)", (ROOT / f"requirements-{lock}.txt").read_text("utf-8"), re.MULTILINE)
            for lock in ("oldest-lock", "lock")
        )
        old, _, new = told.partition(" | ")
        assert old in oldest, name
        assert max(newest, key=lambda each: [int(part) for part in each.split(".")]) == new.split(",")[0], name
        assert set(new.split(" ")[-1:]) <= set(newest), name
    extras = {re.split(r"[^\w-]", each)[0] for group in PROJECT["optional-dependencies"].values() for each in group}
    needed = {re.split(r"[^\w-]", each)[0] for each in PROJECT["dependencies"]} | extras - {
        "hudi-py",
        "pytest",
        "hypothesis",
    }
    assert {name.replace("_", "-") for name in needed} <= set(rows)


DECLARED: dict[str, Any] = {
    "name": "hudi-py",
    "version": "1.0",
    "description": "Tables",
    "requires-python": ">=3.10",
    "dependencies": ["pyarrow>=23"],
    "optional-dependencies": {"s3": ["obstore"]},
}
METADATA = """Metadata-Version: 2.4
Name: hudi-py
Version: 1.0
Summary: Tables
Requires-Python: >=3.10
Project-URL: Format, https://hudi.apache.org
Requires-Dist: pyarrow>=23
Requires-Dist: obstore; extra == 's3'
Provides-Extra: s3
Description-Content-Type: text/markdown

pip install hudi-py
"""


def wheel(folder: Path, **changes: str | None) -> str:
    """A wheel with the files that are needed; None leaves one out."""
    info = "hudi_py-1.0.dist-info"
    files: dict[str, str | None] = {
        **dict.fromkeys(
            (f"{name}/{file}" for name in check_wheel.PACKAGES for file in ("__init__.py", "py.typed")), ""
        ),
        **dict.fromkeys(check_wheel.ASSETS, ""),
        f"{info}/METADATA": METADATA,
        f"{info}/entry_points.txt": "[console_scripts]\nhudi-py = hudi_py.cli.main:main\n",
        f"{info}/licenses/LICENSE": "",
    } | {name.replace("INFO", info): text for name, text in changes.items()}
    path = folder / "hudi_py-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            if text is not None:
                archive.writestr(name, text)
    return str(path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"hudi_py/py.typed": None}, ["hudi_py/py.typed is missing"]),
        ({"tests/test_a.py": ""}, ["unexpected: tests", "unexpected: tests/test_a.py"]),
        ({"hudi_py/__pycache__/a.pyc": ""}, ["unexpected: hudi_py/__pycache__/a.pyc"]),
        ({"INFO/licenses/LICENSE": None}, ["the licence is missing"]),
        ({"INFO/entry_points.txt": "[console_scripts]\n"}, ["the command hudi-py is missing"]),
        (
            {"INFO/METADATA": METADATA.replace("Version: 1.0", "Version: 1.1")},
            ["Version is '1.1', and '1.0' in pyproject.toml"],
        ),
        (
            {"INFO/METADATA": METADATA.replace("Provides-Extra: s3", "X: y")},
            ["extras are [], and ['s3'] in pyproject.toml"],
        ),
        (
            {"INFO/METADATA": METADATA + "[options](docs/options.md)"},
            ["the page links to docs/options.md, which leads nowhere outside the repository"],
        ),
    ],
    ids=["right", "untyped", "tests", "compiled", "licence", "command", "version", "extras", "links"],
)
def test_a_wheel_that_is_not_as_it_should_be_is_noticed(
    tmp_path: Path, changes: dict[str, str | None], told: list[str]
) -> None:
    assert sorted(check_wheel.problems(wheel(tmp_path, **changes), DECLARED)) == sorted(told)
