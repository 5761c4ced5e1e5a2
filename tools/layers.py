"""CONTRIBUTING.md's table of layers, generated from the test that enforces them: `make layers-table` writes it."""

from __future__ import annotations

import sys
from typing import Final

from tests.meta.test_layers import LAYERS
from tools.matrix import ROOT, replaced, table

DOCUMENT: Final = ROOT / "CONTRIBUTING.md"
BEGIN: Final = "<!-- layers: begin, written by `make layers-table` from tests/meta/test_layers.py -->"
END: Final = "<!-- layers: end -->"


def layers() -> str:
    """Renders the table between its markers."""
    rows = [
        (str(number), ", ".join(f"`{name}`" for name in layer.packages), layer.knows)
        for number, layer in enumerate(LAYERS)
    ]
    return "\n".join([BEGIN, *table(["layer", "packages of `hudi_py`", "knows"], rows), END])


def updated(text: str) -> str:
    """Returns CONTRIBUTING.md's text with the current table between its markers."""
    return replaced(text, layers(), DOCUMENT.name)


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
