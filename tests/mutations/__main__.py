"""Puts each fault of the catalogue into a copy of the product, and runs the tests that are to notice.

python -m tests.mutations               # all of them; exits with 1 where one is not noticed
python -m tests.mutations lock clean    # those whose name contains one of the words
python -m tests.mutations --write       # keeps the outcome in README.md, where those that did not run stay as they are
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutations.catalogue import MUTATIONS, Mutation

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("python", "connector")
DOCUMENT: Final = Path(__file__).with_name("README.md")
HEAD: Final = """# Mutations: which test notices which fault

Written by `python -m tests.mutations --write`, which puts each fault of `catalogue.py` into a copy of the product and
runs the tests that are to notice it. The last column is the test that failed first when it was last run.

| fault | suite | noticed by |
| --- | --- | --- |
"""
NOT_RUN: Final = "not run yet"


class Outcome(NamedTuple):
    killed: bool
    by: str
    """The test that failed first, or why there is none."""
    seconds: float


def mutated(text: str, mutation: Mutation) -> str:
    """The text of a module with the fault in it. Raises ValueError unless its place is there exactly once."""
    count = text.count(mutation.old)
    if count != 1:
        raise ValueError(f"{mutation.file} has the text of {mutation.name!r} {count} times; expected once")
    return text.replace(mutation.old, mutation.new)


def run(mutation: Mutation | None, tests: list[str]) -> Outcome:
    """Runs tests on a copy of the product, with a fault in it or as it is."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hudi-py-mutation-") as folder:
        for name in SOURCES:
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        if mutation is not None:
            module = Path(folder, mutation.file)
            module.write_text(mutated(module.read_text(), mutation))
        # a folder for what the tests write, so that it goes with the copy
        level = "not long" if mutation is not None and mutation.nightly else "not nightly"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", level, "-p", "no:cacheprovider"]
        command += ["--basetemp", str(Path(folder, "tmp")), *tests]
        path = os.pathsep.join([*(str(Path(folder, name)) for name in SOURCES), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
    seconds = time.monotonic() - started
    failed = [
        line.partition(" ")[2].partition(" - ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    ]
    if done.returncode == 1 and failed:
        return Outcome(True, failed[0], seconds)
    if done.returncode == 0:
        return Outcome(False, "no test failed", seconds)
    return Outcome(False, f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}", seconds)


def known(text: str) -> dict[str, str]:
    """By the name of a mutation what the document says of it."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[2].strip("`") for row in rows if len(row) == 3}


def document(outcomes: dict[str, str]) -> str:
    """The document, with a line for each mutation of the catalogue."""
    rows = [(each.name, each.suite, outcomes.get(each.name, NOT_RUN)) for each in MUTATIONS]
    return HEAD + "".join(f"| {name} | {suite} | {by if by == NOT_RUN else f'`{by}`'} |\n" for name, suite, by in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("words", nargs="*", help="only mutations whose name contains one of these")
    parser.add_argument("--jobs", type=int, default=2, help="how many run side by side")
    parser.add_argument("--write", action="store_true", help="keep the outcome in README.md beside this module")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS if not arguments.words or any(word in m.name for word in arguments.words)]
    survivors = 0
    outcome_of = known(DOCUMENT.read_text(encoding="utf-8")) if arguments.write and DOCUMENT.exists() else {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = pool.map(lambda mutation: run(mutation, mutation.tests.split()), chosen)
        for mutation, outcome in zip(chosen, outcomes, strict=True):
            survivors += not outcome.killed
            word = "killed  " if outcome.killed else "SURVIVED"
            print(f"{word} {outcome.seconds:5.1f} s  {mutation.name}: {outcome.by}", flush=True)
            if arguments.write:  # after each: a run may be broken off
                outcome_of[mutation.name] = outcome.by if outcome.killed else "SURVIVED"
                DOCUMENT.write_text(document(outcome_of), encoding="utf-8")
    print(f"{len(chosen) - survivors} of {len(chosen)} mutations noticed", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
