#!/usr/bin/env bash
# Runs the tests that need no JVM under each supported Python that is on this machine, besides the one of .venv: by its name on PATH, or
# as pyenv keeps it. Each gets an environment of its own, .venv-3.x, without PySpark. Those that are missing are named at the end.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
lock="$(mktemp)"
trap 'rm -f "$lock"' EXIT
grep -v '^pyspark==' requirements-lock.txt >"$lock"

own="$("$root/.venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)"
is() { "$1" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" >/dev/null 2>&1 </dev/null; }
missing=""
failed=""
for version in 3.10 3.11 3.12 3.13; do
  [ "$version" != "$own" ] || continue
  chosen=""
  for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    if command -v "$candidate" >/dev/null && is "$candidate" "$version"; then chosen="$candidate"; break; fi
  done
  if [ -z "$chosen" ]; then missing="$missing $version"; continue; fi
  # the oldest reads the golden tables too
  golden=""
  [ "$version" != 3.10 ] || golden="tests/golden"
  echo "== Python $version"
  PYTHON="$chosen" HUDI_PY_VENV="$root/.venv-$version" HUDI_PY_LOCK="$lock" \
    tools/run python -m pytest -q -n "${JOBS:-2}" tests/unit tests/property ${golden} -m "not slow" "$@" </dev/null || failed="$failed $version"
done
[ -z "$missing" ] || echo "== not on this machine, so not tested:$missing" >&2
[ -z "$failed" ] || { echo "== tests failed under:$failed" >&2; exit 1; }
