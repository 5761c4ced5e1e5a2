"""Compactions that follow commits."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.model.instant import Action

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.time.generator.max_expected_clock_skew_ms": "20",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.log.compaction.blocks.threshold": "2",
}


@pytest.mark.parametrize(
    ("asked", "services", "pending"),
    [
        ({}, [(), (), (), ()], 0),
        ({"hoodie.compact.inline": "true"}, [(), (), ("compaction",), ()], 0),
        ({"hoodie.datasource.compaction.async.enable": "false"}, [(), (), ("compaction",), ()], 0),
        ({"hoodie.compact.schedule.inline": "true"}, [(), (), ("compaction plan",), ()], 1),
        ({"hoodie.log.compaction.inline": "true"}, [(), (), ("log_compaction",), ("log_compaction",)], 0),
    ],
    ids=["not at all", "inline", "not asynchronously", "planned inline", "logs"],
)
def test_what_is_asked_for_follows_commits(
    request, asked: Mapping[str, str], services: list[tuple[str, ...]], pending: int
) -> None:
    path = "memory://" + re.sub(r"\W+", "-", request.node.nodeid)
    ran = []
    for ts in range(4):
        data = pa.table({"id": ["a", "b", "c"][: 3 if ts == 0 else 2], "ts": [ts] * (3 if ts == 0 else 2)})
        ran.append(hudi_py.write(path, data, "upsert", {**OPTIONS, **asked}).services)
    assert ran == services
    table = hudi_py.open_table(path)
    assert sorted(table.scan(columns=["id", "ts"]).to_table()["ts"].to_pylist()) == [0, 3, 3]
    compactions = [instant for instant in table.timeline.pending if instant.action is Action.COMPACTION]
    assert len(compactions) == pending
