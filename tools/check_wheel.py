"""Check a built wheel: both packages are in it with their `py.typed` and the parts of the report, and nothing
else is."""

from __future__ import annotations

import sys
import zipfile

PACKAGES = ("hudi_py", "pyspark_hudi")
ASSETS = ("hudi_py/report/assets/page.css", "hudi_py/report/assets/page.js")


def problems(wheel: str) -> list[str]:
    """What is wrong with the wheel's list of files, one line each."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    found = [
        f"{package}/{file} is missing"
        for package in PACKAGES
        for file in ("__init__.py", "py.typed")
        if f"{package}/{file}" not in names
    ]
    found += [f"{file} is missing" for file in ASSETS if file not in names]
    top = {name.split("/")[0] for name in names}
    info = {name for name in top if name.endswith(".dist-info")}
    found += [f"unexpected: {name}" for name in sorted(top - info - set(PACKAGES))]
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        found.append("the licence is missing")
    return found


def main() -> int:
    """Print what is wrong with each wheel named on the command line; 1 where something is."""
    found = [f"{wheel}: {problem}" for wheel in sys.argv[1:] for problem in problems(wheel)]
    print("\n".join(found) or f"{len(sys.argv) - 1} wheel checked")
    return 1 if found or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
