"""Figures about the source code: `python -m tools.figures [CHECKOUT...]` prints them, one column for each checkout.

They show where concepts are repeated: classes with the same name, functions that take a table's storage, settings and
timeline separately, comparisons with a version instead of a capability, options that only carry messages.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from tools.matrix import ROOT, table

MAX_COMPLEXITY: Final = 20
MAX_PARAMETERS: Final = 6
_PACKAGES: Final = ("python", "connector")
STATE: Final = {"storage", "config", "timeline"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Sources:
    """The parsed modules of `python/` and `connector/` in a checkout."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self.files = sorted(path for package in _PACKAGES for path in (checkout / package).rglob("*.py"))
        self._trees = [ast.parse(path.read_text(encoding="utf-8")) for path in self.files]

    def figures(self) -> dict[str, int]:
        """Computes each figure, by title, in the order in which they are printed."""
        names = Counter(node.name for node in self._nodes if isinstance(node, ast.ClassDef))
        public = [name for name, count in names.items() if count > 1 and not name.startswith("_")]
        return {
            "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in self.files),
            "modules": len(self.files),
            "functions": len(self._functions),
            f"functions of complexity above {MAX_COMPLEXITY}": sum(
                complexity(function) > MAX_COMPLEXITY for function in self._functions
            ),
            f"functions of more than {MAX_PARAMETERS} parameters": sum(
                len(parameters(function)) > MAX_PARAMETERS for function in self._functions
            ),
            "public names of several classes": len(public),
            "names of several classes": sum(count > 1 for count in names.values()),
            "functions that take storage, config and timeline": sum(
                set(parameters(function)) >= STATE for function in self._functions
            ),
            "comparisons with a version": sum(map(is_version_comparison, self._nodes)),
            "options that carry messages": len(set(self._messages())),
        }

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return [node for tree in self._trees for node in ast.walk(tree)]

    @cached_property
    def _functions(self) -> list[_Function]:
        return [node for node in self._nodes if isinstance(node, _Function)]

    def _messages(self) -> Iterator[str]:
        """Yields keys of options that are part of a protocol between modules of hudi-py (`internal=True`)."""
        for node in self._nodes:
            if isinstance(node, ast.Call) and any(
                word.arg == "internal" and isinstance(word.value, ast.Constant) and word.value.value is True
                for word in node.keywords
            ):
                yield ast.unparse(node.args[0])


def parameters(function: _Function) -> list[str]:
    """Returns the names of a function's parameters, without `self` or `cls`."""
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def complexity(function: _Function) -> int:
    """Computes McCabe's complexity, counting operands of `and` and `or`, comprehensions, and nested functions."""
    return 1 + sum(map(_branches, ast.walk(function)))


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return int(
        isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.IfExp | ast.match_case)
    )


def is_version_comparison(node: ast.AST) -> bool:
    """Returns whether a node compares something named `version`, or `..._version`, with a number."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    names = [side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "") for side in sides]
    has_number = any(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in sides)
    return has_number and any(name == "version" or name.endswith("_version") for name in names)


def main(arguments: Sequence[str]) -> int:
    checkouts = [Path(argument).resolve() for argument in arguments] or [ROOT]
    found = [Sources(checkout).figures() for checkout in checkouts]
    rows = [(title, *(f"{each.get(title, 0):,}" for each in found)) for title in found[0]]
    print("\n".join(table(["", *(checkout.name for checkout in checkouts)], rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
