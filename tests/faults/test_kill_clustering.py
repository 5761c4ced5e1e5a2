"""A write killed at every call that changes the storage, while it drops the plan of a clustering in its way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hudi_py.services.clustering.service import Clustering
from hudi_py.services.planned.service import pending_instants, run_all
from hudi_py.storage import LocalStorage, Storage
from hudi_py.transaction.owner.identity import end_work
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.api import write_rows
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import leftovers, make_table, read, recover, rows
from tests.faults.test_kill_compaction import context
from tests.support.choice import every
from tests.support.kept_up import options

pytestmark = [pytest.mark.slow, pytest.mark.nightly]  # tests/unit/services/clustering/test_beside_writes has quick ones

DROP = {
    "hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
    "hoodie.time.generator.max_expected_clock_skew_ms": "5",
}


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_a_write_that_drops_a_plan(tmp_path: Path, version: int, kind: str) -> None:
    """An attempt to run it has died. The rows of the write are there or not, and the plan brings no old ones back."""
    table, service = tmp_path / "table", Clustering()
    make_table(table, version, kind)
    before = read(table)
    own = context(LocalStorage(str(table)))
    planned = service.schedule(own).instant
    assert planned is not None
    work = service.begin(own, planned)
    service.execute(own, work, range(work.num_tasks))
    end_work(work.attempt.owner.id)

    def update(storage: Storage) -> None:
        write_rows(WriteTarget(storage, options(version, kind, DROP)), rows(range(3), 9), "upsert")

    whole = tmp_path / "whole"
    shutil.copytree(table, whole)
    counting = KillingStorage(str(whole))
    update(counting)
    after = read(whole)
    assert after != before
    assert pending_instants(service, context(LocalStorage(str(whole)))) == []
    assert len(counting.calls) > 20
    for call in every(12, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        killing = KillingStorage(str(root), call, torn=bool(call // 12 % 2))
        with pytest.raises(Killed):
            update(killing)
        where = killing.calls[-1]
        assert read(root) in (before, after), where
        storage = LocalStorage(str(root))
        if call % 3:
            recover(storage)
        update(storage)
        assert read(root) == after, where
        assert pending_instants(service, context(storage)) == [], where
        run_all(service, context(storage))
        recover(storage)
        assert (read(root), leftovers(root)) == (after, set()), where
        shutil.rmtree(root)
