"""The catalogue of mutations fits the product: `python -m tests.mutations` can put each fault in."""

from __future__ import annotations

import ast

from tests.mutations.__main__ import ROOT, mutated
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
