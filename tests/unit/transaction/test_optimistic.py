"""Several writers at a time: which writes conflict, and what happens to those that failed."""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest

from hudi_py.config.concurrency import (
    BUCKET_STRATEGY,
    EARLY_DETECTION,
    EARLY_STRATEGIES,
    ONE_WRITER,
    OPTIMISTIC,
    PREFER_WRITER_STRATEGY,
)
from hudi_py.errors import ConfigError, ConflictError, RolledBackError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import FileId
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import RollbackPlan, encode_commit_metadata, encode_rollback_plan, read_commit_metadata
from hudi_py.timeline.timeline import load_timeline, timeline_of
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.conflicts import OptimisticWriters, SingleWriter, conflict_policy
from hudi_py.transaction.conflicts.optimistic import canonical
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.settings import ConflictStrategy, TransactionSettings
from hudi_py.write.api import write_options
from tests.support.foreign_actions import clustering_plan, compaction_plan, completed_by_java
from tests.support.hand_writes import (
    SCHEMA,
    SETTINGS,
    attach,
    begin,
    commit,
    data_files,
    fast_clock,
    first_write,
    java_pending,
    leftovers,
    new_table,
    plan,
    snapshot,
    write_base,
    write_update,
)
from tests.support.sessions import changed

SIMPLE = changed(SETTINGS, MODE=OPTIMISTIC)
PREFER_WRITER = changed(SIMPLE, STRATEGY=PREFER_WRITER_STRATEGY)
STRATEGIES = {"simple": SIMPLE, "prefer writer": PREFER_WRITER}
KINDS = [(version, mor) for version in (6, 8, 9) for mor in (False, True)]
FILE_SYSTEM_LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


def stage(storage, config, time_: str, action: Action, requested: bytes, inflight: bytes | None = None) -> None:
    """A pending instant of another engine."""
    layout = load_timeline(storage, config).layout
    storage.put(layout.path(layout.requested_name(InstantTime(time_), action)), requested)
    if inflight is not None:
        storage.put(layout.path(layout.inflight_name(InstantTime(time_), action)), inflight)


def later(storage, config) -> str:
    return fast_clock(config).next_instant(load_timeline(storage, config))


# -- two writes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "mor"), KINDS)
@pytest.mark.parametrize("settings", STRATEGIES.values(), ids=STRATEGIES)
def test_of_two_writes_of_a_file_group_the_later_commit_fails(storage, version, mor, settings):
    config = new_table(storage, version, mor=mor)
    first_write(storage, config)
    with begin(storage, config, settings=settings) as one, begin(storage, config, settings=settings) as two:
        stats = write_update(one, ["a"])
        time.sleep(0.002)
        commit(two, write_update(two, ["a"]))
        with pytest.raises(ConflictError, match=rf"{two.instant} \(UPSERT\) .* changed the file group f-a") as raised:
            commit(one, stats)
        assert "hoodie.write.num.retries.on.conflict.failures" in str(raised.value)
        assert raised.value.instant == two.instant
        one.abort()
    timeline = load_timeline(storage, config)
    assert timeline.pending == ()
    assert timeline.find(one.instant) is None
    assert leftovers(storage) == set()
    group = snapshot(storage, config)["a"][0]
    assert two.instant in (group[1] or "") or len(group[2]) == 1


@pytest.mark.parametrize(("version", "mor"), KINDS)
def test_writes_of_different_file_groups_commit_in_any_order(storage, version, mor):
    config = new_table(storage, version, mor=mor)
    first_write(storage, config)
    with ExitStack() as stack:
        one, two, three = (stack.enter_context(begin(storage, config, settings=SIMPLE)) for _ in range(3))
        stats = write_update(one, ["a"])
        commit(three, [write_base(three, "c", "f-c")])
        commit(two, [*write_update(two, ["b"]), write_base(two, "c", "g-c")])
        commit(one, stats)
    assert {group for part in snapshot(storage, config).values() for group, _, _ in part} == {
        "f-a",
        "f-b",
        "f-c",
        "g-c",
    }
    assert len(load_timeline(storage, config).completed) == 4
    assert leftovers(storage) == set()


@pytest.mark.parametrize("version", [6, 9])
def test_a_write_that_was_pending_at_the_begin_and_has_completed_since_conflicts(storage, version):
    """Its requested time is older than that of writes which were completed at the begin."""
    config = new_table(storage, version)
    first_write(storage, config)
    with begin(storage, config, settings=SIMPLE) as early:
        stats = write_update(early, ["a"])
        with begin(storage, config, settings=SIMPLE) as other:
            commit(other, write_update(other, ["b"]))
        with begin(storage, config, settings=SIMPLE) as late:
            late_stats = write_update(late, ["a"])
            commit(early, stats)
            with pytest.raises(ConflictError, match=f"{early.instant} .* changed the file group f-a"):
                commit(late, late_stats)
            late.abort()


@pytest.mark.parametrize("version", [6, 9])
def test_what_was_completed_at_the_begin_is_no_conflict(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    for _ in range(2):
        with begin(storage, config, settings=SIMPLE) as tx:
            commit(tx, write_update(tx))


def test_replaced_file_groups_conflict(storage):
    config = new_table(storage)
    first_write(storage, config)
    with (
        begin(storage, config, settings=SIMPLE) as update,
        begin(storage, config, settings=SIMPLE, action=Action.REPLACE_COMMIT) as overwrite,
    ):
        stats = write_update(update, ["a"])
        commit(overwrite, [write_base(overwrite, "a", "g-a")], replaced={"a": ["f-a"]})
        with pytest.raises(ConflictError, match=f"{overwrite.instant} .* changed the file group f-a"):
            commit(update, stats)
        update.abort()


def test_file_groups_of_one_bucket_conflict(storage):
    """The first file of a bucket, made by two writers."""
    settings = changed(SIMPLE, STRATEGY=BUCKET_STRATEGY)
    config = new_table(storage)
    for other, conflicts in (("00000001-b", True), ("00000002-b", False)):
        with begin(storage, config, settings=settings) as one, begin(storage, config, settings=settings) as two:
            stats = [write_base(one, "a", "00000001-a")]
            commit(two, [write_base(two, "a", other)])
            if conflicts:
                with pytest.raises(ConflictError, match="changed the file group 00000001-a of partition 'a'"):
                    commit(one, stats)
                one.abort()
            else:
                commit(one, stats)


def test_a_restore_since_the_begin_is_a_conflict(storage):
    config = new_table(storage)
    first_write(storage, config)
    for state in ("inflight", "completed"):
        handle = plan(storage, config, settings=SIMPLE)
        time.sleep(0.003)
        with begin(storage, config, settings=SIMPLE) as tx:
            stats = write_update(tx, ["a"])
            time_ = later(storage, config)
            layout = load_timeline(storage, config).layout
            name = (
                layout.inflight_name(InstantTime(time_), Action.RESTORE)
                if state == "inflight"
                else layout.completed_name(
                    InstantTime(time_),
                    Action.RESTORE,
                    fast_clock(config).next_completion(load_timeline(storage, config)),
                )
            )
            storage.put(layout.path(name), b"")
            with pytest.raises(ConflictError, match=f"the restore {time_}"):
                commit(tx, stats)
            with pytest.raises(ConflictError, match=f"the restore {time_}"):
                attach(handle, storage).start()
            storage.delete(layout.path(name))
            tx.abort()


def test_a_write_that_was_pending_and_is_archived_is_a_conflict(storage):
    """What it changed is in the archive alone."""
    config = new_table(storage)
    first_write(storage, config)
    with begin(storage, config, settings=SIMPLE) as early:
        early_stats = write_update(early, ["b"])
        with begin(storage, config, settings=SIMPLE) as tx:
            stats = write_update(tx, ["a"])
            commit(early, early_stats)
            for info in storage.list(".hoodie/timeline"):
                if not info.is_dir and info.name[:17] <= early.instant:
                    storage.delete(info.path)
            with pytest.raises(ConflictError, match=f"{early.instant}, which was pending .* has been archived"):
                commit(tx, stats)


# -- table services -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "strategy", "when", "conflicts"),
    [
        (6, "simple", "before", False),
        (6, "simple", "after", True),
        (6, "prefer writer", "before", False),
        (6, "prefer writer", "after", True),
        (9, "simple", "before", False),
        (9, "simple", "after", False),
        (9, "prefer writer", "before", False),
        (9, "prefer writer", "after", True),
    ],
)
def test_a_completed_compaction_conflicts_by_when_it_was_planned(storage, version, strategy, when, conflicts):
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    earlier = later(storage, config)
    time.sleep(0.003)
    with begin(storage, config, settings=STRATEGIES[strategy]) as tx:
        stats = write_update(tx, ["a"])
        compacted = CommitMetadata("COMPACT", stats=(replace(stats[0], log_version=None),), compacted=True)
        other = completed_by_java(storage, config, compacted, instant=earlier if when == "before" else None)
        if conflicts:
            with pytest.raises(ConflictError, match=rf"{other} \(COMPACT\) .* changed the file group f-a"):
                commit(tx, stats)
            tx.abort()
        else:
            commit(tx, stats)


def test_a_new_base_file_conflicts_with_a_compaction_of_its_file_group(storage):
    config = new_table(storage, mor=True)
    first_write(storage, config)
    with begin(storage, config, settings=SIMPLE) as tx:
        stat = write_base(tx, "a", "f-a", previous="x")
        completed_by_java(storage, config, CommitMetadata("COMPACT", stats=(stat,), compacted=True))
        with pytest.raises(ConflictError, match="changed the file group f-a"):
            commit(tx, [stat])
        tx.abort()


@pytest.mark.parametrize("settings", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("operation", ["LOG_COMPACT", "CLUSTER"])
def test_other_completed_services_conflict(storage, operation, settings):
    config = new_table(storage, mor=True)
    first_write(storage, config)
    with begin(storage, config, settings=settings) as tx:
        stats = write_update(tx, ["a"])
        action = Action.DELTA_COMMIT if operation == "LOG_COMPACT" else Action.REPLACE_COMMIT
        metadata = CommitMetadata(operation, stats=tuple(stats), compacted=operation == "LOG_COMPACT")
        other = completed_by_java(storage, config, metadata, action)
        with pytest.raises(ConflictError, match=rf"{other} \({operation}\)"):
            commit(tx, stats)
        tx.abort()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", [Action.COMPACTION, Action.CLUSTERING])
def test_pending_services(storage, version, strategy, when, action):
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    plan_of = compaction_plan if action is Action.COMPACTION else clustering_plan
    if action is Action.COMPACTION:
        # a log of version 6 that is written after the plan would be lost
        conflicts = version == 6 and when == "after"
    else:
        conflicts = strategy == "simple"
    for partition in ("a", "b"):
        earlier = later(storage, config)
        time.sleep(0.003)
        if when == "before":
            stage(storage, config, earlier, action, plan_of(partition, f"f-{partition}"))
        with begin(storage, config, settings=STRATEGIES[strategy]) as tx:
            stats = [write_base(tx, "a", "f-a", previous="x")] if version == 9 else write_update(tx, ["a"])
            time_ = earlier if when == "before" else later(storage, config)
            stage(storage, config, time_, action, plan_of(partition, f"f-{partition}"))
            if conflicts and partition == "a":
                with pytest.raises(ConflictError, match=f"{time_} .* is pending and changes the file group f-a"):
                    commit(tx, stats)
                tx.abort()
            else:
                commit(tx, stats)
        layout = load_timeline(storage, config).layout
        storage.delete(layout.path(layout.requested_name(InstantTime(time_), action)))


@pytest.mark.parametrize(
    ("strategy", "when", "conflicts"),
    [("simple", "after", True), ("simple", "before", False), ("prefer writer", "after", False)],
)
def test_a_pending_overwrite_conflicts_where_it_began_later_and_its_inflight_file_names_the_group(
    storage, strategy, when, conflicts
):
    config = new_table(storage)
    first_write(storage, config)
    layout = load_timeline(storage, config).layout
    earlier = later(storage, config)
    time.sleep(0.003)
    with begin(storage, config, settings=STRATEGIES[strategy]) as tx:
        stats = write_update(tx, ["a"])
        content = encode_commit_metadata(
            CommitMetadata("INSERT_OVERWRITE", stats=tuple(stats)),
            layout,
            action=Action.REPLACE_COMMIT,
            completed=False,
        )
        time_ = earlier if when == "before" else later(storage, config)
        stage(storage, config, time_, Action.REPLACE_COMMIT, b"", content)
        if conflicts:
            with pytest.raises(ConflictError, match=rf"{time_} \(INSERT_OVERWRITE\) is pending"):
                commit(tx, stats)
            tx.abort()
        else:
            commit(tx, stats)


# -- schemas ------------------------------------------------------------------------------------------------------


def schema_with(*columns: str, doc: str = "") -> str:
    schema = json.loads(SCHEMA)
    schema["fields"] += [{"name": name, "type": ["null", "string"], "default": None} for name in columns]
    if doc:
        schema["doc"] = doc
    return json.dumps(schema)


def committed_schema(storage, config, time_: str) -> str:
    timeline = load_timeline(storage, config)
    found = timeline.find(time_)
    assert found is not None
    return read_commit_metadata(storage, timeline.layout, found).extra["schema"]


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    ("theirs", "ours", "committed"),
    [
        ((), (), ()),
        (("x",), (), ("x",)),  # ours leaves the schema as it was
        ((), ("y",), None),  # began later, so that readers would take theirs
        (("x",), ("x",), ("x",)),
        (("x",), ("y",), None),
    ],
)
def test_changes_of_the_schema(storage, version, theirs, ours, committed):
    config = new_table(storage, version)
    first_write(storage, config)
    with begin(storage, config, settings=SIMPLE) as one:
        stats = write_update(one, ["a"])
        with begin(storage, config, settings=SIMPLE) as two:
            two.commit(OperationResult(write_update(two, ["b"])), schema_json=schema_with(*theirs, doc="d"))
        if committed is None:
            with pytest.raises(ConflictError, match="the schema of the table"):
                one.commit(OperationResult(stats), schema_json=schema_with(*ours))
            one.abort()
            return
        one.commit(OperationResult(stats), schema_json=schema_with(*ours))
    found = committed_schema(storage, config, one.instant)
    assert [field["name"] for field in json.loads(found)["fields"]] == ["id", *committed]


@pytest.mark.parametrize("version", [6, 9])
def test_a_write_that_began_later_may_change_the_schema(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    with begin(storage, config, settings=SIMPLE) as one:
        stats = write_update(one, ["a"])
        with begin(storage, config, settings=SIMPLE) as two:
            two_stats = write_update(two, ["b"])
            commit(one, stats)
            two.commit(OperationResult(two_stats), schema_json=schema_with("y"))
    assert "y" in committed_schema(storage, config, two.instant)


def test_the_first_writes_of_a_table_must_have_one_schema(storage):
    config = new_table(storage)
    for columns, conflicts in ((("x",), True), ((), False)):
        with begin(storage, config, settings=SIMPLE) as one:
            stats = [write_base(one, "a", "f")]
            if not load_timeline(storage, config).completed:
                with begin(storage, config, settings=SIMPLE) as two:
                    commit(two, [write_base(two, "b", "g")])
            if conflicts:
                with pytest.raises(ConflictError, match="changed the schema"):
                    one.commit(OperationResult(stats), schema_json=schema_with(*columns))
                one.abort()
            else:
                one.commit(OperationResult(stats), schema_json=schema_with(*columns))


def test_schemas_need_not_be_compared(storage):
    settings = changed(SIMPLE, RESOLVE_SCHEMAS="false")
    config = new_table(storage)
    first_write(storage, config)
    with begin(storage, config, settings=settings) as one:
        stats = write_update(one, ["a"])
        with begin(storage, config, settings=settings) as two:
            two.commit(OperationResult(write_update(two, ["b"])), schema_json=schema_with("x"))
        one.commit(OperationResult(stats), schema_json=schema_with("y"))
    assert "y" in committed_schema(storage, config, one.instant)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("string", {"type": "string", "avro.java.string": "String"}, True),
        (["null", "int"], ["int", "null"], True),
        ("int", "long", False),
        ({"type": "long", "logicalType": "timestamp-micros"}, "long", False),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
            False,
        ),
        ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "int"]}, False),
        ({"type": "map", "values": "int"}, {"type": "map", "values": {"type": "int"}}, True),
        (
            {"type": "enum", "name": "a.E", "symbols": ["x"]},
            {"type": "enum", "name": "E", "namespace": "b", "symbols": ["x"], "doc": "d"},
            True,
        ),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, False),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            {"type": "record", "name": "S", "fields": [{"name": "a", "type": "int", "doc": "d"}]},
            True,
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 0}]},
            False,
        ),
    ],
)
def test_which_schemas_are_the_same(one, two, same):
    assert (canonical(one) == canonical(two)) is same


# -- who is at work -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [6, 9])
def test_living_writes_are_left_alone_and_dead_ones_rolled_back(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    living = begin(storage, config, settings=SIMPLE)
    living_stat = write_base(living, "c", "living")
    dead = begin(storage, config, settings=SIMPLE)
    write_base(dead, "c", "dead")
    dead.rest()  # its process is not at work on it any more
    time.sleep(0.003)
    java = later(storage, config)
    java_pending(storage, config, java)
    for _ in range(2):
        with begin(storage, config, settings=SIMPLE) as tx:
            commit(tx, write_update(tx, ["a"]))
    assert [instant.time for instant in load_timeline(storage, config).pending] == [living.instant, java]
    assert {path.rpartition("/")[2][:4] for path in data_files(storage) if path.startswith("c/")} == {"livi"}
    with living:
        commit(living, [living_stat])
    assert leftovers(storage) <= {f".hoodie/{java}"}
    layout = load_timeline(storage, config).layout
    for name in (layout.requested_name, layout.inflight_name):
        storage.set_modified(layout.path(name(InstantTime(java), Action.COMMIT)), now_ms() - 3_600_000)
    with begin(storage, config, settings=SIMPLE) as tx:
        commit(tx, write_update(tx, ["a"]))
    assert load_timeline(storage, config).pending == ()


@pytest.mark.parametrize("version", [6, 9])
def test_a_rollback_that_another_engine_is_at_is_left_to_it_until_it_is_old(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    failed = later(storage, config)
    java_pending(storage, config, failed)
    layout = load_timeline(storage, config).layout
    for name in (layout.requested_name, layout.inflight_name):
        storage.set_modified(layout.path(name(InstantTime(failed), Action.COMMIT)), now_ms() - 3_600_000)
    time.sleep(0.003)
    rollback = later(storage, config)
    content = encode_rollback_plan(RollbackPlan(InstantTime(failed), "commit", ()))
    stage(storage, config, rollback, Action.ROLLBACK, content, b"")
    time.sleep(0.003)
    with begin(storage, config, settings=SIMPLE) as tx:
        commit(tx, write_update(tx, ["a"]))
    assert [instant.time for instant in load_timeline(storage, config).pending] == [failed, rollback]
    beat = f".hoodie/.heartbeat/{rollback}"
    for name in (layout.requested_name, layout.inflight_name):
        storage.set_modified(layout.path(name(InstantTime(rollback), Action.ROLLBACK)), now_ms() - 3_600_000)
    storage.touch(beat)
    with begin(storage, config, settings=SIMPLE) as tx:
        commit(tx, write_update(tx, ["a"]))
    assert [instant.time for instant in load_timeline(storage, config).pending] == [failed, rollback]
    storage.set_modified(beat, now_ms() - 3_600_000)
    with begin(storage, config, settings=SIMPLE) as tx:
        commit(tx, write_update(tx, ["a"]))
    timeline = load_timeline(storage, config)
    assert timeline.pending == ()
    assert timeline.find(failed) is None
    assert timeline.find(rollback, Action.ROLLBACK) is not None


def test_single_writers_do_not_begin_beside_others(storage):
    config = new_table(storage)
    with (
        begin(storage, config, settings=SIMPLE),
        pytest.raises(ConflictError, match=re.escape(ONE_WRITER)),
    ):
        begin(storage, config)


NEVER = changed(SETTINGS, FAILED_WRITES="NEVER")


@pytest.mark.parametrize(("version", "mor"), KINDS)
def test_with_the_policy_never_failed_writes_stay_pending(storage, version, mor):
    """Nobody sees them, and a write with another policy rolls them back."""
    config = new_table(storage, version, mor=mor)
    first_write(storage, config)
    failed = begin(storage, config, settings=NEVER)
    write_update(failed, ["a"])
    failed.rest()
    left = {path for path in data_files(storage) if path.startswith("a/")}
    time.sleep(0.003)
    with begin(storage, config, settings=NEVER) as tx:
        commit(tx, write_update(tx, ["a", "b"]))
    assert [instant.time for instant in load_timeline(storage, config).pending] == [failed.instant]
    assert left <= set(data_files(storage))
    groups = snapshot(storage, config)
    assert [len(logs) if mor else tx.instant in (base or "") for _, base, logs in groups["a"]] == [1]
    with begin(storage, config) as tx:
        commit(tx, write_update(tx, ["a"]))
    timeline = load_timeline(storage, config)
    assert timeline.pending == ()
    assert timeline.find(failed.instant) is None
    assert leftovers(storage) == set()


@pytest.mark.parametrize("version", [6, 9])
def test_with_the_policy_never_a_living_write_is_in_the_way_all_the_same(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    with (
        begin(storage, config, settings=NEVER),
        pytest.raises(ConflictError, match=re.escape(ONE_WRITER)),
    ):
        begin(storage, config, settings=NEVER)


# -- conflicts found early ----------------------------------------------------------------------------------------

EARLY = changed(SIMPLE, EARLY_DETECTION="true")
EARLY_COMMITS = changed(EARLY, EARLY_COMMITS="true")


@pytest.mark.parametrize(("version", "mor"), KINDS)
def test_a_write_fails_at_its_first_file_of_a_group_that_an_earlier_one_is_changing(storage, version, mor):
    config = new_table(storage, version, mor=mor)
    first_write(storage, config)
    with begin(storage, config, settings=EARLY) as one, begin(storage, config, settings=EARLY) as two:
        stats = write_update(one, ["a"])
        before = set(data_files(storage))
        mine = write_update(two, ["b"])
        with pytest.raises(ConflictError, match=rf"{one.instant}.* changing the file group f-a of partition 'a'") as e:
            write_update(two, ["a"])
        assert e.value.instant == one.instant
        assert "hoodie.write.num.retries.on.conflict.failures" in str(e.value)
        assert set(data_files(storage)) - before == {stat.path for stat in mine}
        stats += write_update(one, ["b"])  # of two writes the later one fails
        two.abort()
        commit(one, stats)
    assert leftovers(storage) == set()


def java_writing(storage, config, instant: str, markers: dict[str, str], *, beats: bool = True) -> None:
    """A write of Apache Hudi under way: its marker folder holds these files."""
    java_pending(storage, config, InstantTime(instant))
    for name, content in markers.items():
        storage.put(f".hoodie/.temp/{instant}/{name}", content.encode())
    if beats:
        storage.touch(f".hoodie/.heartbeat/{instant}")


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("mor", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_markers_of_apache_hudi_count_while_its_heartbeat_does(storage, version, mor, direct):
    config = new_table(storage, version, mor=mor)
    first_write(storage, config)
    java = later(storage, config)
    file = f".f-a_{java}.log.1_0-1-2" if mor else f"f-a_0-1-2_{java}.parquet"
    marker = f"a/{file}.marker.{('APPEND' if version < 8 else 'CREATE') if mor else 'MERGE'}"
    other = f"b/f-b2_0-1-3_{java}.parquet.marker.CREATE"
    if direct:
        java_writing(storage, config, java, {marker: "", other: ""})
    else:
        java_writing(
            storage, config, java, {"MARKERS.type": "TIMELINE_SERVER_BASED", "MARKERS0": f"{other}\n{marker}\n"}
        )
    time.sleep(0.003)
    with begin(storage, config, settings=EARLY) as tx:
        write_update(tx, ["b"])
        with pytest.raises(ConflictError, match=f"{java}.* changing the file group f-a of"):
            write_update(tx, ["a"])
        storage.set_modified(f".hoodie/.heartbeat/{java}", now_ms() - 3_600_000)
        write_update(tx, ["a"])
        tx.abort()


@pytest.mark.parametrize("version", [6, 9])
def test_early_detection_leaves_plans_and_rolled_back_writes_to_the_commit(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    gone = later(storage, config)
    storage.put(f".hoodie/.temp/{gone}/a/f-a_0-1-2_{gone}.parquet.marker.MERGE", b"")
    storage.touch(f".hoodie/.heartbeat/{gone}")
    time.sleep(0.003)
    clustering = later(storage, config)
    action = Action.REPLACE_COMMIT if version == 6 else Action.CLUSTERING
    stage(storage, config, clustering, action, clustering_plan("b", "f-b"), b"")
    storage.put(f".hoodie/.temp/{clustering}/b/f-b_0-1-2_{clustering}.parquet.marker.CREATE", b"")
    storage.touch(f".hoodie/.heartbeat/{clustering}")
    time.sleep(0.003)
    with begin(storage, config, settings=EARLY) as tx:
        write_update(tx, ["a", "b"])
        tx.abort()


@pytest.mark.parametrize(("version", "mor"), KINDS)
def test_completed_writes_are_looked_at_early_where_that_is_asked_for(storage, version, mor):
    config = new_table(storage, version, mor=mor)
    first_write(storage, config)
    for settings, fails in ((EARLY, False), (EARLY_COMMITS, True)):
        with begin(storage, config, settings=settings) as one:
            time.sleep(0.003)
            with begin(storage, config, settings=SIMPLE) as two:
                commit(two, write_update(two, ["a"]))
            write_update(one, ["b"])
            if fails:
                with pytest.raises(ConflictError, match=rf"{two.instant} \(UPSERT\) .* changed the file group f-a"):
                    write_update(one, ["a"])
            else:
                write_update(one, ["a"])
            one.abort()


@pytest.mark.parametrize("strategy", EARLY_STRATEGIES)
def test_every_strategy_of_early_detection_is_accepted(strategy):
    settings = of(
        **{
            "hoodie.write.lock.provider": FILE_SYSTEM_LOCK,
            "hoodie.write.concurrency.early.conflict.detection.enable": "true",
            "hoodie.write.concurrency.early.conflict.detection.strategy": strategy,
            "hoodie.write.concurrency.async.conflict.detector.period_ms": "1000",
        }
    )
    assert settings.get(EARLY_DETECTION)


def test_early_detection_is_for_several_writers():
    with pytest.raises(ConfigError, match=r"needs hoodie\.write\.concurrency\.mode = 'OPTIMISTIC"):
        TransactionSettings.of(write_options({"hoodie.write.concurrency.early.conflict.detection.enable": "true"}))


def test_the_policy_never_is_lazy_with_several_writers():
    never = {"hoodie.cleaner.policy.failed.writes": "never"}
    assert TransactionSettings.of(write_options(never)).keeps_failed_writes
    assert not of(**never, **{"hoodie.write.lock.provider": FILE_SYSTEM_LOCK}).keeps_failed_writes


# -- planned, and begun later by tasks ----------------------------------------------------------------------------


def test_a_planned_write_begins_after_others_have_committed(storage):
    """Also where they made the first commits of the table."""
    config = new_table(storage)
    handle = plan(storage, config, settings=SIMPLE)
    time.sleep(0.003)
    first_write(storage, config)
    with attach(handle, storage) as tx:
        commit(tx, [write_base(tx, "c", "f-c")])
    assert sorted(snapshot(storage, config)) == ["a", "b", "c"]


def test_a_planned_write_does_not_begin_once_later_instants_are_archived(storage):
    config = new_table(storage)
    handle = plan(storage, config, settings=SIMPLE)
    time.sleep(0.003)
    first_write(storage, config)
    storage.put(".hoodie/timeline/history/manifest_1", b"{}")
    with pytest.raises(RolledBackError, match="the timeline begins after it"):
        attach(handle, storage).start()


def test_a_planned_write_of_version_6_begins_before_any_later_one(storage):
    """Which would not know it from a completed one."""
    config = new_table(storage, 6)
    first_write(storage, config)
    handle = plan(storage, config, settings=SIMPLE)
    time.sleep(0.003)
    with begin(storage, config, settings=SIMPLE) as other:
        with pytest.raises(ConflictError, match=f"{other.instant} was requested after this write was planned"):
            attach(handle, storage).start()
        commit(other, write_update(other, ["a"]))


# -- settings and times -------------------------------------------------------------------------------------------


def of(**more: str) -> TransactionSettings:
    return TransactionSettings.of(
        write_options({"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", **more})
    )


@pytest.mark.parametrize("provider", [None, "org.apache.hudi.client.transaction.lock.InProcessLockProvider"])
def test_without_a_lock_that_all_writers_share_it_is_refused(provider):
    with pytest.raises(ConfigError, match=r"hoodie\.write\.lock\.provider (is not set|.*InProcess).*; set a lock"):
        of(**({"hoodie.write.lock.provider": provider} if provider else {}))


def test_settings_come_from_options():
    lock = {"hoodie.write.lock.provider": FILE_SYSTEM_LOCK}
    assert isinstance(conflict_policy(TransactionSettings.of(write_options(lock))), SingleWriter)
    settings = of(**lock)
    assert (settings.strategy, settings.conflict_retries) == (ConflictStrategy.SIMPLE, 0)
    assert isinstance(conflict_policy(settings), OptimisticWriters)
    settings = of(
        **lock,
        **{
            "hoodie.write.lock.conflict.resolution.strategy": "org.apache.hudi.client.transaction."
            "PreferWriterConflictResolutionStrategy",
            "hoodie.write.concurrency.schema.conflict.resolution.enable": "false",
            "hoodie.write.num.retries.on.conflict.failures": "3",
            "hoodie.clean.failed.writes.policy": "LAZY",
        },
    )
    assert (settings.strategy, settings.conflict_retries) == (ConflictStrategy.PREFER_WRITER, 3)


@pytest.mark.parametrize(("version", "settings", "waits"), [(9, SIMPLE, 2), (6, SIMPLE, 1), (9, SETTINGS, 1)])
def test_completion_times_wait_for_clocks_that_are_behind(storage, version, settings, waits):
    """From version 8 on, where several write: the lock is held meanwhile."""
    config = new_table(storage, version)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        assert storage.stat(".hoodie/lock") is not None
        waited.append(seconds)

    clock = InstantClock(config, skew_ms=300, sleep=sleep)
    with begin(storage, config, settings=settings, clock=clock) as tx:
        commit(tx, [write_base(tx, "a", str(FileId("f")))])
    assert waited == [0.3] * waits


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({}, False),
        ({"hoodie.write.lock.provider": "FileSystemBasedLockProvider"}, True),
        (
            {
                "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
                "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            },
            True,
        ),
    ],
)
def test_instants_wait_for_other_clocks_if_there_may_be_other_writers(
    options: dict[str, str], waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setitem(InstantClock.__init__.__kwdefaults__, "sleep", slept.append)
    clock = TransactionSettings.of(write_options(options)).clock(TableConfig({}))
    clock.next_instant(timeline_of(Layout(2, ".hoodie/timeline"), []))
    assert slept == ([0.2] if waits else [])
