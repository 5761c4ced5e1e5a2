#!/usr/bin/env bash
# Resolves the lock files anew from the ranges in pyproject.toml, for Python 3.10 to 3.13 at once (with environment markers):
# requirements-lock.txt has the newest versions in range, requirements-oldest-lock.txt the oldest, and requirements-docs-lock.txt what
# tools/docs.sh needs.
# The files contain names and versions only; pip's own settings select the package index.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
resolve() {
  "${HUDI_PY_VENV:-$root/.venv}/bin/uv" pip compile pyproject.toml --upgrade --universal --no-python-downloads \
    --extra connect --extra s3 --extra pandas --extra polars --extra duckdb --extra iceberg --extra lance --extra dynamodb --extra zookeeper \
    --extra hive --extra metrics --group dev \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet "$@" >/dev/null
}
resolve --python-version 3.10 --output-file requirements-lock.txt
resolve --python-version 3.10 --resolution lowest-direct --output-file requirements-oldest-lock.txt
# The documentation tools need Python 3.11.
"${HUDI_PY_VENV:-$root/.venv}/bin/uv" pip compile --group docs --upgrade --universal --no-python-downloads --python-version 3.11 \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file requirements-docs-lock.txt >/dev/null
