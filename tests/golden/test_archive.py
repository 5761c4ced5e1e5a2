"""Every completed instant of golden tables and their metadata tables keeps what it holds when it is archived."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_py.config import Options
from hudi_py.model.instant import WRITE_ACTIONS, Action
from hudi_py.services.archive import archive
from hudi_py.services.archive import service as archive_service
from hudi_py.services.archive.select import Selection
from hudi_py.services.context import ServiceContext
from hudi_py.storage import LocalStorage
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import decode_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.records import decode_record
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.golden.tables import load

TABLES = (
    "v6_cow_ops",
    "v6_cow_cdc_before_after",
    "v6_mor_ops",
    "v6_mor_logcompaction",
    "v6_mor_rollback",
    "v6_mor_record_index",
    "v8_cow_cleaning",
    "v9_cow_clustering",
    "v9_mor_logcompaction",
)
STAYING = (Action.SAVEPOINT, Action.RESTORE, Action.INDEXING)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sampled(5)
def test_archived_instants_hold_what_they_held(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_service, "too_few", lambda timeline, settings: "")
    monkeypatch.setattr(
        archive_service,
        "select_instants",
        lambda timeline, settings, facts: Selection(tuple(i for i in timeline.completed if i.action not in STAYING)),
    )
    path = load()[name].extract(tmp_path)
    checked = 0
    for root in (path, path / ".hoodie/metadata"):
        if not root.exists():
            continue
        storage = LocalStorage(str(root))
        config = load_table_config(storage)
        timeline = load_timeline(storage, config)
        held = {
            (instant.time, instant.action): (instant, storage.read(timeline.layout.path(instant.file_name)))
            for instant in timeline.completed
            if instant.action not in STAYING
        }
        report = archive(ServiceContext.of(WriteTarget(storage, Options.resolve({}), NoMetadata())))
        assert report.num_instants == len(held)
        left = load_timeline(storage, config)
        assert all(instant.action in STAYING for instant in left.completed)
        assert left.pending == timeline.pending
        found = {
            (i.time, i.action): i for i in archived_instants(storage, config, ArchiveQuery(metadata=True, plans=True))
        }
        for key, (instant, content) in held.items():
            assert found[key].completion_time == instant.completion_time
            if not content:
                assert found[key].metadata is None
            elif instant.action in WRITE_ACTIONS:
                assert decode_commit_metadata(found[key].metadata or b"") == decode_commit_metadata(content)
            else:
                assert decode_record(found[key].metadata or b"", "") == decode_record(content, "")
            if instant.action is Action.CLEAN:
                assert found[key].plan is not None
            checked += 1
    assert checked > 3
