"""`hudi-py stats`: sizes of files, and how much the writes had to rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.screen import Screen, ScreenColumn, number, records
from hudi_py.model.words import counted, show_bytes
from hudi_py.progress import Progress
from hudi_py.report.writes import totals

_ALL = "all"


def stats(target: CommandTarget, rows: bool) -> None:
    """`hudi-py stats`."""
    table, screen = target.open(), Screen()
    files = records(table.files())
    found: dict[str, Any] = {"base_files": sizes(files), "writes": totals(table.history())}
    if rows:
        progress = Progress.on_terminal("counting")
        progress.phase("reading")
        try:
            found["num_rows"] = table.scan().count()
        finally:
            progress.close()
    if target.as_json:
        screen.json(found)
        return
    if rows:
        screen.title(counted(found["num_rows"], "row"))
    screen.heading("Sizes of base files")
    columns = [ScreenColumn("partition"), *map(number, ("files", "least", "median", "95 %", "most", "total"))]
    names = ("min_bytes", "median_bytes", "p95_bytes", "max_bytes", "num_bytes")
    table_rows = [
        [row["partition"] or ".", row["num_files"], *(show_bytes(row[name]) for name in names)]
        for row in found["base_files"]
    ]
    screen.table(columns, table_rows, empty="There are no base files.")
    screen.heading("Writes on the active timeline")
    done = found["writes"]
    changed = done["num_inserts"] + done["num_updates"] + done["num_deletes"]
    facts = [
        (
            "Commits",
            f"{done['num_commits']:,}, {show_bytes(done['num_bytes'])} in {counted(done['num_files'], 'file')}",
        ),
        ("Rows changed", f"{changed:,}"),
        ("Rows written", f"{done['num_writes']:,}"),
    ]
    if done["write_amplification"] is not None:
        facts.append(("Amplification", f"{done['write_amplification']:.1f} rows written for each one changed"))
    screen.facts(facts)


def sizes(files: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sizes of the base files of each partition, and of all."""
    by_partition: dict[str, list[int]] = {}
    for row in files:
        if row["base_file"]:
            by_partition.setdefault(row["partition"], []).append(row["base_bytes"])
    found = [_spread(partition, values) for partition, values in sorted(by_partition.items())]
    if len(found) > 1:
        found.append(_spread(_ALL, [size for values in by_partition.values() for size in values]))
    return found


def _spread(partition: str, values: Sequence[int]) -> dict[str, Any]:
    low, median, high = (int(each) for each in np.percentile(values, (0, 50, 95)))
    return {
        "partition": partition,
        "num_files": len(values),
        "num_bytes": sum(values),
        "min_bytes": low,
        "median_bytes": median,
        "p95_bytes": high,
        "max_bytes": max(values),
    }
