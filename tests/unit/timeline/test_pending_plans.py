"""Plans of pending instants: how often the storage is read for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_py.model.instant import Action
from hudi_py.storage import LocalStorage
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.view import load_view
from tests.golden import tables


def test_a_plan_is_read_once_for_a_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(tables.load()["v8_mor_compaction_pending"].extract(tmp_path)))
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    found: list[str] = []
    original = LocalStorage.read

    def read(self: LocalStorage, path: str) -> bytes:
        found.append(path)
        return original(self, path)

    monkeypatch.setattr(LocalStorage, "read", read)
    assert load_view(TableState(storage, config, timeline)).pending_compaction
    plans = PendingPlans(storage, timeline)
    (pending,) = plans.of(Action.COMPACTION)
    assert plans.compaction(pending) == PendingPlans(storage, timeline).compaction(pending) is not None
    assert len([path for path in found if path.endswith("compaction.requested")]) == 1
    assert timeline == load_timeline(storage, config)
