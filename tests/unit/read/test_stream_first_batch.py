"""The first batch of a stream has the rows of the batch query with the same options: one planner, one request."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.read import read_split
from tests.unit.read.streams import KEYED, stream_of

INDEXED = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
}
MODES = {
    "merge": {},
    "skip": {"hoodie.datasource.merge.type": "skip_merge"},
    "unmerged": {"changelog.enabled": "true"},
}
KEYS = [None, "a", '["a", "d"]']
FILTERS = [None, "id = 'a'", "_hoodie_record_key = 'a' AND p = 'y'"]


@pytest.fixture(scope="module", params=[("cow", True), ("mor", True), ("mor", False)], ids=str)
def moved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Key `a` has moved from partition y to x; with `mor` its older version is still in the base file of y."""
    kind, indexed = request.param
    path = str(tmp_path_factory.mktemp("moved") / "t")
    options = INDEXED if indexed else {"hoodie.metadata.enable": "false"}
    first = [{"id": id, "p": p, "ts": 1, "v": 1} for id, p in (("a", "y"), ("b", "x"), ("c", "y"), ("d", "z"))]
    hudi_py.write(path, first, "upsert", options, partition_by="p", table_type=kind, **KEYED)
    if indexed:
        hudi_py.write(path, [{"id": "a", "p": "x", "ts": 2, "v": 2}], "upsert", options)
    else:
        hudi_py.open_table(path, options).delete([first[0]])
        hudi_py.write(path, [{"id": "a", "p": "x", "ts": 2, "v": 2}], "insert", options)
    return path


def shown(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str) for row in rows)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sampled(4)
def test_the_first_batch_is_the_batch_query(moved: str, mode: str) -> None:
    found = 0
    for keys, condition in product(KEYS, FILTERS):
        options = {**MODES[mode], "hoodie.py.read.keys": keys, "filter": condition}
        given = {key: value for key, value in options.items() if value is not None}
        stream = stream_of(moved, **given)
        start = stream.initial_offset()
        plan = stream.plan_batch(start, stream.latest_offset(start))
        assert plan is not None
        batch = hudi_py.open_table(moved).scan(options=given)
        assert plan.pruning == batch.plan().pruning, given
        rows = [row for split in plan.splits for part in read_split(split) for row in part.to_pylist()]
        assert shown(rows) == shown(batch.to_table().to_pylist()), given
        found += len(rows)
    assert found


def test_both_versions_of_a_key_that_moved(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first = [{"id": id, "p": "y", "ts": 1, "v": 1} for id in "ac"]
    hudi_py.write(path, first, "upsert", INDEXED, partition_by="p", table_type="mor", **KEYED)
    hudi_py.write(path, [{"id": "a", "p": "x", "ts": 2, "v": 2}], "upsert", INDEXED)
    stream = stream_of(path, **MODES["skip"], **{"hoodie.py.read.keys": "a"})
    start = stream.initial_offset()
    plan = stream.plan_batch(start, stream.latest_offset(start))
    assert plan is not None
    rows = [row for split in plan.splits for part in read_split(split) for row in part.to_pylist()]
    assert sorted((row["p"], row["v"]) for row in rows) == [("x", 2), ("y", 1)]
