#!/usr/bin/env bash
# Resolves requirements-lock.txt anew: the newest versions that the ranges in pyproject.toml let in, for Python 3.10 to 3.13 at once
# (environment markers tell them apart). Names and versions only: where they come from is the machine's own setting of pip.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
"${HUDI_PY_VENV:-$root/.venv}/bin/uv" pip compile pyproject.toml --upgrade --universal --python-version 3.10 --no-python-downloads \
  --extra connect --extra s3 --extra pandas --extra polars --extra duckdb --group dev \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file requirements-lock.txt
