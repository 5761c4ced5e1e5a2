"""Several writers at a time, each a process, with optimistic concurrency control and the file-system lock."""

from __future__ import annotations

import time
from collections import Counter
from itertools import product
from multiprocessing.synchronize import Event as EventType

import pytest

import hudi_py
from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action
from hudi_py.storage import LocalStorage
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.api import write_options
from tests.support.choice import cases, few
from tests.support.hand_writes import write_update
from tests.support.sessions import session_of
from tests.support.writers import DISTURBED, SPAWN, begun, check, make, options, rows, run, write_together

CASES = list(product((6, 8, 9), ("cow", "mor"), (True, False)))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind", "overlapping"), cases(CASES, "optimistic", 1))
def test_writers_at_once(tmp_path, version, kind, overlapping):
    outcome = run(begun(tmp_path, version, kind, overlapping, 4), 2)
    if not overlapping:
        assert outcome.retries == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble", [pytest.param(each, marks=[pytest.mark.nightly] * (each != "killed")) for each in DISTURBED]
)
@pytest.mark.parametrize(("version", "kind", "overlapping"), cases(CASES, "optimistic disturbed", 1))
def test_writers_that_are_disturbed(tmp_path, version, kind, overlapping, trouble):
    """Another one takes the place of each that is killed; what the dead left is rolled back by the others."""
    run(begun(tmp_path, version, kind, overlapping, 8, trouble), 3, trouble)


def serve(root: str, version: int, kind: str, over: EventType) -> None:
    """Services in a process of their own, over and over."""
    table = hudi_py.open_table(root, options(version, kind))
    while not over.is_set():
        if kind == "mor":
            table.compact(options=options(version, kind))
        table.clean(options=options(version, kind, {"hoodie.clean.commits.retained": "2"}))


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind", "overlapping"), cases(CASES, "optimistic services", 1))
def test_services_beside_writers(tmp_path, version, kind, overlapping):
    work = begun(tmp_path, version, kind, overlapping, 10)
    over = SPAWN.Event()
    service = SPAWN.Process(target=serve, args=(work.root, version, kind, over))
    service.start()
    try:
        write_together(work, 2)
        time.sleep(2)  # for services after the last commit, at least
    finally:
        over.set()
        service.join()
    assert service.exitcode == 0
    assert check(work).commits == 21
    actions = Counter(instant.action for instant in hudi_py.open_table(work.root).timeline.completed)
    # disjoint writers of merge-on-read tables may only add files, which leave nothing to compact
    assert actions[Action.COMMIT if kind == "mor" else Action.CLEAN] or not overlapping


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_is_planned_while_a_write_is_pending(tmp_path, version):
    """In version 6 the write then conflicts: the plan does not know of what it adds to a log."""
    root = str(tmp_path / "t")
    make(root, version, "mor")
    hudi_py.write(root, rows("0", 0, overlapping=True), options=options(version, "mor"))
    table = hudi_py.open_table(root)
    settings = TransactionSettings.of(write_options(options(version, "mor")))
    session = session_of(LocalStorage(root), settings=settings)
    with WriteTransaction.begin(session, action=Action.DELTA_COMMIT, operation="UPSERT") as tx:
        assert table.compaction.schedule(options=options(version, "mor")) is not None
        stats = write_update(tx)
        if version == 6:
            with pytest.raises(ConflictError, match=r"\(COMPACT\) is pending"):
                tx.commit(OperationResult(stats), schema_json="{}")
            tx.abort()
        else:
            tx.abort()
    assert table.compaction.run(options=options(version, "mor")).instant is not None


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("version", "kind", "overlapping", "trouble"),
    few(product((6, 9), ("cow", "mor"), (True, False), ("", *DISTURBED)), "eight writers", 4),
)
def test_eight_writers_with_fifty_commits_each(tmp_path, version, kind, overlapping, trouble):
    run(begun(tmp_path, version, kind, overlapping, 50, trouble), 8, trouble)
