"""The catalogue of mutations fits the product: `python -m tests.mutations` can put each fault in."""

from __future__ import annotations

import ast

from tests.mutations.__main__ import DOCUMENT, ROOT, document, known, mutated
from tests.mutations.catalogue import MUTATIONS


def test_a_mutation_changes_what_its_module_does() -> None:
    for mutation in MUTATIONS:
        text = (ROOT / mutation.file).read_text()
        assert ast.dump(ast.parse(mutated(text, mutation))) != ast.dump(ast.parse(text)), mutation.name
        for tests in mutation.tests.split():
            assert (ROOT / tests.partition("::")[0]).exists(), tests


def test_names_are_distinct() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(names) == len(set(names)) >= 40


def test_the_document_has_a_line_for_each() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert document(known(text)) == text, "out of date: run `python -m tests.mutations --write NAME` for what is new"
    assert "SURVIVED" not in text
