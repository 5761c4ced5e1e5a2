"""The notes of a release: its section of CHANGELOG.md, or the part not yet released. See `make release-notes`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

CHANGELOG: Final = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """The text of a version's section, or of what is not yet released, `Unreleased` or `0.1.0 (unreleased)`.

    Raises:
        SystemExit: the changelog has no such section, or an empty one.
    """
    for section in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        names = {title.strip("[] ").split("]")[0].split(" ")[0].lower()}
        if title.lower().endswith("(unreleased)"):
            names.add("unreleased")
        if version.lower() in names and text.strip():
            return text.strip() + "\n"
    raise SystemExit(f"CHANGELOG.md says nothing about {version}")


def main() -> int:
    """Print the notes of the version on the command line."""
    sys.stdout.write(notes(CHANGELOG.read_text(encoding="utf-8"), (sys.argv[1:] or ["Unreleased"])[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
