"""Code blocks of the documentation, and running them.

A page is run from top to bottom in one folder of its own, which stands for `/tmp` and `/data`. What a comment before a
block says:

- `<!-- run: spark -->`: it needs a Spark session, as `spark`.
- `<!-- run: no, REASON -->`: it is only parsed.
- `<!-- setup ... -->` and `<!-- setup: spark ... -->`: Python that runs there, and that readers do not see. With
  `spark`, the whole page needs a session.

A block of `text` is what the block before it prints. Of `bash` and `console`, commands of `hudi-py` are run.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlglot
import yaml
from click.testing import CliRunner

from hudi_py.cli.main import main

_OPEN: Final = re.compile(r"^( *)(```+)(\w*)")
_MARK: Final = re.compile(r"<!-- run: (spark|no, \S.*?) -->$")
_SETUP: Final = re.compile(r"<!-- setup(: spark)?$")
_ITEM: Final = re.compile(r" *([-*]|\d+\.) ")
PROGRAMS: Final = {
    "pip",
    "make",
    "python",
    "pyspark",
    "spark-submit",
    "hudi-py",
    "export",
    "tools/run",
    "sudo",
    "conda",
    "uv",
}
"""What the commands of consoles begin with."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page."""

    line: int
    language: str
    text: str
    mark: str = ""
    """`spark`, or the reason why it is not run after `no, `."""
    is_setup: bool = False

    @property
    def runs(self) -> bool:
        return not self.mark.startswith("no, ")


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in their order."""
    found: list[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    mark = ""
    for number, line in lines:
        if setup := _SETUP.match(line):
            text = "\n".join(_until(lines, "-->"))
            found.append(Block(number, "python", text, "spark" if setup[1] else "", is_setup=True))
        elif fence := _OPEN.match(line):
            indent, closing, language = fence.groups()
            body = [each[len(indent) :] for each in _until(lines, closing)]
            found.append(Block(number, language, "\n".join(body), mark))
            mark = ""
        elif comment := _MARK.match(line.strip()):
            mark = comment[1]
        elif line.strip():
            mark = ""
    return found


def _until(lines: Iterator[tuple[int, str]], closing: str) -> Iterator[str]:
    for _, line in lines:
        if line.strip() == closing:
            return
        yield line
    raise AssertionError(f"a block is not closed by {closing}")


def unfenced(page: Path) -> list[str]:
    """Lines that Markdown takes for code because they are indented: nothing says what language they are in."""
    found, in_fence, in_list, before = [], "", False, ""
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = _OPEN.match(line)
        if fence and not in_fence:
            in_fence = fence[2]
        elif in_fence and line.strip() == in_fence:
            in_fence = ""
        elif not in_fence:
            in_list = bool(_ITEM.match(line)) or (in_list and (not line.strip() or line.startswith(" ")))
            if line.startswith("    ") and line.strip() and not before.strip() and not in_list:
                found.append(line)
        before = line
    return found


def needs_spark(page: Path) -> bool:
    """Whether a page cannot be run at all without a session."""
    return any(block.is_setup and block.mark == "spark" for block in blocks(page))


def has_spark(page: Path) -> bool:
    return any(block.mark == "spark" or (block.language == "sql" and block.runs) for block in blocks(page))


def run_page(page: Path, folder: Path, known: dict[str, Any], sql: Callable[[str], object] | None = None) -> int:
    """Runs a page, and returns how many blocks ran.

    Args:
        sql: runs a statement; None: there is no Spark, so blocks that need it are only parsed.
    """
    ran, printed = 0, None
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        text = re.sub(r"(?<![\w.])/(tmp|data)/", rf"{folder}/\1/", block.text)
        if block.language == "text":
            if printed is not None and block.runs:
                shown = [line.rstrip() for line in block.text.strip().splitlines()]
                assert [line.rstrip() for line in printed.strip().splitlines()] == shown, f"{where}: printed\n{printed}"
            continue
        printed = None
        code = parsed(block, text, where)
        if not block.runs or (block.mark == "spark" and sql is None):
            continue
        if code is not None:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(code, known)
            printed = out.getvalue()
        elif block.language in ("bash", "console"):
            ours = [command[1:] for command in _commands(block.language, text) if command[0] == "hudi-py"]
            if not ours:
                continue
            for command in ours:
                done = CliRunner().invoke(main, command)
                assert done.exit_code == 0, f"{where}: {command}\n{done.output}"
        elif block.language == "sql" and sql is not None:
            for statement in filter(str.strip, re.sub(r"--.*", "", text).split(";")):
                sql(statement)
        else:
            continue
        ran += not block.is_setup
    return ran


def parsed(block: Block, text: str, where: str) -> Any:
    """The code object of Python; everything else is only looked at.

    Raises:
        AssertionError: the block is in no known language, or is not right in its own.
    """
    if block.language == "python":
        return compile(text, where, "exec")
    if block.language == "console":
        for command in _commands(block.language, text):
            assert command[0] in PROGRAMS, f"{where}: {command[0]} is no program that pages use"
    elif block.language == "bash":
        subprocess.run(["bash", "-n", "-c", text], check=True)
    elif block.language == "sql":
        assert sqlglot.parse(text, dialect="spark"), where
    elif block.language == "yaml":
        yaml.safe_load(text)
    elif block.language == "json":
        json.loads(text)
    else:
        assert block.language in ("text", "properties", "jinja"), (
            f"{where}: no language, or an unknown one: {block.language!r}"
        )
    return None


def _commands(language: str, text: str) -> list[list[str]]:
    """The commands of a block, in words. In a console they come after a dollar, beside their output."""
    if language == "bash":
        return [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("hudi-py ")]
    found = [shlex.split(line[2:], comments=True) for line in text.splitlines() if line.startswith("$ ")]
    assert found, "a console without a command"
    return found
