"""The project's own source files, parsed."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, or name of a module: `from a.b import c` has module `a.b` and name `c`."""

    module: str
    name: str | None
    line: int
    in_function: bool
    for_types_only: bool

    @property
    def top(self) -> str:
        return self.module.split(".")[0]


@dataclass(frozen=True, slots=True)
class Module:
    """One source file of a package."""

    name: str
    path: Path
    is_package: bool

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def shown(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def tree(self) -> ast.Module:
        """Parsed anew each time: trees that are kept are gone over by each collection of garbage."""
        return ast.parse(self.text)

    def imports(self) -> tuple[Import, ...]:
        """Every import statement, those inside functions and `if TYPE_CHECKING` included."""
        return _imports(self)


@functools.cache
def _imports(module: Module) -> tuple[Import, ...]:
    found: list[Import] = []
    _visit(module.tree, module, False, False, found)
    return tuple(found)


def _visit(node: ast.AST, module: Module, in_function: bool, for_types: bool, found: list[Import]) -> None:
    for child in _statements(node):
        inside = in_function or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if isinstance(child, ast.Import):
            found += [Import(alias.name, None, child.lineno, inside, for_types) for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            origin = _absolute(child, module)
            found += [Import(origin, alias.name, child.lineno, inside, for_types) for alias in child.names]
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            _visit(ast.Module(child.body, []), module, inside, True, found)
            _visit(ast.Module(child.orelse, []), module, inside, for_types, found)
        else:
            _visit(child, module, inside, for_types, found)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right below a node, and what else holds some: no expression has an import inside."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, name, ())


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
    return ".".join(kept + ([node.module] if node.module else []))


def modules_in(folder: str, package: str) -> Iterator[Module]:
    """The modules of a package that lies in a folder of the checkout."""
    base = ROOT / folder
    for path in sorted((base / package).rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        yield Module(".".join(parts[:-1] if is_package else parts), path, is_package)


@functools.cache
def core() -> tuple[Module, ...]:
    return tuple(modules_in("python", "hudi_py"))


@functools.cache
def connector() -> tuple[Module, ...]:
    return tuple(modules_in("connector", "pyspark_hudi"))
