"""The catalogue of mutations fits the product: `python -m tests.mutations` can put each fault in."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

from tests.mutations.__main__ import DOCUMENT, NOT_RUN, ROOT, document, known, mutated
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


def test_ci_runs_what_notices() -> None:
    """With its own seed, and without the tests of the night; of what did not run yet, some test that is to notice."""
    noticed_by = known(DOCUMENT.read_text(encoding="utf-8"))
    names = [each for mutation in MUTATIONS for each in (noticed_by[mutation.name], *mutation.tests.split())]
    files = {file_of(name) for name in names if name != NOT_RUN}
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-m", "not nightly"]
    environment = {name: value for name, value in os.environ.items() if name != "HUDI_PY_SEED"}
    done = subprocess.run(
        [*command, *sorted(files)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    collected = {line for line in done.stdout.splitlines() if "::" in line}
    wrong = []
    for mutation in MUTATIONS:
        name = noticed_by[mutation.name]
        runs = name in collected if name != NOT_RUN else any(map(mutation.tests.__contains__, map(file_of, collected)))
        if runs is bool(mutation.nightly):
            wrong.append(f"{mutation.name}: {name}")
    assert not wrong, (
        "CI does not run what noticed these: `python -m tests.mutations --write NAME` names a test that it runs, "
        "or the mutation says in `nightly` why there is none\n" + "\n".join(wrong)
    )


def file_of(node: str) -> str:
    return node.partition("::")[0]
