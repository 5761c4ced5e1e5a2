"""What registering a table did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Registered:
    """What was done with one entry."""

    catalog: str
    name: str
    """As the catalog names it."""
    instant: str | None
    """The last write that the entry shows; None for a table without one."""
    done: str = "unchanged"
    """`created`; `changed`: columns, parameters or partitions; `noted`: only the last write; or `unchanged`."""
    columns_changed: bool = False
    partitions_added: int = 0
    partitions_changed: int = 0
    partitions_dropped: int = 0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `sync` did."""

    entries: tuple[Registered, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report in JSON's types."""
        return asdict(self)
