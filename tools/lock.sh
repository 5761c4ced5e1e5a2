#!/usr/bin/env bash
# Resolves both lock files anew from the ranges in pyproject.toml, for Python 3.10 to 3.13 at once (environment markers tell them apart):
# requirements-lock.txt has the newest versions let in, requirements-oldest-lock.txt the oldest ones.
# Names and versions only: where they come from is the machine's own setting of pip.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
resolve() {
  "${HUDI_PY_VENV:-$root/.venv}/bin/uv" pip compile pyproject.toml --upgrade --universal --no-python-downloads \
    --extra connect --extra s3 --extra pandas --extra polars --extra duckdb --extra iceberg --extra lance --extra dynamodb --extra zookeeper --group dev \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet "$@" >/dev/null
}
resolve --python-version 3.10 --output-file requirements-lock.txt
resolve --python-version 3.10 --resolution lowest-direct --output-file requirements-oldest-lock.txt
