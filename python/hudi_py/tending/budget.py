"""What a run may take, and what services cost: estimated before, measured afterwards."""

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
"""The part of a budget after which no further table is looked at, so that what is due gets the rest."""
_FIRST_RATE: Final = 20e6
"""Bytes read and written in a second, until the run has measured its own rate."""
_MEASURED_BYTES: Final = 16_000_000
"""Bytes that a service must have moved for its rate to count."""
_FIRST_REQUEST_S: Final = 0.005
_BYTES_OF_A_REQUEST: Final = 8_000_000
"""Bytes whose transfer costs about as much as a request."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may take; None: as much as it needs.

    No service is begun that does not fit into what is left, by its estimated cost; a compaction is made smaller, if its
    strategy allows for it. What was begun is finished.
    """

    seconds: float | None = None
    num_bytes: int | None = None
    """Bytes read and written."""
    requests: int | None = None
    """Calls of storages."""

    @property
    def limited(self) -> bool:
        """Whether it limits anything."""
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
    found = _DURATION.fullmatch("".join(text.split()).lower())
    if found is None or not any(found.groups()):
        raise ConfigError(f"Cannot read {text!r} as a duration: expected one such as 90s, 30m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def size_of(text: str) -> int:
    """Returns the bytes of a text such as `500MB` or `1.5 TB`, in decimal units. Raises ConfigError."""
    found = _SIZE.fullmatch("".join(text.split()).lower())
    if found is None:
        raise ConfigError(f"Cannot read {text!r} as a number of bytes: expected one such as 500MB or 1.5TB")
    return int(float(found[1]) * 1000 ** _POWERS[found[2]])


@dataclass(frozen=True, slots=True)
class Cost:
    """What a service would take, about."""

    requests: int
    num_bytes: int = 0

    @property
    def weight(self) -> float:
        """Requests and bytes as one number, in requests."""
        return max(self.requests + self.num_bytes / _BYTES_OF_A_REQUEST, 1.0)


class Ledger:
    """A budget, and what a run has taken from it. Thread-safe.

    What is being worked on counts with its estimate until it is done, so that several services side by side fit
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
        """Since the run began."""
        return self._clock() - self._started

    @property
    def used(self) -> Used:
        return self._meter.used

    def now(self) -> float:
        """The time of the clock, in seconds."""
        return self._clock()

    def searched_enough(self) -> str:
        """Why no further table is looked at; empty if one may be."""
        return self._why_not(Cost(1), _SEARCH_SHARE)

    def looked(self, seconds: float, used: Used) -> None:
        """Takes in how long looking at tables took: so long do requests take here."""
        if used.requests >= 10:
            with self._guard:
                self._request_s = seconds / used.requests

    def begin(self, cost: Cost) -> tuple[str, int | None]:
        """Reserves what a service would take, until `end`.

        Returns:
            Why it does not fit, empty if it does; and the bytes that are left for it, None if there is no limit. Only
            a service that may take fewer bytes than its cost says fits with less than those.
        """
        with self._guard:
            reason = self._why_not(cost, 1.0)
            left = self._bytes_left()
            if not reason:
                self._running.append(cost)
            return reason, left

    def assume(self, cost: Cost) -> tuple[str, int | None]:
        """As `begin`, on a dry run: what is reserved counts as taken."""
        found = self.begin(cost)
        if not found[0]:
            self._assumed_s += self._duration(cost)
        return found

    def end(self, cost: Cost, seconds: float, used: Used) -> None:
        """Takes in what a service has really taken for which `cost` was reserved."""
        with self._guard:
            self._running.remove(cost)
            if used.num_bytes >= _MEASURED_BYTES and seconds > 0:
                self._rate = used.num_bytes / seconds

    def _reserved(self) -> Cost:
        """What services that run will take, as if they had taken nothing yet."""
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
                return f"it takes about {_shown(needed)}, and {_shown(max(left, 0.0))} of the time are left"
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


def _shown(seconds: float) -> str:
    return show_duration(round(seconds * 1000))
