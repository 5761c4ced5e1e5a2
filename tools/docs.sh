#!/usr/bin/env bash
# Builds the documents in an environment of their own, .venv-docs. The first call creates it from requirements-docs-lock.txt.
#   tools/docs.sh site      the documentation site, strictly, into build/site
#   tools/docs.sh sbom      the bill of materials of the package with all extras (CycloneDX), build/hudi-py.cdx.json
#   tools/docs.sh recipe    renders the recipe for conda
#   PYTHON                  the interpreter to use    (default: the first that is 3.11 or later of .venv's and those on PATH)
#   HUDI_PY_DOCS_VENV       the environment           (default .venv-docs in the checkout)
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
venv="${HUDI_PY_DOCS_VENV:-$root/.venv-docs}"
stamp="$venv/.hudi-py-stamp"
wanted="$(cksum <requirements-docs-lock.txt)"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  echo "== making $venv" >&2
  python=""
  for candidate in ${PYTHON:-"${HUDI_PY_VENV:-$root/.venv}/bin/python" python3 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 </dev/null; then
      python="$candidate"
      break
    fi
  done
  if [ -z "$python" ]; then
    echo "no Python 3.11 or later with the venv module, which the documentation needs: install one, or name it with PYTHON=..." >&2
    exit 1
  fi
  "$python" -m venv --clear "$venv"
  uv="${HUDI_PY_VENV:-$root/.venv}/bin/uv" # takes a tenth of pip's time, but knows nothing of pip's settings
  if ! { [ -x "$uv" ] && "$uv" pip install --quiet --python "$venv/bin/python" --requirement requirements-docs-lock.txt; }; then
    "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile --requirement requirements-docs-lock.txt </dev/null
  fi
  echo "$wanted" >"$stamp"
fi
export PATH="$venv/bin:$PATH"
mkdir -p build
for part in "$@"; do
  case "$part" in
  site)
    python -m tools.site_pages
    zensical build --strict --clean
    python -m tools.site_pages finish
    ;;
  sbom)
    uv pip compile pyproject.toml --extra all --constraint requirements-lock.txt --universal --python-version 3.10 --no-python-downloads \
      --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file build/runtime.txt >/dev/null
    python -W ignore::UserWarning -m cyclonedx_py requirements build/runtime.txt --pyproject pyproject.toml --mc-type library --output-reproducible --of JSON \
      --output-file build/hudi-py.cdx.json
    ;;
  recipe)
    python -m tools.conda_recipe
    ;;
  *)
    echo "tools/docs.sh knows no part $part" >&2
    exit 2
    ;;
  esac
done
