"""The package's page: the README, with links that work outside of the repository.

The build back end loads this file by its path. A link into the repository becomes one to the documentation site if
HUDI_PY_DOCS_URL names its address when the package is built; otherwise it becomes plain text, and pictures are left
out, because a dead link is worse than none.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^)\s]+)\)")
_PAGES = {
    "CONTRIBUTING.md": "contributing.html",
    "CHANGELOG.md": "changelog.html",
    "SECURITY.md": "security.html",
    "benchmarks/README.md": "benchmarks.html",
}


def page(readme: str, site: str | None) -> str:
    """Renders the page as Markdown.

    Args:
        site: the address of the documentation site, or None.
    """

    def pointed(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, mark, anchor = target.partition("#")
        name = _PAGES.get(path) or (
            re.sub(r"\.md$", ".html", path[len("docs/") :]) if path.startswith("docs/") else None
        )
        if site and name:
            return f"{image}[{label}]({posixpath.join(site, name)}{mark}{anchor})"
        return "" if image else label

    return _LINK.sub(pointed, readme)


class PackagePage(MetadataHookInterface):
    """Sets the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = page(readme, os.environ.get("HUDI_PY_DOCS_URL") or None)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
