"""The README says what is: its commands exist, and its matrix is the one that the tests give."""

from __future__ import annotations

import re

from tests.meta.sources import ROOT
from tools import matrix

README = ROOT / "README.md"


def test_the_matrix_is_current() -> None:
    for document in matrix.DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert matrix.updated(text) == text, f"the compatibility matrix of {document} is out of date: run `make matrix`"


def test_the_two_commands_are_named() -> None:
    text = README.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), (
            f"README.md names `make {target}`, the Makefile does not"
        )
    assert "make demo" in text
    assert "make test" in text
