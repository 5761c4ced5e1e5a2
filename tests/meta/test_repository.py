"""Rules that hold for every file of the repository."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.meta.sources import ROOT, connector, core
from tools.figures import STATE, parameters

MODULES: Final = (*core(), *connector())

MAX_LINES: Final = 500
# Modules that are longer, each with its reason.
REASONED: Final = {"hudi_py.health.codes": "one table, with a row for each finding of the doctor"}

MAX_PARAMETERS: Final = 6
# Functions that users call, with a keyword for each of their options.
MANY_PARAMETERS: Final = {
    "hudi_py.cli.maintain.index_create": "the options of a command",
    "hudi_py.cli.rows.erase": "the options of a command",
    "hudi_py.interop.iceberg.run.publish": "where a table is published, each as one keyword",
    "hudi_py.table.create_table": "what a table is made with, each as one keyword",
    "hudi_py.table.write": "as create_table, for a table that is not there yet",
    "hudi_py.wiring.bootstrap": "as create_table, with what the table is made of",
    "hudi_py.table.scan": "the arguments of a query, each as one keyword",
    "hudi_py.wiring.alter": "the changes of columns, each as one keyword",
    "hudi_py.tending.run.tend": "what a run does and may take, each as one keyword",
    "pyspark_hudi.statements.merge_into": "as MERGE INTO, each part as one keyword",
}

# Spelt in pieces, so that this file does not match itself.
MACHINE_PATHS: Final = re.compile(
    "|".join(("/" + "root/", "/" + "work/", "/" + "home/", "/" + "Users/", "/" + "tmp/orc"))
)
NO_VERB: Final = re.compile(
    r"(The|An?|Whether|What|Which|Those|That|How|As|All|Each|Every|Some|None|Where|By|In|For|Of|To|At|On|From|With(out)?)\b"
)
UNFINISHED: Final = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "raise NotImplemented" + "Error")) + r")\b"
)


def tracked_files() -> list[Path]:
    """Files that git knows, or all files where the checkout came without its history."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    hidden = (".git", ".venv", ".oracle", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
    files = (path for path in ROOT.rglob("*") if path.is_file())
    return [path for path in files if not path.relative_to(ROOT).parts[0].startswith(hidden)]


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def test_a_public_name_is_that_of_one_class() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        for node in ast.walk(ast.parse(module.text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.shown}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_file_names_a_place_on_one_machine() -> None:
    problems = []
    for path in tracked_files():
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            found = MACHINE_PATHS.search(line)
            if found:
                problems.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not problems, "\n".join(problems)


def test_lock_files_name_no_registry() -> None:
    for name in ("requirements-lock.txt", "requirements-oldest-lock.txt", "requirements-docs-lock.txt"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        assert lines
        assert not [line for line in lines if "://" in line or line.startswith("-")]
        assert all("==" in line for line in lines if line and not line.startswith("#"))


def test_modules_are_short() -> None:
    for module in MODULES:
        lines = module.text.count("\n")
        assert lines <= MAX_LINES or module.name in REASONED, (
            f"{module.shown} has {lines} lines, more than {MAX_LINES}: split it, or give the reason in "
            f"{__name__}.REASONED"
        )


def test_functions_take_few_parameters() -> None:
    found = {}
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = parameters(node)
                if len(names) > MAX_PARAMETERS and f"{module.name}.{node.name}" not in MANY_PARAMETERS:
                    found[f"{module.shown}:{node.lineno}: {node.name}"] = names
    assert not found, f"more than {MAX_PARAMETERS} parameters: pass what belongs together as one object\n{found}"


def test_storage_properties_and_timeline_of_a_table_travel_as_its_state() -> None:
    found = [
        f"{module.shown}:{node.lineno}: {node.name}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and set(parameters(node)) >= STATE
    ]
    assert not found, f"takes storage, config and timeline apart: pass a TableState\n{found}"


def test_paths_of_a_tables_own_files_stand_once() -> None:
    found = []
    for module in MODULES:
        if module.name == "hudi_py.model.layout":
            continue
        texts = [
            node for node in ast.walk(module.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        docs = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
        found += [
            f"{module.shown}:{node.lineno}: {node.value!r}"
            for node in texts
            if node.value.startswith(".hoodie") and id(node) not in docs
        ]
    assert not found, "name them in hudi_py.model.layout\n" + "\n".join(found)


def test_docstrings_name_what_they_describe() -> None:
    """One that begins with "Of" leaves its noun to the name above it."""
    found = [
        f"{module.shown}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if str(node.value.value).startswith("Of ")
    ]
    assert not found, found


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """Nouns are for classes, modules, properties and fields."""
    found = [
        f"{module.shown}:{node.lineno} {node.name}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
        if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        if NO_VERB.match(ast.get_docstring(node) or "")
    ]
    assert not found, "begin with a verb and its object\n" + "\n".join(found)


def test_docstrings_describe_arguments_that_exist() -> None:
    found = [
        f"{module.shown}:{node.lineno} {node.name}: {name}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
        for section in re.findall(r"^Args:\n((?:    .*\n?)+)", ast.get_docstring(node) or "", re.MULTILINE)
        for names in re.findall(r"^    (\w+(?:, \w+)*): ", section, re.MULTILINE)
        for name in names.split(", ")
        if name not in {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
    ]
    assert not found, "\n".join(found)


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{module.shown}:{number}: {line.strip()}"
        for module in MODULES
        for number, line in enumerate(module.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not found, "\n".join(found)


def test_reasons_are_for_modules_that_are_there() -> None:
    assert REASONED.keys() <= {module.name for module in MODULES}


def test_packages_say_that_they_are_typed() -> None:
    assert (ROOT / "python/hudi_py/py.typed").is_file()
    assert (ROOT / "connector/pyspark_hudi/py.typed").is_file()
