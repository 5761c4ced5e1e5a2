"""How often one commit with the services that follow it asks the storage: what is read twice costs twice on object
stores."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.storage import LocalStorage

OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "100",
}
DATA = pa.table({"id": [0, 1], "p": ["a", "b"], "ts": [1, 1]})


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_commit_reads_little_twice(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def upsert() -> None:
        keyed = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
        hudi_py.write(str(tmp_path / "t"), DATA, "upsert", OPTIONS, **keyed, table_type=kind)

    for _ in range(4):
        upsert()
    calls: Counter[tuple[str, str]] = Counter()
    for name in ("list", "read"):
        original = getattr(LocalStorage, name)

        def counted(self: LocalStorage, path: str = "", name: str = name, original: Any = original) -> Any:
            calls[name, path] += 1
            return original(self, path)

        monkeypatch.setattr(LocalStorage, name, counted)
    upsert()
    # copy on write has a clean to carry out, too
    timelines = {"cow": (8, 6), "mor": (6, 4)}
    assert calls["list", ".hoodie/timeline"] <= timelines[kind][0]
    assert calls["list", ".hoodie/metadata/.hoodie/timeline"] <= timelines[kind][1]
    assert calls["list", ".hoodie/.bucket_index"] == 1
    assert not [path for (name, path), count in calls.items() if "/sidecars/" in path and count > 1]
