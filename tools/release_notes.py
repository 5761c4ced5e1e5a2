"""Extracts the notes of a release from CHANGELOG.md: a version's section, or the unreleased part. See `make
release-notes`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

CHANGELOG: Final = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """Returns a version's section, or the unreleased one, `Unreleased` or `0.1.0 (unreleased)`.

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
    """Prints the notes of the version on the command line."""
    sys.stdout.write(notes(CHANGELOG.read_text(encoding="utf-8"), (sys.argv[1:] or ["Unreleased"])[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
