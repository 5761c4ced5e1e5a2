"""How far a stream has read: offsets as a checkpoint keeps them, and how much one batch may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from hudi_py.errors import ConfigError

FROM_THE_BEGINNING = "000"
"""A time before every instant."""
_KEYS = frozenset({"axis", "time", "start", "since"})


class Axis(str, Enum):
    """What the times of an offset are, and so in which order commits are delivered."""

    COMPLETION = "completion"
    """Completion times: since table version 8, and where holes are resolved by transition time."""
    REQUESTED = "requested"
    """Requested times, before version 8."""


class Start(str, Enum):
    """Where a stream without checkpoint begins."""

    SNAPSHOT = "snapshot"
    """With all rows of the table."""
    EARLIEST = "earliest"
    """With the first commit that can still be read."""
    LATEST = "latest"
    """With what is committed after the start."""
    INSTANT = "instant"
    """With what is committed after a given time."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to `time`, which is included, has been delivered. Holds no paths and no credentials."""

    time: str
    """Empty before the first snapshot was taken."""
    axis: Axis
    start: Start | None = None
    """Set for the offset at which a stream begins; None for those that batches end at."""
    since: str | None = None
    """Where the first batch begins (exclusive), in the offset it ends at.

    An engine asks for the beginning anew when it repeats the first batch, and `latest` is another instant by then.
    """

    def to_json(self) -> dict[str, str]:
        """A flat dict of texts; always the same for equal offsets, order of keys included."""
        values = {"axis": self.axis.value, "time": self.time}
        if self.start is not None:
            values["start"] = self.start.value
        if self.since is not None:
            values["since"] = self.since
        return values

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """The offset of `to_json`.

        Raises:
            ConfigError: the value is the offset of another source or of a newer release.
        """
        try:
            unknown = sorted(set(value) - _KEYS)
            if unknown or not all(isinstance(text, str) for text in value.values()):
                raise ValueError(f"unexpected members {', '.join(unknown) or 'of another type than text'}")
            start = value.get("start")
            return cls(value["time"], Axis(value["axis"]), None if start is None else Start(start), value.get("since"))
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"Cannot go on from the offset {dict(value)!r}: it is not one that this release of hudi-py wrote for a "
                f"Hudi table ({error}); expected are axis and time; start the query with a new checkpoint"
            ) from None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch takes at most; None: no limit. A batch always takes one commit, so that a stream goes on."""

    commits: int | None = None
    bytes: int | None = None
    """Bytes which the commits wrote."""
    rows: int | None = None
    """Rows which the commits wrote, those of rewritten files that did not change among them."""

    def admit(self, commits: Sequence[Weight]) -> int:
        """How many of the commits, oldest first, one batch takes."""
        taken_bytes = taken_rows = 0
        for count, weight in enumerate(commits):
            taken_bytes += weight.bytes
            taken_rows += weight.rows
            if count and (
                (self.commits is not None and count >= self.commits)
                or (self.bytes is not None and taken_bytes > self.bytes)
                or (self.rows is not None and taken_rows > self.rows)
            ):
                return count
        return len(commits)


class Weight(NamedTuple):
    """What a commit counts against limits."""

    bytes: int
    rows: int
