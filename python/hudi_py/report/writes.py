"""Summarises the writes of a table, and how much they had to rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.model.operation import REWRITING

MAX_BINS: Final = 60
_CHANGES: Final = ("num_inserts", "num_updates", "num_deletes")
_NUMBERS: Final = (*_CHANGES, "num_writes", "num_files", "num_bytes")


@dataclass(frozen=True, slots=True)
class OperationSummary:
    """All completed commits of one operation."""

    name: str
    service: bool
    """Whether it changes no rows."""
    commits: int
    inserts: int
    updates: int
    deletes: int
    rows_written: int
    """Rows in the files written, unchanged ones included."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WriteBin:
    """Some consecutive commits."""

    first: str
    last: str
    """Their first and last instant."""
    commits: int
    write_bytes: int
    service_bytes: int
    """Bytes written by table services."""
    rows_changed: int
    rows_written: int


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """The completed writes of the active timeline."""

    operations: tuple[OperationSummary, ...]
    """Operations by bytes, largest first."""
    bins: tuple[WriteBin, ...]
    """At most `MAX_BINS`, oldest first."""
    commits: int
    bytes: int
    service_bytes: int
    rows_changed: int
    rows_written: int

    @property
    def amplification(self) -> float | None:
        """Returns rows written per changed row; None if none was changed."""
        return self.rows_written / self.rows_changed if self.rows_changed else None


def totals(history: pa.Table) -> dict[str, Any]:
    """Sums over the writes; services such as compaction also write rows, but change none."""
    own = history.filter(pc.invert(_by_service(history)))
    total: dict[str, Any] = {"num_commits": len(history)}
    for name in _NUMBERS:
        total[name] = pc.sum((own if name in _CHANGES else history)[name], min_count=0).as_py()
    changed = sum(total[name] for name in _CHANGES)
    total["write_amplification"] = total["num_writes"] / changed if changed else None
    return total


def writes_of(history: pa.Table) -> WriteSummary:
    """Returns the sums and bins of `Table.history()`."""
    total = totals(history)
    service_bytes = pc.sum(history.filter(_by_service(history))["num_bytes"], min_count=0).as_py()
    return WriteSummary(
        operations=_operations(history),
        bins=_bins(history),
        commits=len(history),
        bytes=total["num_bytes"],
        service_bytes=service_bytes,
        rows_changed=sum(total[name] for name in _CHANGES),
        rows_written=total["num_writes"],
    )


def _by_service(history: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(pc.is_in(history["operation"], pa.array(sorted(REWRITING))), False)


def _operations(history: pa.Table) -> tuple[OperationSummary, ...]:
    grouped = history.group_by("operation").aggregate([(name, "sum") for name in _NUMBERS] + [("instant", "count")])
    result = []
    for row in grouped.sort_by([("num_bytes_sum", "descending"), ("operation", "ascending")]).to_pylist():
        service = row["operation"] in REWRITING
        inserts, updates, deletes = (0 if service else row[f"{name}_sum"] for name in _CHANGES)
        result.append(
            OperationSummary(
                name=row["operation"] or "UNKNOWN",
                service=service,
                commits=row["instant_count"],
                inserts=inserts,
                updates=updates,
                deletes=deletes,
                rows_written=row["num_writes_sum"],
                files=row["num_files_sum"],
                bytes=row["num_bytes_sum"],
            )
        )
    return tuple(result)


def _bins(history: pa.Table) -> tuple[WriteBin, ...]:
    if not len(history):
        return ()
    service = _by_service(history).to_numpy()
    number = {name: history[name].to_numpy() for name in _NUMBERS}
    changed = np.where(service, 0, sum(number[name] for name in _CHANGES))
    edges = np.unique(np.linspace(0, len(history), min(MAX_BINS, len(history)) + 1).astype(int))
    starts = edges[:-1]

    def sums(values: Any) -> list[int]:
        return [int(item) for item in np.add.reduceat(values, starts)]

    columns = zip(
        starts,
        edges[1:],
        sums(np.where(service, 0, number["num_bytes"])),
        sums(np.where(service, number["num_bytes"], 0)),
        sums(changed),
        sums(number["num_writes"]),
        strict=True,
    )
    instants = history["instant"]
    return tuple(
        WriteBin(instants[int(low)].as_py(), instants[int(high) - 1].as_py(), int(high - low), *numbers)
        for low, high, *numbers in columns
    )
