"""Chooses the times of new instants (`HoodieInstantTimeGenerator`, `SkewAdjustingTimeGenerator`, 1.2.0)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from hudi_py.errors import ConfigError
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import add_ms, epoch_ms, format_instant, table_zone

_MAX_FOLD_MS = 3 * 3_600_000
"""How far back to look for a clock change; time zones change by two hours at most."""
_AFTER_FOLD_MS = 60_000
"""How long after a repeated hour times may still be ahead because they were incremented during it."""


def wall_clock_ms() -> int:
    """Returns milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class InstantClock:
    """Generates times greater than every time on a table's timeline and every time it returned before.

    The zone of a LOCAL table is fixed when the clock is created; a write that runs in several processes passes its zone
    on as `local`. Two processes never get the same time if each calls `next_instant`, and puts the instant on the
    timeline, under the table lock.
    """

    def __init__(
        self,
        config: TableConfig,
        *,
        local: tzinfo | None = None,
        skew_ms: int = 200,
        waits: bool = True,
        wall_ms: Callable[[], int] = wall_clock_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`skew_ms` is `hoodie.time.generator.max_expected_clock_skew_ms`, `waits` whether `wait_skew` takes that long;
        `wall_ms` and `sleep` serve tests."""
        self.zone: tzinfo = table_zone(config, local)
        self.skew_ms = skew_ms
        self._waits = waits
        self._wall_ms = wall_ms
        self._sleep = sleep
        self._last = ""
        self._lock = threading.Lock()

    def next_instant(self, timeline: Timeline) -> InstantTime:
        """Returns a requested time of 17 digits: now, or 1 ms after the newest time on the timeline.

        Raises:
            ConfigError: the timeline is ahead of this machine's clock by more than the skew. While an hour is repeated
                at the end of daylight saving time, times are incremented by 1 ms instead.
        """
        instant = InstantTime(self._next(timeline, ""))
        self.wait_skew()
        return instant

    def wait_skew(self) -> None:
        """Waits until the clocks of all writers are past the last time that was returned."""
        if self._waits and self.skew_ms > 0:
            self._sleep(self.skew_ms / 1000)

    def wait_second(self, instant: InstantTime) -> None:
        """Waits until a file written now has a later modification time than `instant`, even in whole seconds and by
        another clock within the skew."""
        second_ms = min(self._readings(instant)) // 1000 * 1000
        left_ms = second_ms + 1000 + self.skew_ms - self._wall_ms()
        if left_ms > 0:
            self._sleep(left_ms / 1000)

    def next_completion(self, timeline: Timeline, after: InstantTime | None = None) -> CompletionTime:
        """Returns a completion time, greater than all times on the timeline and than `after`, the action's own
        requested time.

        Call it under the table lock with a timeline loaded under it. Raises ConfigError as `next_instant` does.
        """
        return CompletionTime(self._next(timeline, after or ""))

    def _next(self, timeline: Timeline, after: str) -> str:
        newest = max((text for text in (*timeline.latest_times(), after) if text), default="")
        with self._lock:
            now_ms = self._wall_ms()
            now = format_instant(now_ms, self.zone)
            if newest >= now:
                self._refuse_if_ahead(newest, now, now_ms)
            floor = max(newest, self._last)
            chosen = now if now > floor else add_ms(floor, 1)
            self._last = chosen
        return chosen

    def _refuse_if_ahead(self, newest: str, now: str, now_ms: int) -> None:
        readings = self._readings(newest)
        if any(self._at(now_ms - before_ms).fold for before_ms in (0, _AFTER_FOLD_MS)):
            # Times incremented during a repeated hour may exceed its end: interpret them in the offset from before it
            set_back = _offset(self._at(now_ms - _MAX_FOLD_MS)) - _offset(self._at(now_ms))
            readings.append(epoch_ms(newest, self.zone) - set_back // timedelta(milliseconds=1))
        ahead_ms = min(readings) - now_ms
        if ahead_ms > self.skew_ms:
            raise ConfigError(
                f"Cannot choose the time of an instant: the newest time on the timeline is {newest}, "
                f"{ahead_ms / 1000:.1f} s ahead of this machine's clock, {now} in the table's time zone ({self.zone}); "
                f"up to {self.skew_ms} ms is accepted (hoodie.time.generator.max_expected_clock_skew_ms); correct the "
                "clock or the time zone (hoodie.table.timeline.timezone), or wait"
            )

    def _readings(self, text: str) -> list[int]:
        """Returns the points in time that a time may mean: two within a repeated hour."""
        return [epoch_ms(text, self.zone, fold) for fold in (0, 1)]

    def _at(self, moment_ms: int) -> datetime:
        return datetime.fromtimestamp(moment_ms // 1000, self.zone)


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta(0)
