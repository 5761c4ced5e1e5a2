#!/usr/bin/env bash
# Creates the environment .venv in the checkout, with the locked packages and an editable install of this project. Later calls are quick:
# a stamp records the lock file and the pyproject.toml that the environment was created from.
#   PYTHON         the interpreter to use        (default: the first of python3, python3.13 ... python3.10 that is 3.10 to 3.13)
#   HUDI_PY_VENV   the environment               (default .venv in the checkout)
#   HUDI_PY_LOCK   the lock file                 (default requirements-lock.txt)
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${HUDI_PY_VENV:-$root/.venv}"
stamp="$venv/.hudi-py-stamp"
lock="${HUDI_PY_LOCK:-requirements-lock.txt}"
[[ "$lock" = /* ]] || lock="$root/$lock"
wanted="$(cat "$lock" "$root/pyproject.toml" | cksum) $root"

if [ -x "$venv/bin/python" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
  exit 0
fi

# A name on PATH may be a shim without an interpreter, so run each candidate.
fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 </dev/null; }

if [ ! -x "$venv/bin/python" ] || ! fits "$venv/bin/python"; then
  chosen=""
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
    if command -v "$candidate" >/dev/null && fits "$candidate"; then chosen="$candidate"; break; fi
  done
  if [ -z "$chosen" ]; then
    echo "no Python 3.10 to 3.13 with the venv module on PATH: install one (on Debian and Ubuntu also python3-venv), or name it with PYTHON=..." >&2
    exit 1
  fi
  echo "== making $venv with $("$chosen" --version 2>&1)" >&2
  "$chosen" -m venv --clear "$venv"
fi

echo "== installing the locked packages (once; PySpark alone is some 450 MB)" >&2
rm -f "$stamp"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@" </dev/null; }
# Python compiles modules on import, and most of these are never imported.
pip install --quiet --no-compile --requirement "$lock"
# The lock file includes the build back end, so this step downloads nothing.
pip install --quiet --no-deps --no-build-isolation --editable "$root"
echo "$wanted" >"$stamp"
echo "== $venv is ready" >&2
