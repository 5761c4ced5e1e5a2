"""The budget of a run, and the cost of services: estimated before they run, measured afterwards."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hudi_py.errors import ConfigError
from hudi_py.model.words import counted, show_bytes, show_duration
from hudi_py.storage.metered import Meter, Used

_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([kmgt]?)i?b?")
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SEARCH_SHARE: Final = 0.5
"""Share of a budget after which no further table is examined, so that the rest goes to the services that are due."""
_FIRST_RATE: Final = 20e6
"""Bytes read and written per second, until the run has measured its own rate."""
_MEASURED_BYTES: Final = 16_000_000
"""Minimum number of bytes that a service must have moved for its rate to count."""
_FIRST_REQUEST_S: Final = 0.005
_BYTES_OF_A_REQUEST: Final = 8_000_000
"""Number of bytes whose transfer costs about as much as a request."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use; None means no limit.

    A service is started only if its estimated cost fits into what is left of the budget. A compaction is made smaller
    to fit, if its strategy allows for it. A service that was started always finishes.
    """

    seconds: float | None = None
    num_bytes: int | None = None
    """Bytes read and written."""
    requests: int | None = None
    """Requests to storage."""

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self != Budget()

    @classmethod
    def parse(cls, seconds: str | None = None, num_bytes: str | None = None, requests: int | None = None) -> Budget:
        """Returns the budget that texts such as `90s`, `1h30m` and `20GB` describe.

        Raises:
            ConfigError: a text is not a duration, or not a number of bytes.
        """
        return cls(
            None if seconds is None else duration_of(seconds),
            None if num_bytes is None else size_of(num_bytes),
            requests,
        )


UNLIMITED: Final = Budget()


def duration_of(text: str) -> float:
    """Returns the seconds of a text such as `45`, `90s`, `30m` or `1h30m`. Raises ConfigError."""
    match = _DURATION.fullmatch("".join(text.split()).lower())
    if match is None or not any(match.groups()):
        raise ConfigError(f"Cannot read {text!r} as a duration: expected one such as 90s, 30m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def size_of(text: str) -> int:
    """Returns the bytes of a text such as `500MB` or `1.5 TB`, in decimal units. Raises ConfigError."""
    match = _SIZE.fullmatch("".join(text.split()).lower())
    if match is None:
        raise ConfigError(f"Cannot read {text!r} as a number of bytes: expected one such as 500MB or 1.5TB")
    return int(float(match[1]) * 1000 ** _POWERS[match[2]])


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of a service."""

    requests: int
    num_bytes: int = 0

    @property
    def weight(self) -> float:
        """Requests and bytes as one number, expressed in requests."""
        return max(self.requests + self.num_bytes / _BYTES_OF_A_REQUEST, 1.0)


class Ledger:
    """Tracks what a run has used of its budget. Thread-safe.

    A service that is still running counts with its estimate, so that several services side by side fit into the budget
    together.
    """

    def __init__(self, budget: Budget, meter: Meter, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._meter = meter
        self._clock = clock
        self._started = clock()
        self._guard = threading.Lock()
        self._running: list[Cost] = []
        self._assumed_s = 0.0
        self._rate, self._request_s = _FIRST_RATE, _FIRST_REQUEST_S

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._started

    @property
    def used(self) -> Used:
        return self._meter.used

    def now(self) -> float:
        """Returns the time of the clock, in seconds."""
        return self._clock()

    def searched_enough(self) -> str:
        """Returns why no further table is examined; empty if one may be."""
        return self._why_not(Cost(1), _SEARCH_SHARE)

    def record_survey(self, seconds: float, used: Used) -> None:
        """Records how long it took to examine tables, which shows how long a request takes here."""
        if used.requests >= 10:
            with self._guard:
                self._request_s = seconds / used.requests

    def begin(self, cost: Cost) -> tuple[str, int | None]:
        """Reserves the cost of a service, until `end`.

        Returns:
            The reason why the service does not fit, empty if it does; and the number of bytes that are left for it,
            None if there is no limit. A service that needs more bytes than that fits only if it can be made smaller.
        """
        with self._guard:
            reason = self._why_not(cost, 1.0)
            left = self._bytes_left()
            if not reason:
                self._running.append(cost)
            return reason, left

    def assume(self, cost: Cost) -> tuple[str, int | None]:
        """Does the same as `begin` on a dry run, where reserved cost counts as used."""
        reason, left = self.begin(cost)
        if not reason:
            self._assumed_s += self._duration(cost)
        return reason, left

    def end(self, cost: Cost, seconds: float, used: Used) -> None:
        """Records what a service for which `cost` was reserved has actually used."""
        with self._guard:
            self._running.remove(cost)
            if used.num_bytes >= _MEASURED_BYTES and seconds > 0:
                self._rate = used.num_bytes / seconds

    def _reserved(self) -> Cost:
        """Returns the cost of all running services, as if they had used nothing yet."""
        return Cost(sum(cost.requests for cost in self._running), sum(cost.num_bytes for cost in self._running))

    def _duration(self, cost: Cost) -> float:
        return cost.requests * self._request_s + cost.num_bytes / self._rate

    def _bytes_left(self) -> int | None:
        budget, limits = self._budget, []
        if budget.num_bytes is not None:
            limits.append(budget.num_bytes - self._meter.used.num_bytes - self._reserved().num_bytes)
        if budget.seconds is not None:
            limits.append(int((budget.seconds - self.seconds - self._assumed_s) * self._rate))
        return max(min(limits), 0) if limits else None

    def _why_not(self, cost: Cost, share: float) -> str:
        budget, used, reserved = self._budget, self._meter.used, self._reserved()
        if budget.seconds is not None:
            left, needed = budget.seconds * share - self.seconds - self._assumed_s, self._duration(cost)
            if left < needed:
                return (
                    f"it takes about {_show_seconds(needed)}, and {_show_seconds(max(left, 0.0))} of the time are left"
                )
        if budget.requests is not None:
            left_requests = int(budget.requests * share) - used.requests - reserved.requests
            if left_requests < cost.requests:
                return f"it takes about {counted(cost.requests, 'request')}, and {max(left_requests, 0):,} are left"
        if budget.num_bytes is not None:
            left_bytes = int(budget.num_bytes * share) - used.num_bytes - reserved.num_bytes
            if left_bytes < cost.num_bytes or left_bytes <= 0:
                needed_bytes, rest = show_bytes(cost.num_bytes), show_bytes(max(left_bytes, 0))
                return f"it reads and writes about {needed_bytes}, and {rest} are left"
        return ""


def _show_seconds(seconds: float) -> str:
    return show_duration(round(seconds * 1000))
