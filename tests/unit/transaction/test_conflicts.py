"""What happened between the plan of a write and its commit: other writes, table services, rollbacks."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from hudi_py.config.concurrency import ONE_WRITER
from hudi_py.errors import ConflictError, RolledBackError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action
from hudi_py.timeline.timeline import load_timeline
from tests.support.foreign_actions import clustering_plan, compaction_plan, completed_by_java
from tests.support.hand_writes import (
    begin,
    commit,
    data_files,
    fast_clock,
    first_write,
    java_pending,
    new_table,
    write_base,
    write_update,
)


@pytest.mark.parametrize("version", [6, 9])
def test_another_write_since_the_plan_is_a_conflict(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    with begin(storage, config) as tx:
        stats = write_update(tx)
        other = completed_by_java(storage, config, CommitMetadata("INSERT"))
        again = re.escape(f"has been completed; nothing was published, write again; {ONE_WRITER}")
        with pytest.raises(ConflictError, match=rf"commit {other} \(INSERT\) {again}"):
            commit(tx, stats)
        tx.abort()
    assert len(data_files(storage)) == 2


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_since_the_plan_conflicts_where_it_overlaps(storage, version):
    """Logs that name their own instant, as since version 8, are none."""
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    for groups, conflicts in ((("a",), version < 8), (("b",), False)):
        with begin(storage, config) as tx:
            stats = write_update(tx, ["a"])
            compacted = CommitMetadata(
                "COMPACT",
                stats=tuple(replace(stats[0], partition_path=g, file_id=f"f-{g}") for g in groups),
                compacted=True,
            )
            other = completed_by_java(storage, config, compacted)
            if conflicts:
                with pytest.raises(
                    ConflictError,
                    match=f"{other} has rewritten the file group f-a of partition 'a'; [^;]*, write again$",
                ):
                    commit(tx, stats)
                tx.abort()
            else:
                commit(tx, stats)


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_that_was_pending_when_the_write_was_planned_is_no_conflict(storage, version):
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    earlier = fast_clock(config).next_instant(load_timeline(storage, config))
    time.sleep(0.005)
    with begin(storage, config) as tx:
        assert earlier < tx.instant
        stats = write_update(tx, ["a"])
        compacted = CommitMetadata("COMPACT", stats=(replace(stats[0], log_version=None),), compacted=True)
        completed_by_java(storage, config, compacted, instant=earlier)
        commit(tx, stats)


def test_a_write_begun_by_another_engine_since_the_plan_is_a_conflict(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        java_pending(storage, config, fast_clock(config).next_instant(load_timeline(storage, config)))
        with pytest.raises(
            ConflictError, match=re.escape(f"is under way; nothing was published, write again; {ONE_WRITER}")
        ):
            commit(tx, [])


def test_a_rollback_by_another_engine_ends_the_write(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        for name in ("inflight", "commit.requested"):
            storage.delete(f".hoodie/timeline/{tx.instant}.{name}")
        with pytest.raises(RolledBackError):
            write_base(tx, "a", "g")
        with pytest.raises((RolledBackError, ConflictError)):
            commit(tx, [stat])


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("action", [Action.COMPACTION, Action.CLUSTERING])
def test_a_service_scheduled_since_the_plan_conflicts_where_it_overlaps(storage, version, action):
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    plan_of = compaction_plan if action is Action.COMPACTION else clustering_plan
    in_the_way = version < 8 or action is Action.CLUSTERING
    for partition, conflicts in (("a", in_the_way), ("b", False)):
        with begin(storage, config) as tx:
            stats = write_update(tx, ["a"])
            timeline = load_timeline(storage, config)
            time_ = fast_clock(config).next_instant(timeline)
            path = timeline.layout.path(timeline.layout.requested_name(time_, action))
            storage.put(path, plan_of(partition, f"f-{partition}"))
            if conflicts:
                with pytest.raises(ConflictError, match=f"{time_} is going to rewrite the file group f-a"):
                    commit(tx, stats)
                tx.abort()
                storage.delete(path)
            else:
                commit(tx, stats)
                if partition == "a":
                    storage.delete(path)
    assert [i.time for i in load_timeline(storage, config).pending] == [time_]


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_clustering_is_no_failed_write(storage, version):
    """Version 6 names it like any other replacecommit."""
    config = new_table(storage, version)
    first_write(storage, config)
    layout = load_timeline(storage, config).layout
    for name, content in (
        (layout.requested_name("20200101000000000", Action.CLUSTERING), clustering_plan("a", "f-a")),
        (layout.inflight_name("20200101000000000", Action.CLUSTERING), b""),
    ):
        storage.put(layout.path(name), content)
        storage.set_modified(layout.path(name), 0)
    with begin(storage, config) as tx:
        stats = write_update(tx, ["a"])
        with pytest.raises(ConflictError, match="is going to rewrite"):
            commit(tx, stats)
        tx.abort()
    with begin(storage, config) as tx:
        commit(tx, write_update(tx, ["b"]))
    assert [i.time for i in load_timeline(storage, config).pending] == ["20200101000000000"]
