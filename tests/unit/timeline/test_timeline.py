from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence, Set
from datetime import timezone
from typing import TypeAlias

import pytest

from hudi_py.errors import ConfigError
from hudi_py.model.instant import Action, State
from hudi_py.model.properties import TableConfig
from hudi_py.storage import MemoryStorage
from hudi_py.storage.base import FileInfo
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.timeline import Pin, Timeline, load_timeline, timeline_of

_NAMES = itertools.count()
V6 = TableConfig({"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"})
V9 = TableConfig({"hoodie.table.version": "9", "hoodie.timeline.layout.version": "2"})


def of(config: TableConfig, *names: str) -> Timeline:
    layout = layout_for(config)
    return timeline_of(layout, [instant for name in names if (instant := layout.parse(name))])


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("version", [1, 2])
def test_names_parse_back(action: Action, version: int) -> None:
    layout = Layout(version, ".hoodie")
    completed = layout.parse(layout.completed_name("10", action, "20"))
    assert completed is not None
    assert (completed.time, completed.state) == ("10", State.COMPLETED)
    assert completed.action is action.comparable
    assert completed.completion_time == ("20" if version == 2 else None)
    inflight = layout.parse(layout.inflight_name("10", action))
    assert inflight is not None
    assert (inflight.time, inflight.state, inflight.action.comparable) == ("10", State.INFLIGHT, action.comparable)
    if action is Action.SAVEPOINT:
        with pytest.raises(ConfigError, match="savepoints begin as inflight"):
            layout.requested_name("10", action)
        return
    requested = layout.parse(layout.requested_name("10", action))
    assert requested is not None
    assert (requested.state, requested.action.comparable) == (State.REQUESTED, action.comparable)


def test_names() -> None:
    old, new = Layout(1, ".hoodie"), Layout(2, ".hoodie/timeline")
    assert old.inflight_name("1", Action.COMMIT) == new.inflight_name("1", Action.COMMIT) == "1.inflight"
    assert old.requested_name("1", Action.CLUSTERING) == "1.replacecommit.requested"
    assert new.requested_name("1", Action.CLUSTERING) == "1.clustering.requested"
    assert old.completed_name("1", Action.COMPACTION) == "1.commit"
    assert new.completed_name("1", Action.LOG_COMPACTION, "2") == "1_2.deltacommit"
    assert new.path("1.commit") == ".hoodie/timeline/1.commit"
    with pytest.raises(ConfigError, match="without its completion time"):
        new.completed_name("1", Action.COMMIT)


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "hoodie.properties.backup",
        "lock",
        "1",
        "1.commit.done",
        "1.commit.requested.tmp",
        ".1.commit.crc",
        "a1.commit",
        "1.compaction",
        "1.clustering",
        "1.nothing",
        "1.nothing.requested",
        "1_2.commit.inflight",
        "1_2.inflight",
        ".hudi_py-1.tmp",
        "1.requested",
        "_version_",
        "manifest_1",
    ],
)
def test_other_files_are_no_instants(name: str) -> None:
    assert Layout(2, "").parse(name) is None
    assert Layout(1, "").parse(name) is None


def test_completion_in_the_name_is_layout_2() -> None:
    assert Layout(1, "").parse("1_2.commit") is None
    legacy = Layout(2, "").parse("1.commit")
    assert legacy is not None
    assert legacy.legacy
    assert not Layout(1, "").parse("1.commit").legacy  # type: ignore[union-attr]


def test_highest_state_per_instant_and_action() -> None:
    timeline = of(
        V9,
        "20.deltacommit.requested", "20.deltacommit.inflight", "20_25.deltacommit",
        "20.savepoint.inflight",
        "30.compaction.requested", "30.compaction.inflight", "30_35.commit",
        "40.commit.requested", "40.inflight",
        "50.clustering.requested",
        "60.rollback.requested", "60_61.rollback",
    )  # fmt: skip
    assert [(i.time, i.action.value, i.state.name) for i in timeline.instants] == [
        ("20", "deltacommit", "COMPLETED"),
        ("20", "savepoint", "INFLIGHT"),
        ("30", "commit", "COMPLETED"),
        ("40", "commit", "INFLIGHT"),
        ("50", "clustering", "REQUESTED"),
        ("60", "rollback", "COMPLETED"),
    ]
    assert [i.time for i in timeline.write_completed] == ["20", "30"]
    assert [i.time for i in timeline.pending] == ["20", "40", "50"]
    assert timeline.last_completed is not None
    assert timeline.last_completed.time == "30"
    assert timeline.find("20").action is Action.DELTA_COMMIT  # type: ignore[union-attr]
    assert timeline.find("20", Action.SAVEPOINT).state is State.INFLIGHT  # type: ignore[union-attr]
    assert timeline.find("30", Action.COMPACTION).completed  # type: ignore[union-attr]
    assert timeline.find("99") is None
    assert [i.file_name for i in timeline.states_of(timeline.instants[2])] == [
        "30.compaction.requested",
        "30.compaction.inflight",
        "30_35.commit",
    ]
    assert timeline.latest_times() == ("60", "61")
    assert pickle.loads(pickle.dumps(timeline)) == timeline


def test_committed() -> None:
    timeline = of(V9, "20_25.deltacommit", "30.deltacommit.inflight", "40_45.rollback", "50_55.replacecommit")
    assert timeline.start == "20"
    assert timeline.is_committed("20")
    assert timeline.is_committed("50")
    assert timeline.is_committed("10")  # archived
    assert not timeline.is_committed("30")  # pending
    assert not timeline.is_committed("40")  # no write
    assert not timeline.is_committed("35")  # never was
    assert timeline.completion_time("20") == "25"
    assert timeline.completion_time("10") == "10"
    assert timeline.completion_time("30") is None


def test_a_pending_write_holds_the_start_back() -> None:
    timeline = of(V9, "10.deltacommit.requested", "20_25.deltacommit")
    assert timeline.start == "10"
    assert not timeline.is_committed("10")


def test_a_savepointed_commit_is_not_the_start() -> None:
    """Archiving goes past savepoints, so between the savepointed commit and the next one there may be a gap."""
    timeline = of(V9, "10_11.commit", "10_12.savepoint", "30_31.commit")
    assert timeline.start == "30"
    assert timeline.is_committed("20")
    assert timeline.is_committed("10")


def test_no_writes_no_start() -> None:
    for timeline in (of(V9), of(V9, "10_11.clean")):
        assert timeline.start is None
        assert not timeline.is_committed("05")
        assert timeline.last_completed is None


@pytest.mark.parametrize("config", [V6, V9], ids=["6", "9"])
def test_load(config: TableConfig) -> None:
    storage = MemoryStorage(f"timeline-{next(_NAMES)}")
    layout = layout_for(config)
    for name in ("20260101000000000.deltacommit", "20260101000000000.deltacommit.inflight", "hoodie.properties"):
        storage.put(layout.path(name), b"")
    storage.put(".hoodie/.temp/20260101000000000/x.marker.CREATE", b"")
    storage.set_modified(layout.path("20260101000000000.deltacommit"), 1_767_225_605_678)
    timeline = load_timeline(storage, config, timezone.utc)
    assert [(i.time, i.completion_time) for i in timeline.instants] == [("20260101000000000", "20260101000005678")]
    assert timeline.instants[0].legacy == (config is V9)
    assert load_timeline(MemoryStorage("timeline-empty"), config).instants == ()


def test_timelines_of_the_same_files_share_no_plans() -> None:
    """A plan may be rewritten while it is pending."""
    storage = MemoryStorage(f"timeline-{next(_NAMES)}")
    for name in ("1.commit.requested", "1.inflight", "1_2.commit", "3.clustering.requested"):
        storage.put(f".hoodie/timeline/{name}", b"")
    one, other = load_timeline(storage, V9), load_timeline(storage, V9)
    assert one == other == of(V9, "1.commit.requested", "1.inflight", "1_2.commit", "3.clustering.requested")
    one.plans["3", Action.CLUSTERING] = (b"plan", "source")
    assert other.plans == load_timeline(storage, V9).plans == {}


def test_a_completion_time_that_is_in_no_name_is_that_of_the_file() -> None:
    storage = MemoryStorage(f"timeline-{next(_NAMES)}")
    for name in ("1_2.commit", "3.commit"):
        storage.put(f".hoodie/timeline/{name}", b"")
    known, legacy = load_timeline(storage, V9).completed
    assert (known.completion_time, known.legacy) == ("2", False)
    assert legacy.legacy
    assert len(legacy.completion_time or "") == 17


def test_pin_of_layout_2_is_a_completion_time() -> None:
    before = of(V9, "10_40.deltacommit", "20_30.deltacommit", "25.deltacommit.inflight")
    pin = before.pin()
    assert pin == Pin("40")
    later = of(
        V9,
        "10_40.deltacommit",
        "20_30.deltacommit",
        "25.deltacommit.inflight",
        "25_41.deltacommit",
        "50_60.deltacommit",
    )
    seen = later.at(pin)
    assert [i.time for i in seen.write_completed] == ["10", "20"]
    assert not seen.is_committed("25")
    assert [i.time for i in seen.pending] == ["25"]
    assert later.at(later.pin()) is later


def test_pin_of_layout_1_is_an_instant_and_what_was_pending_below() -> None:
    before = of(
        V6, "10.deltacommit", "20.compaction.requested", "20.compaction.inflight", "30.deltacommit", "40.inflight"
    )
    pin = before.pin()
    assert pin == Pin("30", (("20", "commit"),))
    later = of(
        V6,
        "10.deltacommit",
        "20.compaction.requested",
        "20.compaction.inflight",
        "20.commit",
        "30.deltacommit",
        "40.inflight",
        "40.commit",
        "50.deltacommit",
    )
    seen = later.at(pin)
    assert [(i.time, i.action) for i in seen.instants] == [
        ("10", Action.DELTA_COMMIT),
        ("20", Action.COMPACTION),
        ("30", Action.DELTA_COMMIT),
        ("40", Action.COMMIT),
    ]
    assert [i.time for i in seen.write_completed] == ["10", "30"]
    assert pickle.loads(pickle.dumps(pin)) == pin


@pytest.mark.parametrize("config", [V6, V9], ids=["6", "9"])
def test_pin_of_nothing_shows_nothing(config: TableConfig) -> None:
    pin = of(config).pin()
    names = ("10.deltacommit", "20.deltacommit") if config is V6 else ("10_11.deltacommit", "20_21.deltacommit")
    seen = of(config, *names).at(pin)
    assert seen.write_completed == ()
    assert not seen.is_committed("10")
    assert not seen.is_committed("20")


Infos: TypeAlias = list[FileInfo]
Names: TypeAlias = list[str]


class Torn(MemoryStorage):
    """Each listing finds what is there at its end, but for the files named for it, which come while it runs."""

    def __init__(self, config: TableConfig, names: Sequence[str], missed: Sequence[Set[str]]) -> None:
        super().__init__(f"torn{next(_NAMES)}")
        for name in names:
            self.put(layout_for(config).path(name), b"")
        self._missed = list(missed)
        self.listings = 0

    def list(self, path: str = "") -> Infos:
        self.listings += 1
        missed = self._missed.pop(0) if self._missed else set()
        return [info for info in super().list(path) if info.name not in missed]

    def names(self, path: str = "") -> Names:
        return [info.name for info in self.list(path)]


@pytest.mark.parametrize(
    ("missed", "completed", "listings"),
    [
        ([{"1_5.commit"}], ["1", "2"], 2),  # of two that completed one after the other it found the second
        ([{"1_5.commit", "2_6.commit"}, {"1_5.commit"}], [], 2),  # the second listing, too
        ([{"2_6.commit"}], ["1"], 2),
        ([], ["1", "2"], 2),
    ],
)
def test_listing_while_others_complete(missed: list[set[str]], completed: list[str], listings: int) -> None:
    names = ["1.commit.requested", "1.inflight", "1_5.commit", "2.commit.requested", "2.inflight", "2_6.commit"]
    storage = Torn(V9, [*names, "3.commit.requested"], missed)
    found = load_timeline(storage, V9)
    assert [instant.time for instant in found.completed] == completed
    assert found.find("1") is not None
    assert storage.listings == listings


@pytest.mark.parametrize(
    ("missed", "listings"), [([{"1.commit"}], 3), ([{"1.commit", "2.commit"}, {"1.commit"}], 4), ([], 2)]
)
def test_listing_while_others_complete_without_completion_times(missed: list[set[str]], listings: int) -> None:
    names = ["1.commit.requested", "1.inflight", "1.commit", "2.commit.requested", "2.inflight", "2.commit"]
    storage = Torn(V6, [*names, "3.commit.requested"], missed)
    assert [instant.time for instant in load_timeline(storage, V6).completed] == ["1", "2"]
    assert storage.listings == listings


def test_one_listing_is_enough_where_nothing_completes() -> None:
    settled, pending = ["1.commit.requested", "1.inflight", "1_5.commit"], ["2.commit.requested"]
    for names, locked in ((settled, False), ([*settled, *pending], True)):
        storage = Torn(V9, names, [])
        assert len(load_timeline(storage, V9, locked=locked).completed) == 1
        assert storage.listings == 1


def test_a_slow_listing_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_py.timeline.timeline._QUICK_S", -1.0)
    names = ["1.commit.requested", "1.inflight", "1_5.commit", "2.commit.requested", "2.inflight", "2_6.commit"]
    storage = Torn(V9, names, [set(names[:3])])  # nothing of the first
    assert [instant.time for instant in load_timeline(storage, V9).completed] == ["1", "2"]


def test_of_two_completed_files_the_earlier_counts() -> None:
    """The TTL service of Apache Hudi 1.2.0 completes its replacecommit twice."""
    files = ["10.replacecommit.requested", "10.replacecommit.inflight", "10_20.replacecommit", "10_30.replacecommit"]
    timeline = of(V9, *files, "12_25.commit")
    assert [(i.time, i.completion_time) for i in timeline.write_completed] == [("10", "20"), ("12", "25")]
    assert timeline.completion_time("10") == "20"
    assert timeline.latest_times() == ("12", "30"), "the next instant completes after both"
    assert [i.time for i in timeline.at(Pin("20")).write_completed] == ["10"]
