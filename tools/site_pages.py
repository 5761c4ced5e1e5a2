"""The pages of the documentation site, gathered into one folder with links between them; `make docs` builds it from
there, and then has `finish` look at what was built.

Most pages lie in `docs`. Some documents of the repository lie elsewhere, where people look for them; links between all
of them are those of the repository, so that they work where it is browsed, and are pointed at pages of the site here.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "build" / "pages"
OUTSIDE: Final = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/commits.svg": "commits.svg",
    "spark-conf/README.md": "spark-conf.md",
}
"""Files of the repository outside `docs`, and their names in the site."""
STANDS_FOR: Final = {"README.md": "index.md"}
"""Links to a document that is no page lead to the page that says the same."""
SITE: Final = ROOT / "build" / "site"
BREAKPOINTS: Final = {"76.25em": "70em", "76.234375em": "69.984375em"}
"""The width from which the theme shows the navigation instead of a button for it: 1,220 pixels, which is more than half
of many a screen, and 1,120 here. Queries of media take no variables, so a style sheet of ours cannot say so."""
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"^(```+).*?^\1|``.+?``|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Names of the site's pages and assets, and the files of the repository that they are made of."""
    docs = ROOT / "docs"
    found = {path.relative_to(docs).as_posix(): f"docs/{path.relative_to(docs).as_posix()}" for path in files(docs)}
    return found | {name: path for path, name in OUTSIDE.items()}


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def linked(text: str, name: str, origin: str) -> str:
    """A page's text with its links pointed at pages of the site; links to files that have none become plain text.

    Raises:
        SystemExit: a link leads to a file that the repository does not have.
    """
    names = {path: page for page, path in pages().items()} | STANDS_FOR

    def pointed(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, mark, anchor = target.partition("#")
        aim = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        if not (ROOT / aim).exists():
            raise SystemExit(f"{origin} links to {target}, which the repository does not have")
        if aim not in names:
            return label
        if image and aim.startswith("docs/assets/"):  # in the page itself, a drawing follows the page's theme
            return f"<figure>\n{(ROOT / aim).read_text(encoding='utf-8').strip()}\n</figure>"
        return f"{image}[{label}]({posixpath.relpath(names[aim], posixpath.dirname(name) or '.')}{mark}{anchor})"

    return outside_code(text, lambda part: _LINK.sub(pointed, part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """A Markdown text, changed everywhere but in code."""
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])


def finish(site: Path = SITE) -> None:
    """Move the breakpoints of the theme.

    Raises:
        SystemExit: neither style sheets nor scripts have them: this release of the theme names another width.
    """
    for folder, ending in (("stylesheets", "css"), ("javascripts", "js")):
        built = (site / "assets" / folder).rglob(f"*.{ending}")
        texts = {path: path.read_text(encoding="utf-8") for path in built}
        moved = {path: _moved(text) for path, text in texts.items() if _moved(text) != text}
        if not moved:
            raise SystemExit(f"no file of assets/{folder} names the theme's width {next(iter(BREAKPOINTS))}")
        for path, text in moved.items():
            path.write_text(text, encoding="utf-8")


def _moved(text: str) -> str:
    for width, ours in BREAKPOINTS.items():
        text = text.replace(width, ours)
    return text


def gather() -> None:
    """Write all pages into the folder."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, path in pages().items():
        target = FOLDER / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            target.write_text(linked((ROOT / path).read_text(encoding="utf-8"), name, path), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, target)


if __name__ == "__main__":
    finish() if sys.argv[1:] == ["finish"] else gather()
