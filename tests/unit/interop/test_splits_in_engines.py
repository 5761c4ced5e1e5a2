"""The blocks of `docs/engines.md` for Daft and Ray, which are heavy: `pip install daft "ray[data]"` to run them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.support.pages import blocks

PAGE = Path(__file__).parents[3] / "docs" / "engines.md"
ROWS = {"id": [1, 2, 3], "city": ["oslo", "lima", "oslo"], "fare": [7.5, 12.0, 3.0]}
ANSWERS = {"daft": "rides.to_pylist()", "ray": "rides.take_all()"}


@pytest.mark.long
@pytest.mark.parametrize("engine", sorted(ANSWERS))
def test_all_rows_arrive(tmp_path: Path, engine: str) -> None:
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    path = tmp_path / "rides"
    hudi_py.write(path, pa.table(ROWS), record_key="id", partition_by="city")
    (block,) = (each for each in blocks(PAGE) if f"import {engine}" in each.text)
    program = block.text.replace("/tmp/rides", str(path)) + f"\nimport json\nprint(json.dumps({ANSWERS[engine]}))\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert sorted(found, key=lambda row: row["id"]) == pa.table(ROWS).to_pylist()
