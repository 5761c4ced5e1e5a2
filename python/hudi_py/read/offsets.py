"""Offsets of a stream, as checkpoints store them, and limits on one batch."""

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
    """The kind of time in an offset, which decides the order of commits."""

    COMPLETION = "completion"
    """Completion times: since table version 8, and with `USE_TRANSITION_TIME`."""
    REQUESTED = "requested"
    """Requested times, before version 8."""


class Start(str, Enum):
    """Where a stream without a checkpoint begins."""

    SNAPSHOT = "snapshot"
    """With all rows of the table."""
    EARLIEST = "earliest"
    """With the first commit that can still be read."""
    LATEST = "latest"
    """With the first commit after the start."""
    INSTANT = "instant"
    """With the first commit after a given time."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to and including `time` has been delivered. Holds no paths and no credentials."""

    time: str
    """Empty before the first snapshot."""
    axis: Axis
    start: Start | None = None
    """Set in the offset at which a stream begins; None in those at which batches end."""
    since: str | None = None
    """In the end offset of the first batch: where that batch begins (exclusive).

    An engine that repeats the first batch asks for the initial offset again, when `latest` is another instant.
    """

    def to_json(self) -> dict[str, str]:
        """A flat dict of strings, identical for equal offsets, including the order of keys."""
        values = {"axis": self.axis.value, "time": self.time}
        if self.start is not None:
            values["start"] = self.start.value
        if self.since is not None:
            values["since"] = self.since
        return values

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Decodes the result of `to_json`.

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
                f"Cannot continue from the offset {dict(value)!r}: it is not an offset of this release of hudi-py "
                f"({error}); expected are axis and time; start the query with a new checkpoint"
            ) from None


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits on one batch; None: no limit. A batch has at least one commit, so that the stream advances."""

    commits: int | None = None
    bytes: int | None = None
    """Bytes that the commits wrote."""
    rows: int | None = None
    """Rows that the commits wrote, including unchanged rows of rewritten files."""

    def admit(self, commits: Sequence[Weight]) -> int:
        """How many of the commits, oldest first, fit into one batch."""
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
    """What a commit counts towards limits."""

    bytes: int
    rows: int
