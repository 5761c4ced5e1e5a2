"""Generates the compatibility matrix of docs/compatibility.md from what the tests compare: `make matrix`.

Reading comes from the golden tables and their table of expectations, writing from the operations and tables of the
interoperability tests. A test fails if the page differs.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.golden.expectations import ASKED, BEYOND, refusal
from tests.golden.tables import GoldenTable, load

ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = ROOT / "docs" / "compatibility.md"
BEGIN: Final = "<!-- matrix: begin, written by `make matrix` -->"
END: Final = "<!-- matrix: end -->"

VERSIONS: Final = (6, 8, 9)
TYPES: Final = ("COPY_ON_WRITE", "MERGE_ON_READ")
SHORT: Final = {"COPY_ON_WRITE": "COW", "MERGE_ON_READ": "MOR"}
WRITE_TESTS: Final = ROOT / "tests" / "oracle" / "test_interoperability.py"
WRITE_TEST: Final = "test_apache_hudi_reads_every_operation"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Renders lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def columns() -> list[tuple[int, str]]:
    return [(version, kind) for version in VERSIONS for kind in TYPES]


def headings() -> list[str]:
    return [f"v{version} {SHORT[kind]}" for version, kind in columns()]


def cell(tables: Iterable[GoldenTable], kind: str) -> str:
    """Counts the tables whose queries of this kind are all answered, out of those that have any."""
    answered = [
        not any(refusal(query) for query in golden.expected if query.kind == kind)
        for golden in tables
        if any(query.kind == kind for query in golden.expected)
    ]
    return f"{sum(answered)} of {len(answered)}" if answered else "-"


def reading() -> list[str]:
    """Renders the table of reads."""
    tables = list(load().values())
    rows = []
    for kind in ASKED:
        row = [kind.replace("_", " ")]
        for version, form in columns():
            chosen = [golden for golden in tables if (golden.version, golden.table_type) == (version, form)]
            row.append(cell(chosen, kind))
        rows.append(row)
    return table(["query", *headings()], rows)


def refused() -> list[str]:
    """Renders one line for each reason why tables are refused; nothing if none is."""
    names: dict[str, list[str]] = {}
    for name, beyond in BEYOND.items():
        names.setdefault(beyond.reason, []).append(f"`{name}`")
    if not names:
        return []
    lines = [f"- {reason} ({', '.join(sorted(names[reason]))})" for reason in sorted(names)]
    return ["Refused, with an error that names the feature:", "", *lines, ""]


def written() -> tuple[list[str], list[tuple[int, str]]]:
    """Returns operations, and tables (version, type), of the test in which Apache Hudi reads what each operation
    wrote."""
    tree = ast.parse(WRITE_TESTS.read_text(encoding="utf-8"))
    operations: list[str] = []
    tables: list[tuple[int, str]] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "TABLES" for t in node.targets):
            # a list of constants, or a comprehension over constants: nothing else of the module is run
            tables = eval(compile(ast.Expression(node.value), str(WRITE_TESTS), "eval"), {"__builtins__": {}})
        if isinstance(node, ast.FunctionDef) and node.name == WRITE_TEST:
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "hudi_py.write" and len(call.args) > 2:
                    operation = call.args[2]
                    if isinstance(operation, ast.Constant) and operation.value not in operations:
                        operations.append(str(operation.value))
    return sorted(operations), tables


def writing() -> list[str]:
    """Renders the table of writes."""
    operations, tables = written()
    rows = [[f"`{name}`", *("yes" if column in tables else "no" for column in columns())] for name in operations]
    return table(["operation", *headings()], rows)


def matrix() -> str:
    """Renders the whole section, including its markers."""
    parts = [
        BEGIN,
        "**Reading.** How many of the golden tables, written by Apache Hudi 0.15.0 and 1.2.0, return exactly the rows",
        "that Apache Hudi 1.2.0 reads, in all queries of a kind (COW: copy on write, MOR: merge on read):",
        "",
        *reading(),
        "",
        *refused(),
        "**Writing.** Apache Hudi 1.2.0 reads the table after each operation, with its metadata table and without:",
        "",
        *writing(),
        END,
    ]
    return "\n".join(parts)


def updated(text: str) -> str:
    """Returns a document with the current matrix between its markers."""
    return replaced(text, matrix(), "the document")


def replaced(text: str, section: str, document: str) -> str:
    """Replaces a generated section of a document; its first and last lines are its markers."""
    begin, *_, end = section.splitlines()
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{document} lacks the lines {begin} and {end}, between which the generated text goes")
    return head + section + tail


def main() -> int:
    """Prints the matrix, or writes it into the page."""
    parser = argparse.ArgumentParser(description="The compatibility matrix.")
    parser.add_argument("--write", action="store_true", help="write it into docs/compatibility.md")
    if not parser.parse_args().write:
        print(matrix())
        return 0
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
