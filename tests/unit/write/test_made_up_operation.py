"""A new operation is a row of one table: nothing else of the product knows operations by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hudi_py

ROOT = Path(__file__).parents[3]
TOUCHED = {"model/operation.py": ('    INSERT = "insert"', '    RENEW = "renew", OperationTraits(known="update")\n')}
"""The modules that the operation touches, with a line of each and what is added before it. It updates known keys, but
does not fill small files."""
WRITES = """
import json
import pyarrow as pa
import hudi_py
from hudi_py.cli.rows import OPERATIONS
from tests.support.engine import write_routed

def rows(ids, text):
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [text] * len(ids)})

def one_process(root, data, options):
    return hudi_py.write(root, data, "renew", options)

def in_tasks(root, data, options):
    return write_routed(root, data, "renew", options)

def by_option(root, data, options):
    return hudi_py.write(root, data, options={**options, "hoodie.datasource.write.operation": "renew"})

assert "renew" in OPERATIONS
found = []
for number, (write, kind, index) in enumerate([
    (one_process, "COPY_ON_WRITE", "SIMPLE"),
    (in_tasks, "MERGE_ON_READ", "BLOOM"),
    (by_option, "COPY_ON_WRITE", "BUCKET"),
    (in_tasks, "COPY_ON_WRITE", "BUCKET"),
    (one_process, "MERGE_ON_READ", "GLOBAL_SIMPLE"),
]):
    options = {
        "hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", "hoodie.index.type": index,
        "hoodie.datasource.write.table.type": kind, "hoodie.bucket.index.num.buckets": "1",
    }
    root = f"{ROOT}/{number}"
    hudi_py.write(root, rows([1, 2], "a"), "upsert", options)
    done = write(root, rows([2, 3], "b"), options)
    table = hudi_py.open_table(root, options)
    texts = dict(zip(*table.scan(columns=["id", "s"]).to_table().to_pydict().values()))
    name = table.history().to_pylist()[-1]["operation"]
    found.append([index, done.num_inserted, done.num_updated, table.files().num_rows, sorted(texts.items()), name])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_made_up_operation_touches_one_module(tmp_path: Path) -> None:
    copy = tmp_path / "python" / "hudi_py"
    shutil.copytree(Path(hudi_py.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, added) in TOUCHED.items():
        text = (copy / name).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (copy / name).write_text(text.replace(before, added + before), encoding="utf-8")
    script = f"ROOT = {str(tmp_path)!r}\n{WRITES}"
    path = os.pathsep.join([str(copy.parent), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: list[list[Any]] = json.loads(ran.stdout)
    for index, inserted, updated, files, texts, name in found:
        assert (inserted, updated, name) == (1, 1, "RENEW")
        assert texts == [[1, "a"], [2, "b"], [3, "b"]]
        assert files == (1 if index == "BUCKET" else 2), index  # new rows go to a file group of their own
    assert len(TOUCHED) <= 3
