"""Lists what hudi-py needs in a Python environment, and what it finds there."""

from __future__ import annotations

import importlib
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

REQUIRED: Final = {"pyarrow": "23", "numpy": "2.0", "fastavro": "1.9.5", "sqlglot": "26"}
"""Libraries and their oldest releases, as in pyproject.toml. A package shipped with a job does not bring them."""

ENVIRONMENT_SCHEMA: Final = pa.schema([(name, pa.string()) for name in ("library", "required", "found", "location")])
"""The view `environment`: `found` is null if a library cannot be imported; `location` then gives the reason."""


def environment_report() -> pa.Table:
    """Lists the libraries that hudi-py needs, with the versions in this process."""
    python = {"library": "python", "required": "3.10", "found": platform.python_version(), "location": sys.executable}
    return pa.Table.from_pylist([python, *(_library_row(name) for name in REQUIRED)], ENVIRONMENT_SCHEMA)


def missing(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describes what a report lacks."""
    return [
        f"{row['library']} {row['required']} or later (found: {row['found'] or row['location']})"
        for row in rows
        if row["found"] is None or _version_numbers(row["found"]) < _version_numbers(row["required"])
    ]


def _library_row(name: str) -> dict[str, str | None]:
    row: dict[str, str | None] = {"library": name, "required": REQUIRED[name]}
    try:
        module = importlib.import_module(name)
    except Exception as error:  # a broken library may raise anything
        return {**row, "found": None, "location": f"{type(error).__name__}: {error}"}
    return {**row, "found": str(module.__version__), "location": str(module.__file__)}


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
