"""The documentation: every page is in the site, every link leads somewhere, and every block of code runs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml

import hudi_py
from hudi_py.cli.main import main
from hudi_py.config.options import HONOURED
from tests.meta.sources import ROOT
from tests.support.pages import blocks, has_spark, needs_spark, parsed, run_page, unfenced
from tools import known_options, site_pages

PAGES: Final = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS: Final = [ROOT / "README.md", *(ROOT / path for path in site_pages.OUTSIDE if path.endswith(".md")), *PAGES]
ELSEWHERE: Final = {
    "README.md": "tests/connector/test_readme.py",
    "docs/doctor.md": "tests/unit/health/test_doctor.py",
}
"""Documents whose blocks are run by another test, with what they need."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def in_navigation(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for each in part:
            yield from in_navigation(each)
    else:
        yield from in_navigation(list(part.values()))


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(in_navigation(navigation)) == sorted(name for name in site_pages.pages() if name.endswith(".md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_code_is_fenced_and_right_in_its_language(document: Path) -> None:
    assert unfenced(document) == []
    for block in blocks(document):
        parsed(block, block.text, f"{document.name}:{block.line}")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if named(page) not in ELSEWHERE and not needs_spark(page)], ids=named
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tmp", "data"):
        (tmp_path / name).mkdir()
    able = [block for block in blocks(page) if block.runs and not block.mark and not block.is_setup]
    ours = [
        block for block in able if block.language == "python" or re.search(r"^(\$ )?hudi-py ", block.text, re.MULTILINE)
    ]
    assert run_page(page, tmp_path, {"__name__": "page"}) == len([block for block in ours if block.language != "text"])


def test_blocks_that_are_run_elsewhere() -> None:
    for document, test in ELSEWHERE.items():
        assert Path(document).name in (ROOT / test).read_text(encoding="utf-8")
    assert has_spark(ROOT / "docs" / "spark.md")


@functools.cache
def anchors(document: Path) -> set[str]:
    """Anchors of a document's headings, as GitHub and the site make them."""
    text = document.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ +(.+?) *$", re.sub(r"^(```+).*?^\1", "", text, flags=re.M | re.S), re.M)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)) for title in titles]
    return {title.strip().lower().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    wrong: list[str] = []
    text = document.read_text(encoding="utf-8")

    def look(part: str) -> str:
        for target in re.findall(r"\]\(([^)\s]+)\)", part):
            if not re.match(r"[a-z]+:", target):
                path, _, anchor = target.partition("#")
                aim = document.parent / path if path else document
                known = not anchor or (aim.is_file() and anchor in anchors(aim))
                if not aim.exists() or not known:
                    wrong.append(target)
        return part

    site_pages.outside_code(text, look)
    assert not wrong


def test_links_of_the_repository_become_links_of_the_site() -> None:
    text = (
        "[a](../CONTRIBUTING.md#tests) `[b](x.md)` [c](../README.md) [d](../examples/demo.py) "
        "![e](../benchmarks/commits.svg)"
    )
    expected = "[a](../contributing.md#tests) `[b](x.md)` [c](../index.md) d ![e](../commits.svg)"
    assert site_pages.linked(text, "api/p.md", "docs/p.md") == expected
    with pytest.raises(SystemExit, match=r"docs/p\.md links to nothing\.md, which"):
        site_pages.linked("[x](nothing.md)", "p.md", "docs/p.md")


def test_the_page_of_known_options_is_current() -> None:
    assert known_options.PAGE.read_text(encoding="utf-8") == known_options.page(), "run `make docs-pages`"
    assert sum(map(len, known_options.COMMON.values())) >= 130


def test_links_to_options_lead_to_their_description() -> None:
    described = anchors(ROOT / "docs" / "options.md")
    assert {known_options.anchor(option) for option in HONOURED if not option.internal} <= described


def procedures() -> Iterator[tuple[list[str], str, str]]:
    """Rows of the table of procedures: names, SQL, and what Python and the command line have."""
    text = (ROOT / "docs" / "apache-hudi.md").read_text(encoding="utf-8").split("## Procedures")[1].split("\n## ")[0]
    for line in text.splitlines():
        if line.startswith("| `"):
            names, statement, rest = line.strip("| ").split(" | ", 2)
            yield re.findall(r"`([a-z_]+)`", names), statement, rest


def test_procedures_that_sql_has() -> None:
    known = set(pytest.importorskip("pyspark_hudi.dialect.call").PROCEDURES) - {"run_service"}  # of hudi-py alone
    assert {name for names, statement, _ in procedures() if statement == "`CALL`" for name in names} == known


def test_what_stands_for_procedures_exists() -> None:
    for _, _, rest in procedures():
        for name in re.findall(r"`Table\.(\w+)`", rest):
            assert hasattr(hudi_py.Table, name)
        for command in re.findall(r"`hudi-py ([^`]+)`", rest):
            words = command.split()
            group: click.Command = main
            options: set[str] = set()
            while words and isinstance(group, click.Group) and words[0] in group.commands:
                group = group.commands[words.pop(0)]
                options = {option for param in group.params for option in param.opts}
            assert {word for word in words if word.startswith("-")} <= options | {"--help"}, command
            assert all(
                word.startswith("-") or before.startswith("-")
                for before, word in zip(["-", *words], words, strict=False)
            ), command


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    described = set(re.findall(r"::: [\w.]*?(\w+)$", text, re.MULTILINE))
    described |= {name for names in re.findall(r"members: \[(.*?)\]", text) for name in names.split(", ")}
    errors = {name for name in hudi_py.__all__ if name.endswith("Error")}  # by their module
    assert set(hudi_py.__all__) - errors <= described
    public = re.search(
        r"^__all__ = \[(.*?)\]", (ROOT / "connector/pyspark_hudi/__init__.py").read_text("utf-8"), re.M | re.S
    )
    assert public is not None
    assert set(re.findall(r'"(\w+)"', public[1])) <= described


def test_readme_and_start_page_begin_alike() -> None:
    readme, start = (
        (ROOT / name).read_text(encoding="utf-8").split(f"## {behind}")[0]
        for name, behind in (("README.md", "Install"), ("docs/index.md", "Start in five minutes"))
    )
    links = re.compile(r"\]\([^)]*\)")
    assert links.sub("]", readme) == links.sub("]", start)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_lines_of_python_fit_the_column(page: Path) -> None:
    """The site shows 80 characters beside its navigation; only a long text may make a line longer."""
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        long = [line for line in block.splitlines() if len(line) > 80 and not re.search(r'"[^"]{45,}"', line)]
        assert long == []
