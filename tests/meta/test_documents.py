"""CONTRIBUTING.md and docs/architecture.md describe the code as it is."""

from __future__ import annotations

import pkgutil
import re

import pytest

from tests.meta.sources import ROOT
from tools import layers

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PACKAGES = {"hudi_py": ROOT / "python" / "hudi_py", "pyspark_hudi": ROOT / "connector" / "pyspark_hudi"}


def test_the_table_of_layers_is_current() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert layers.updated(text) == text, "the table of layers is out of date: run `make layers-table`"


def test_a_stale_table_is_noticed() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    stale = text.replace("| 1 | `storage` |", "| 1 | `store` |")
    assert stale != text
    assert layers.updated(stale) == text


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", makefile, re.MULTILINE))
    known = {name for names in targets for name in names.split()}
    text = CONTRIBUTING.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
    assert len(named) > 5
    assert named <= known


def named_modules() -> list[str]:
    """Modules and packages in backquotes, such as `write/api`, `config/` and `pyspark_hudi/writer`."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]*)`", text)))


def test_modules_that_the_architecture_page_names_exist() -> None:
    missing = []
    for name in named_modules():
        first, _, rest = name.partition("/")
        path = PACKAGES[first] / rest if first in PACKAGES else PACKAGES["hudi_py"] / name
        if not path.is_dir() and not path.with_suffix(".py").is_file():
            missing.append(name)
    assert not missing, f"docs/architecture.md names modules that do not exist: {missing}"
    assert len(named_modules()) > 40


def documented_names() -> list[str]:
    """Objects whose docstrings the pages of the API show."""
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    return sorted({name for page in pages for name in re.findall(r"^::: (\S+)", page, re.MULTILINE)})


@pytest.mark.parametrize("name", documented_names())
def test_what_the_api_pages_document_exists(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None
