from __future__ import annotations

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import pytest

from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.timeline import Timeline, timeline_of

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")


class Wall:
    """A clock set by hand; sleeping moves it."""

    def __init__(self, moment: datetime) -> None:
        self.ms = round(moment.timestamp() * 1000)
        self.slept: list[float] = []

    def __call__(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ms += round(seconds * 1000)


def clock(wall: Wall, zone: str = "LOCAL", local: ZoneInfo = BERLIN, skew_ms: int = 200) -> InstantClock:
    config = TableConfig({"hoodie.table.timeline.timezone": zone})
    return InstantClock(config, local=local, skew_ms=skew_ms, wall_ms=wall, sleep=wall.sleep)


def timeline(*names: str, version: int = 2) -> Timeline:
    layout = Layout(version, ".hoodie/timeline")
    return timeline_of(layout, [instant for name in names if (instant := layout.parse(name))])


def test_now_in_the_zone_of_the_table() -> None:
    wall = Wall(datetime(2026, 7, 1, 10, 0, 0, 123_000, tzinfo=timezone.utc))
    assert clock(wall).next_instant(timeline()) == "20260701120000123"
    wall = Wall(datetime(2026, 7, 1, 10, 0, 0, 123_000, tzinfo=timezone.utc))
    assert clock(wall, zone="UTC").next_instant(timeline()) == "20260701100000123"
    assert wall.slept == [0.2]


def test_greater_than_every_time_on_the_timeline() -> None:
    wall = Wall(datetime(2026, 7, 1, 10, tzinfo=timezone.utc))
    chosen = clock(wall, zone="UTC").next_instant(timeline("20260701095959000_20260701100000050.commit"))
    assert chosen == "20260701100000051"
    wall = Wall(datetime(2026, 7, 1, 10, tzinfo=timezone.utc))
    assert clock(wall, zone="UTC").next_instant(timeline("20260701100000000.inflight")) == "20260701100000001"


def test_old_times_of_14_digits() -> None:
    wall = Wall(datetime(2026, 7, 1, 10, 0, 0, 500_000, tzinfo=timezone.utc))
    assert clock(wall, zone="UTC").next_instant(timeline("20260701095959.commit", version=1)) == "20260701100000500"


def test_never_the_same_time_twice() -> None:
    wall = Wall(datetime(2026, 7, 1, 10, tzinfo=timezone.utc))
    same = clock(wall, zone="UTC", skew_ms=0)
    assert [same.next_instant(timeline()) for _ in range(3)] == [f"2026070110000000{n}" for n in range(3)]


def test_completion_is_later_than_its_own_instant() -> None:
    wall = Wall(datetime(2026, 7, 1, 10, tzinfo=timezone.utc))
    same = clock(wall, zone="UTC")
    instant = same.next_instant(timeline())
    assert same.next_completion(timeline(f"{instant}.inflight")) == "20260701100000200"
    frozen = clock(Wall(datetime(2026, 7, 1, 10, tzinfo=timezone.utc)), zone="UTC")
    assert frozen.next_completion(timeline(), after=instant) == "20260701100000001"


@pytest.mark.parametrize(("passed_ms", "waits_s"), [(0, 1.05), (250, 0.8), (1_049, 0.001), (1_050, 0), (90_000, 0)])
def test_files_written_after_the_second_of_an_instant(passed_ms: int, waits_s: float) -> None:
    wall = Wall(datetime(2026, 7, 1, 10, 0, 0, 150_000, tzinfo=timezone.utc))
    same = clock(wall, skew_ms=200)
    wall.ms += passed_ms
    same.wait_second(InstantTime("20260701120000150"))
    assert sum(wall.slept) == pytest.approx(waits_s)


@pytest.mark.parametrize("name", ["20260701100500000.inflight", "20260701090000000_20260701100500000.commit"])
def test_a_timeline_ahead_of_the_clock_is_refused(name: str) -> None:
    wall = Wall(datetime(2026, 7, 1, 10, tzinfo=timezone.utc))
    with pytest.raises(ConfigError) as caught:
        clock(wall, zone="UTC").next_instant(timeline(name))
    assert "20260701100500000" in str(caught.value)
    assert "20260701100000000" in str(caught.value)
    assert "300.0 s ahead" in str(caught.value)


def test_writers_in_two_zones() -> None:
    """The later writer's wall clock is behind: its rows would vanish, so it is refused."""
    moment = datetime(2026, 7, 1, 10, tzinfo=timezone.utc)
    written = clock(Wall(moment), local=BERLIN).next_instant(timeline())
    with pytest.raises(ConfigError, match="ahead"):
        clock(Wall(moment), local=NEW_YORK).next_instant(timeline(f"{written}.inflight"))
    assert clock(Wall(moment), local=BERLIN).next_instant(timeline(f"{written}.inflight")) > written


def test_a_repeated_hour_counts_on() -> None:
    """In Berlin 02:00 to 03:00 came twice on 25 October 2026, the second time from 01:00 UTC."""
    wall = Wall(datetime(2026, 10, 25, 0, 59, 59, 900_000, tzinfo=timezone.utc))
    same = clock(wall, skew_ms=200)
    first = same.next_instant(timeline())
    assert first == "20261025025959900"
    seen = first
    for _ in range(300):
        chosen = same.next_instant(timeline(f"{seen}.inflight"))
        assert chosen > seen
        seen = chosen
    assert seen == "20261025030000200"
    # A fresh process in the same hour goes on, past the end of the hour too
    assert (
        clock(Wall(datetime(2026, 10, 25, 1, 30, tzinfo=timezone.utc))).next_instant(timeline(f"{seen}.inflight"))
        == "20261025030000201"
    )
    # After it the clock's own time is greater again
    wall = Wall(datetime(2026, 10, 25, 2, 0, 5, tzinfo=timezone.utc))
    assert clock(wall).next_instant(timeline(f"{seen}.inflight")) == "20261025030005000"


def test_a_repeated_hour_excuses_no_wrong_clock() -> None:
    wall = Wall(datetime(2026, 10, 25, 1, 30, tzinfo=timezone.utc))
    with pytest.raises(ConfigError, match="ahead"):
        clock(wall).next_instant(timeline("20261025043000000.inflight"))
    wall = Wall(datetime(2026, 10, 25, 2, 10, tzinfo=timezone.utc))
    with pytest.raises(ConfigError, match="ahead"):
        clock(wall).next_instant(timeline("20261025033000000.inflight"))


def test_modification_times_of_layout_1_are_not_written_times() -> None:
    wall = Wall(datetime(2026, 7, 1, 10, tzinfo=timezone.utc))
    assert clock(wall, zone="UTC").next_instant(timeline("20260701095959000.commit", version=1)) == "20260701100000000"
