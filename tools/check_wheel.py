"""Checks a built wheel: its contents, its metadata, and that its page works outside of the repository."""

from __future__ import annotations

import configparser
import re
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

PYPROJECT: Final = Path(__file__).resolve().parent.parent / "pyproject.toml"
PACKAGES: Final = ("hudi_py", "pyspark_hudi")
ASSETS: Final = ("hudi_py/report/assets/page.css", "hudi_py/report/assets/page.js")
MAX_BYTES: Final = 3_000_000
_FOREIGN: Final = re.compile(r"(^|/)(tests?|__pycache__)/|\.(pyc|so|jar|parquet|log)$")


def project() -> dict[str, Any]:
    """Reads the table `project` of pyproject.toml; empty on Python 3.10, which cannot read it."""
    return {} if tomllib is None else tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def problems(wheel: str, declared: dict[str, Any] | None = None) -> list[str]:
    """Lists problems of the wheel, one line each.

    Args:
        declared: the table `project` that its metadata must agree with; None: that of this checkout.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next((name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info")), "")
        found = list(_wrong_files(names, info))
        if f"{info}/METADATA" in names:
            metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
            found += _wrong_metadata(metadata, project() if declared is None else declared)
        if f"{info}/entry_points.txt" in names:
            points = configparser.ConfigParser()
            points.read_string(archive.read(f"{info}/entry_points.txt").decode())
            if points.get("console_scripts", "hudi-py", fallback="") != "hudi_py.cli.main:main":
                found.append("the command hudi-py is missing")
    if not wheel.endswith("-py3-none-any.whl"):
        found.append("the wheel is for one platform, although nothing in it is")
    size = Path(wheel).stat().st_size
    if size > MAX_BYTES:
        found.append(f"{size:,} bytes are more than {MAX_BYTES:,}: what came in?")
    return found


def _wrong_files(names: set[str], info: str) -> Iterator[str]:
    needed = [f"{package}/{file}" for package in PACKAGES for file in ("__init__.py", "py.typed")]
    for file in (*needed, *ASSETS, f"{info}/METADATA", f"{info}/entry_points.txt"):
        if file not in names:
            yield f"{file} is missing"
    for name in sorted({name.split("/")[0] for name in names} - {info, *PACKAGES}):
        yield f"unexpected: {name}"
    for name in sorted(name for name in names if _FOREIGN.search(name)):
        yield f"unexpected: {name}"
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        yield "the licence is missing"


def _wrong_metadata(metadata: Message, declared: dict[str, Any]) -> Iterator[str]:
    for field, key in (
        ("Name", "name"),
        ("Version", "version"),
        ("Summary", "description"),
        ("Requires-Python", "requires-python"),
    ):
        if declared and metadata[field] != declared[key]:
            yield f"{field} is {metadata[field]!r}, and {declared[key]!r} in pyproject.toml"
    extras = set(metadata.get_all("Provides-Extra", []))
    if declared and extras != set(declared["optional-dependencies"]):
        yield f"extras are {sorted(extras)}, and {sorted(declared['optional-dependencies'])} in pyproject.toml"
    needed = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    if declared and len(needed) != len(declared["dependencies"]):
        yield f"it requires {needed}, and pyproject.toml {declared['dependencies']}"
    if not metadata.get_all("Project-URL"):
        yield "there are no project URLs"
    if metadata["Description-Content-Type"] != "text/markdown":
        yield f"the page is {metadata['Description-Content-Type']}, not Markdown"
    text = str(metadata.get_payload())
    if "pip install" not in text:
        yield "the page does not say how to install the package"
    for target in re.findall(r"\]\((?![a-z]+:|#)([^)]*)\)", text):
        yield f"the page links to {target}, which leads nowhere outside the repository"


def main() -> int:
    """Prints the problems of each wheel named on the command line; returns 1 if there are any."""
    found = [f"{wheel}: {problem}" for wheel in sys.argv[1:] for problem in problems(wheel)]
    print("\n".join(found) or f"{len(sys.argv) - 1} wheel checked")
    return 1 if found or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
