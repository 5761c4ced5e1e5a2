"""Gathers the pages of the documentation site into one folder, with links between them; `make docs` builds the site
from it, and then runs `finish` on the result.

Most pages are in `docs`; other documents of the repository are where people look for them. Links between all of them
are those of the repository, so that they work when browsing it; this module rewrites them to pages of the site.
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
"""Files of the repository outside of `docs`, and their names in the site."""
STANDS_FOR: Final = {"README.md": "index.md"}
"""Pages that replace documents which are no pages, for links to them."""
SITE: Final = ROOT / "build" / "site"
BREAKPOINTS: Final = {"76.25em": "70em", "76.234375em": "69.984375em"}
"""Width from which the theme shows the navigation instead of a button for it: originally 1,220 pixels, which is more
than half of many screens, and 1,120 here. Media queries take no variables, so our own style sheet cannot change it."""
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"^(```+).*?^\1|``.+?``|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Maps names of the site's pages and assets to the files of the repository they are made from."""
    docs = ROOT / "docs"
    found = {path.relative_to(docs).as_posix(): f"docs/{path.relative_to(docs).as_posix()}" for path in files(docs)}
    return found | {name: path for path, name in OUTSIDE.items()}


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def linked(text: str, name: str, origin: str) -> str:
    """Rewrites links of a page to pages of the site; links to files without a page become plain text.

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
    """Changes a Markdown text everywhere except in code."""
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])


def finish(site: Path = SITE) -> None:
    """Moves the breakpoints of the theme.

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
    """Writes all pages into the folder."""
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
