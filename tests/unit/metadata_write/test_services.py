"""The metadata table's own services: when they are due, what they do, and what they leave alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from hudi_py.config import Options, compaction
from hudi_py.config import services as services_config
from hudi_py.errors import ConflictError, CorruptFileError
from hudi_py.metadata_write.maintenance import services
from hudi_py.metadata_write.maintenance.services import own_options
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.model.instant import Action, Instant, State
from hudi_py.services.archive import archive as archive_table
from hudi_py.services.compaction import CompactionReport
from hudi_py.services.context import ServiceContext
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.support.kept_up import check_listing, clock_of, maintain, options, own, own_instants, rows, write

EAGER = {"hoodie.metadata.compact.max.delta.commits": "3"}
TIDY = {
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.metadata.derive.from.datatable.clean.policy": "false",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clean.commits.retained": "2",
}


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"memory://{uuid.uuid4()}")


def options_of(given: dict[str, str]) -> Options:
    return options(9, "mor", given)


def compactions(storage: MemoryStorage) -> list[str]:
    return [i.time for i in own_instants(storage) if i.action is Action.COMMIT and i.completed]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (8, "cow"), (9, "mor")])
@pytest.mark.sampled(2)
def test_a_table_that_is_written_to_keeps_its_metadata_table_small(
    version: int, kind: str, storage: MemoryStorage
) -> None:
    seen: set[Instant] = set()
    for turn in range(15):
        write(storage, rows(range(turn % 3, turn % 3 + 6), turn), version=version, kind=kind, given=TIDY)
        check_listing(storage)
        # the metadata table keeps what is active in its table
        archive_table(ServiceContext.of(WriteTarget(storage, options(version, kind, TIDY), NoMetadata())))
        seen.update(own_instants(storage))
    instants = own_instants(storage)
    assert all(instant.completed for instant in instants)
    assert {instant.action for instant in seen} == {Action.COMMIT, Action.CLEAN, Action.DELTA_COMMIT}
    assert len(seen) > len(instants)
    assert len([i for i in instants if i.action is Action.DELTA_COMMIT]) <= 12
    files = [info.name for info in own(storage).list("files")]
    assert sum(name.endswith(".hfile") for name in files) <= 3
    assert not [info.path for folder in (".hoodie/.temp", ".hoodie/.hudi_py") for info in own(storage).walk(folder)]
    if version == 6:
        for instant in seen:
            suffix = {Action.COMMIT: "001", Action.CLEAN: "002"}.get(instant.action)
            assert instant.time.endswith(suffix) and len(instant.time) == 20 if suffix else len(instant.time) == 17


def test_a_compaction_is_due_after_so_many_delta_commits(storage: MemoryStorage) -> None:
    counts = []
    for turn in range(7):
        write(storage, rows(range(4), turn), given=EAGER)
        counts.append(len(compactions(storage)))
    # the delta commits that make the partitions count, as they do in Apache Hudi
    assert counts[0] <= 1
    assert counts[-1] - counts[0] == 2
    reports = maintain(storage, options_of({"hoodie.metadata.compact.max.delta.commits": "1"}), clock_of(storage))
    assert [report.service for report in reports] in ([], ["compaction"])


def test_without_a_metadata_table_there_is_nothing_to_do(storage: MemoryStorage) -> None:
    write(storage, rows(range(3)), given={"hoodie.metadata.enable": "false"})
    assert maintain(storage, options_of(EAGER), clock_of(storage)) == []


def test_what_an_instant_that_is_pending_wrote_stays_out_of_a_compaction(storage: MemoryStorage) -> None:
    for turn in range(4):
        write(storage, rows(range(4), turn), given=EAGER, maintained=False)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    last = timeline.write_completed[-1]
    # as if the process had died before the completed file
    storage.delete(timeline.layout.path(last.file_name))
    (report,) = maintain(storage, options_of(EAGER), clock_of(storage))
    assert isinstance(report, CompactionReport)
    assert report.instant is not None
    assert report.instant < last.time
    assert int(last.time) - int(report.instant) in (1, 41)  # a millisecond, also across a second
    merged = own(storage).list("files")
    logs = {info.name for info in merged if last.time in info.name}
    assert logs
    plan = own(storage).read(f".hoodie/timeline/{report.instant}.compaction.requested")
    assert not any(name.encode() in plan for name in logs)
    # a second time there is one of this instant
    assert (
        maintain(storage, options_of({**EAGER, "hoodie.metadata.compact.max.delta.commits": "1"}), clock_of(storage))
        == []
    )


def test_version_6_waits_for_what_is_pending(storage: MemoryStorage) -> None:
    for turn in range(4):
        write(storage, rows(range(4), turn), version=6, given=EAGER, maintained=False)
    timeline = load_timeline(storage, load_table_config(storage))
    InstantFiles(storage, timeline.layout, timeline.write_completed[-1].time, Action.COMPACTION).request(b"plan")
    assert maintain(storage, options_of(EAGER), clock_of(storage)) == []
    with pytest.raises(ConflictError, match="6 delta commits|5 delta commits|4 delta commits"):
        maintain(
            storage,
            options_of({**EAGER, "hoodie.metadata.max.deltacommits.when_pending": "2"}),
            clock_of(storage),
        )


def test_a_plan_that_was_not_carried_out_comes_first(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    for turn in range(4):
        write(storage, rows(range(4), turn), given=EAGER, maintained=False)

    def broken(*_: object, **__: object) -> None:
        raise CorruptFileError("no")

    with monkeypatch.context() as patch:
        patch.setattr(services, "compact_base_file", broken)
        with pytest.raises(CorruptFileError, match="no"):
            maintain(storage, options_of(EAGER), clock_of(storage))
    (pending,) = [i for i in own_instants(storage) if not i.completed]
    assert (pending.action, pending.state) == (Action.COMPACTION, State.REQUESTED)
    write(storage, rows(range(8), 9), given=EAGER)
    assert compactions(storage)[0] == pending.time
    check_listing(storage)


def test_a_failing_service_does_not_fail_the_write(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(services, "compact_base_file", broken)
    for turn in range(4):
        write(storage, rows(range(4), turn), given=EAGER)
    assert "out of order" in caplog.text
    check_listing(storage)
    monkeypatch.undo()
    write(storage, rows(range(4), 9), given=EAGER)
    assert all(instant.completed for instant in own_instants(storage))
    check_listing(storage)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("KEEP_LATEST_COMMITS", 20, None)),
        ({"hoodie.clean.commits.retained": "40"}, ("KEEP_LATEST_COMMITS", 48, None)),
        ({"hoodie.clean.fileversions.retained": "4"}, ("KEEP_LATEST_FILE_VERSIONS", None, 5)),
        ({"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "10"},
         ("KEEP_LATEST_BY_HOURS", 12, None)),
        ({"hoodie.metadata.derive.from.datatable.clean.policy": "false"}, ("KEEP_LATEST_FILE_VERSIONS", None, 2)),
    ],
)  # fmt: skip
def test_how_much_is_kept_follows_from_the_table(given: dict[str, str], expected: tuple[str, object, object]) -> None:
    policy, number, versions = expected
    found = own_options(options_of(given))
    assert found.get(services_config.CLEAN_POLICY) == policy
    of_policy: Callable[[], object] = lambda: found.get(  # noqa: E731
        services_config.CLEAN_HOURS_RETAINED
        if policy == "KEEP_LATEST_BY_HOURS"
        else services_config.CLEAN_COMMITS_RETAINED
    )
    if number is not None:
        assert of_policy() == number
    if versions is not None:
        assert found.get(services_config.CLEAN_FILE_VERSIONS_RETAINED) == versions


def test_other_options_follow_from_the_table_too() -> None:
    found = own_options(
        options(
            9,
            "mor",
            {
                "hoodie.keep.min.commits": "7",
                "hoodie.keep.max.commits": "9",
                "hoodie.compact.inline.max.delta.commits": "99",
                "hoodie.compaction.strategy": "DayBasedCompactionStrategy",
                "hoodie.archive.beyond.savepoint": "true",
                "hoodie.clean.partition.filter.regex": "x",
                "hoodie.clean.incremental.enabled": "false",
                "hoodie.metadata.compact.max.delta.commits": "4",
                "hoodie.metadata.compact.trigger.strategy": "NUM_OR_TIME",
            },
        )
    )
    assert (found.get(services_config.ARCHIVE_MIN_COMMITS), found.get(services_config.ARCHIVE_MAX_COMMITS)) == (8, 10)
    assert found.get(compaction.MAX_DELTA_COMMITS) == 4
    assert found.get(compaction.TRIGGER_STRATEGY) == "NUM_OR_TIME"
    assert found.get(compaction.STRATEGY) == ("UnBoundedCompactionStrategy",)
    assert not found.get(services_config.ARCHIVE_BEYOND_SAVEPOINT)
    assert found.get(services_config.CLEAN_PARTITION_REGEX) is None
    assert found.get(services_config.CLEAN_INCREMENTAL)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(8, "mor"), (9, "cow")])
def test_logs_are_compacted_among_themselves_where_the_options_ask_for_it(
    version: int, kind: str, storage: MemoryStorage
) -> None:
    given = {
        "hoodie.metadata.log.compaction.enable": "true",
        "hoodie.metadata.log.compaction.blocks.threshold": "3",
        "hoodie.metadata.compact.max.delta.commits": "9",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        "hoodie.metadata.record.index.max.filegroup.count": "1",
    }
    seen: set[str] = set()
    for turn in range(10):
        operation = "delete" if turn % 4 == 3 else "upsert"
        write(storage, rows(range(turn, turn + 4), turn), operation, version=version, kind=kind, given=given)
        check_listing(storage)
        seen |= {info.name for info in own(storage).list(".hoodie/timeline")}
    assert any(name.endswith(".logcompaction.requested") for name in seen)
    assert any(name.endswith(".compaction.requested") for name in seen)
    assert all(instant.completed for instant in own_instants(storage))
    chosen = options(version, kind, given)
    context = ServiceContext.of(WriteTarget(storage, chosen, NoMetadata(), clock=clock_of(storage)))
    report = verify(context)
    assert report.ok, report


def test_a_log_compaction_that_was_not_carried_out_comes_first(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "hoodie.metadata.log.compaction.enable": "true",
        "hoodie.metadata.log.compaction.blocks.threshold": "2",
        "hoodie.metadata.compact.max.delta.commits": "90",
    }
    for turn in range(3):
        write(storage, rows(range(4), turn), given=given, maintained=False)

    def broken(*_: object, **__: object) -> None:
        raise CorruptFileError("no")

    with monkeypatch.context() as patch:
        patch.setattr(services, "compact_logs", broken)
        with pytest.raises(CorruptFileError, match="no"):
            maintain(storage, options_of(given), clock_of(storage))
    check_listing(storage)
    (pending,) = [i for i in own_instants(storage) if not i.completed]
    assert pending.action is Action.LOG_COMPACTION
    reports = maintain(storage, options_of(EAGER), clock_of(storage))
    assert reports[0].instant == pending.time
    assert all(instant.completed for instant in own_instants(storage))
    check_listing(storage)
