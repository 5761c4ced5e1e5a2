"""What is undone in a table is undone in its metadata table: every index tells of the table as it is."""

from __future__ import annotations

import random
import time
import uuid
import warnings

import pytest

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.metadata_write.maintenance.rollback import can_undo
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.metadata_write.table.delta import begin_delta
from hudi_py.metadata_write.table.session import open_metadata_session
from hudi_py.model.instant import Action, InstantTime, State
from hudi_py.model.properties import TableConfig
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint
from hudi_py.storage import FolderStorage, MemoryStorage, Storage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import timeline_of
from hudi_py.timeline.times import add_ms
from hudi_py.transaction.session import WriteTarget
from tests.support.choice import cases
from tests.support.hand_writes import java_pending
from tests.support.sessions import session_of
from tests.unit.metadata_write.memory_tables import (
    check_listing,
    clock,
    own_timeline,
    read,
    rows,
    timeline,
    write,
    writer,
)

pytestmark = pytest.mark.slow  # tests/unit/services/test_rollback_service.py has quick ones

GLOBAL = {
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
BY_PARTITION = {"hoodie.metadata.record.level.index.enable": "true"}
KINDS = [(6, "cow"), (6, "mor"), (8, "mor"), (9, "cow"), (9, "mor")]


@pytest.fixture
def storage():
    return MemoryStorage(f"undo-{uuid.uuid4()}")


def context(storage: Storage, options: dict[str, str]) -> ServiceContext:
    resolved = Options.resolve({"hoodie.time.generator.max_expected_clock_skew_ms": "20", **options}, defaults={})
    return ServiceContext.of(WriteTarget(storage, resolved, writer(options), clock=clock(storage)))


def check(storage: Storage, options: dict[str, str], expected: dict[int, int], *, loose: bool = False) -> None:
    """Rows, listing and every record of every index."""
    check_listing(storage)
    assert read(storage) == expected
    names = load_table_config(storage).metadata_partitions
    if loose:  # ranges of partitions may be wider than their rows
        names = tuple(name for name in names if name != "partition_stats")
    report = verify(context(storage, options), names=names)
    assert not report.reason
    assert report.ok, [(each.partition, each.examples) for each in report.partitions if not each.ok]


@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "a completed write is rolled back", 2))
def test_a_completed_write_is_rolled_back(storage, version, kind):
    made = {"version": version, "kind": kind, "options": GLOBAL}
    write(storage, rows(range(6), 1), **made)
    write(storage, rows(range(4, 9), 2), **made)
    check(storage, GLOBAL, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 9), 2)})
    newest = timeline(storage).last_completed
    rollback(context(storage, GLOBAL), newest.time)
    check(storage, GLOBAL, dict.fromkeys(range(6), 1))
    write(storage, rows(range(5, 7), 3), **made)
    check(storage, GLOBAL, {**dict.fromkeys(range(5), 1), 5: 3, 6: 3})


@pytest.mark.parametrize("version", [8, 9])
def test_what_another_engine_is_writing_is_left_alone(storage, version):
    """Apache Hudi writes to both tables at once; its delta commit is undone with its write, and not before."""
    made = {"version": version, "kind": "mor", "options": GLOBAL}
    write(storage, rows(range(6), 1), **made)
    write(storage, rows(range(4, 6), 2), **made)
    instant = clock(storage).next_instant(timeline(storage))
    java_pending(storage, load_table_config(storage), instant)
    own = open_metadata_session(session_of(storage))
    begin_delta(own, instant, "UPSERT_PREPPED")
    log = f"files/.files-0000-0_{instant}.log.1_0-1-1"
    own.storage.put(log, b"half a log")

    compaction = Compaction(always=True)
    planned = compaction.schedule(context(storage, GLOBAL))
    assert run(compaction, context(storage, GLOBAL), planned.instant).num_file_groups
    found = own_timeline(storage).find(instant, Action.DELTA_COMMIT)
    assert found is not None
    assert found.state is State.INFLIGHT
    assert own.storage.read(log) == b"half a log"
    check(storage, GLOBAL, {**dict.fromkeys(range(4), 1), 4: 2, 5: 2})

    for info in storage.walk(".hoodie/timeline"):
        if info.name.startswith(instant):
            storage.set_modified(info.path, 0)
    write(storage, rows(range(5, 7), 3), **made)
    assert timeline(storage).find(instant) is None
    assert own_timeline(storage).find(instant, Action.DELTA_COMMIT) is None
    assert own.storage.stat(log) is None
    check(storage, GLOBAL, {**dict.fromkeys(range(4), 1), 4: 2, 5: 3, 6: 3})


@pytest.mark.parametrize(
    ("version", "kind", "options"),
    cases([(*table, options) for table in KINDS for options in (GLOBAL, BY_PARTITION)], "a restore", 3),
)
def test_a_restore(storage, version, kind, options):
    made = {"version": version, "kind": kind, "options": options}
    write(storage, rows(range(6), 1), **made)
    create_savepoint(context(storage, options))
    write(storage, rows(range(4, 9), 2), **made)
    write(storage, rows(range(2), 3), "delete", **made)
    write(storage, rows([20, 21], 4), **made)
    restore(context(storage, options))
    check(storage, options, dict.fromkeys(range(6), 1))
    write(storage, rows(range(5, 7), 5), **made)
    check(storage, options, {**dict.fromkeys(range(5), 1), 5: 5, 6: 5})


@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "it is made anew where a compaction is in the way", 2))
def test_it_is_made_anew_where_a_compaction_is_in_the_way(storage, version, kind):
    options = {**GLOBAL, "hoodie.metadata.compact.max.delta.commits": "1"}
    made = {"version": version, "kind": kind, "options": options}
    write(storage, rows(range(6), 1), **made)
    write(storage, rows(range(4, 9), 2), **made)
    before = {each.time for each in own_timeline(storage).completed if each.action is Action.COMMIT}
    assert before
    rollback(context(storage, options), timeline(storage).last_completed.time)
    assert not before & {each.time for each in own_timeline(storage).completed}
    check(storage, options, dict.fromkeys(range(6), 1))
    write(storage, rows(range(5, 7), 3), **made)
    check(storage, options, {**dict.fromkeys(range(5), 1), 5: 3, 6: 3})


@pytest.mark.parametrize(
    ("version", "kind", "before"),
    cases([(*table, before) for table in KINDS for before in ({"hoodie.metadata.enable": "false"}, {})], "made of", 3),
)
def test_what_partitions_were_made_of_is_undone(storage, version, kind, before):
    """The first of the writes undone has no delta commit, or one that the record index, made later, is not part of."""
    made = {"version": version, "kind": kind}
    write(storage, rows(range(6), 1), **made, options=before)
    write(storage, rows(range(4, 9), 2), "insert_overwrite_table", **made, options=before)
    write(storage, rows(range(7, 12), 3), **made, options=GLOBAL)
    overwrite, newest = timeline(storage).write_completed[-2:]
    rollback(context(storage, GLOBAL), newest.time)
    check(storage, GLOBAL, dict.fromkeys(range(4, 9), 2), loose=True)
    rollback(context(storage, GLOBAL), overwrite.time)
    check(storage, GLOBAL, dict.fromkeys(range(6), 1))


def test_the_process_may_be_in_another_zone_than_the_table(storage, monkeypatch):
    """Version 6: when partitions were made is told by the modification times of files alone."""
    write(storage, rows(range(6), 1), version=6)
    write(storage, rows(range(4, 9), 2), version=6)
    newest = timeline(storage).last_completed
    known = ",".join((*load_table_config(storage).metadata_partitions, "secondary_index_x"))
    update_table_config(storage, {"hoodie.table.metadata.partitions": known})
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        # neither it nor a later one that failed is in any partition: no reason to refuse for the index not kept up
        failed = InstantTime(add_ms(newest.time, 1))
        writer({}).check(session_of(storage), (newest.time, failed))
    time.tzset()


@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "one rollback after the other", 2))
def test_one_rollback_after_the_other(storage, version, kind):
    """The first rebuilds it, of what the others undo."""
    options = {**GLOBAL, "hoodie.metadata.compact.max.delta.commits": "1"}
    made = {"version": version, "kind": kind, "options": options}
    for step in range(4):
        write(
            storage, rows(range(3 * step, 3 * step + 5), step), "insert_overwrite_table" if step else "insert", **made
        )
    for step in (2, 1, 0):
        rollback(context(storage, options), timeline(storage).write_completed[-1].time)
        check(storage, options, dict.fromkeys(range(3 * step, 3 * step + 5), step))


@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "a restore to before it was made", 2))
def test_a_restore_to_before_it_was_made(storage, version, kind):
    made = {"version": version, "kind": kind}
    write(storage, rows(range(6), 1), **made, options={"hoodie.metadata.enable": "false"})
    create_savepoint(context(storage, {"hoodie.metadata.enable": "false"}))
    write(storage, rows(range(4, 9), 2), "insert_overwrite_table", **made, options={"hoodie.metadata.enable": "false"})
    write(storage, rows(range(7, 12), 3), **made, options=GLOBAL)
    restore(context(storage, GLOBAL))
    check(storage, GLOBAL, dict.fromkeys(range(6), 1))


def test_a_rollback_that_would_lose_a_foreign_index_is_refused(storage):
    options = {**GLOBAL, "hoodie.metadata.compact.max.delta.commits": "1"}
    write(storage, rows(range(6), 1), options=options)
    write(storage, rows(range(4, 9), 2), options=options)
    newest = timeline(storage).last_completed
    known = load_table_config(storage).metadata_partitions
    update_table_config(storage, {"hoodie.table.metadata.partitions": ",".join((*known, "secondary_index_x"))})
    with pytest.raises(ConfigError, match=f"Cannot roll back {newest.time} of .*secondary_index_x"):
        rollback(context(storage, options), newest.time)
    assert read(storage)[4] == 2


@pytest.mark.parametrize(
    ("version", "kind", "seed"),
    cases([(*table, seed) for table in [(6, "mor"), (9, "cow"), (9, "mor")] for seed in (1, 2)], "random histories", 2),
)
def test_random_histories(storage, version, kind, seed):
    """Writes, rollbacks, compactions and cleans: the rows are right after each, every index after every third."""
    options = {**(GLOBAL if seed == 1 else BY_PARTITION), "hoodie.metadata.compact.max.delta.commits": "4"}
    made = {"version": version, "kind": kind, "options": options}
    random_ = random.Random(seed)
    write(storage, rows(range(6), 1), **made)
    state = dict.fromkeys(range(6), 1)
    overwritten = False
    for step in range(2, 14):
        choice = random_.choice(["upsert", "upsert", "delete", "rollback", "compact", "clean", "overwrite"])
        ids = random_.sample(range(12), 4)
        if choice == "upsert":
            write(storage, rows(ids, step), **made)
            state.update(dict.fromkeys(ids, step))
        elif choice == "delete":
            write(storage, rows(ids[:2], step), "delete", **made)
            state = {key: value for key, value in state.items() if key not in ids[:2]}
        elif choice == "overwrite":
            write(storage, rows(ids, step), "insert_overwrite_table", **made)
            state, overwritten = dict.fromkeys(ids, step), True
        elif choice == "rollback":
            before = dict(state)
            write(storage, rows(ids, step), **made)
            rollback(context(storage, options), timeline(storage).last_completed.time)
            state = before
        elif choice == "clean":
            working = context(storage, {**options, "hoodie.clean.commits.retained": "2"})
            scheduled = Cleaning().schedule(working)
            if scheduled.instant is not None:
                run(Cleaning(), working, scheduled.instant)
        elif kind == "mor":
            working = context(storage, options)
            compaction = Compaction(always=True)
            scheduled = compaction.schedule(working)
            if scheduled.instant is not None:
                run(compaction, working, scheduled.instant)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if step % 3 == 1:
                check(storage, options, state, loose=overwritten)
            else:
                assert read(storage) == state


@pytest.mark.parametrize("version", [6, pytest.param(8, marks=pytest.mark.long), 9])
def test_it_is_made_while_a_compaction_is_pending(storage, version):
    """The compaction's delta commit is then the first one, and older than commits before the metadata table."""
    off = {"hoodie.metadata.enable": "false"}
    made = {"version": version, "kind": "mor"}
    write(storage, rows(range(6), 1), **made, options=off)
    write(storage, rows(range(3), 2), **made, options=off)
    compaction = Compaction(always=True)
    scheduled = compaction.schedule(context(storage, off))
    assert scheduled.instant is not None
    write(storage, rows(range(2), 3), **made, options=off)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(storage, rows(range(4, 8), 4), **made, options=GLOBAL)
        state = {**dict.fromkeys(range(2), 3), 2: 2, 3: 1, **dict.fromkeys(range(4, 8), 4)}
        check(storage, GLOBAL, state)
        run(compaction, context(storage, GLOBAL), scheduled.instant)
        if version >= 8:
            check(storage, GLOBAL, state, loose=True)
            write(storage, rows(range(1), 5), **made, options=GLOBAL)
            check(storage, GLOBAL, {**state, 0: 5}, loose=True)


@pytest.mark.parametrize("version", [8, 9])
def test_one_that_lacks_the_first_commit_since_it_was_made_is_made_anew(storage, version):
    write(storage, rows(range(6), 1), version=version)
    own = FolderStorage(storage, ".hoodie/metadata")
    newest = timeline(storage).last_completed
    for info in list(own.walk()):
        if newest.time in info.name:
            own.delete(info.path)
    with pytest.warns(UserWarning, match="is rebuilt"):
        write(storage, rows(range(3), 2), version=version)
    check(storage, {}, {**dict.fromkeys(range(3), 2), **dict.fromkeys(range(3, 6), 1)})


def test_a_log_compaction_is_in_the_way_too():
    layout = layout_for(TableConfig({"hoodie.table.name": "t", "hoodie.table.version": "9"}))
    names = [
        "3_4.deltacommit",
        "5_6.deltacommit",
        "5.deltacommit.inflight",
        "7.logcompaction.requested",
        "7_8.deltacommit",
    ]
    instants = [layout.parse(name) for name in names]
    found = timeline_of(layout, [each for each in instants if each is not None])
    storage = MemoryStorage("merged")
    assert not can_undo(storage, found, InstantTime("5"))
    assert can_undo(storage, found, InstantTime("9"))
    assert can_undo(storage, timeline_of(layout, found.files[:3]), InstantTime("5"))
