"""`hudi-py show`, `stats` and `report`: state of a table and what to do next, its sizes, and the report page."""

from __future__ import annotations

import os
import re
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.screen import Screen, ScreenColumn, number, records
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import ago, counted, readable, show_bytes
from hudi_py.progress import Progress
from hudi_py.report.overview import Overview, overview, read_facts
from hudi_py.report.writes import totals
from hudi_py.table import Table
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.times import epoch_ms, table_zone

_ALL_PARTITIONS = "all"


def show(target: CommandTarget) -> None:
    """Implements `hudi-py show`."""
    table, screen = target.open(), Screen()
    facts = overview(read_facts(table), target.path)
    if target.as_json:
        screen.json(asdict(facts))
        return
    kind = "merge on read" if facts.table_type == "MERGE_ON_READ" else "copy on write"
    screen.title(facts.name or facts.uri, f"{kind}, table version {facts.version}")
    screen.path(facts.uri, "dim")
    if facts.read_only:
        screen.line(f"Read only: {facts.read_only}", "yellow")
    screen.line()
    screen.facts([*_identity_facts(facts), *_content_facts(facts), *_activity_facts(facts, table)])
    screen.heading("Next")
    if not facts.next:
        screen.line("  Nothing is due." if facts.services else "  Nothing.")
    for step in facts.next:
        screen.line(f"  {step.why}:", hang=2)
        screen.path(f"    {step.command}", "green")


def show_properties(target: CommandTarget) -> None:
    """Implements `hudi-py show --properties`."""
    properties, screen = dict(sorted(target.open().properties.items())), Screen()
    if target.as_json:
        screen.json(properties)
        return
    for key, value in properties.items():
        screen.line(f"{key}={value}")


def stats(target: CommandTarget, rows: bool) -> None:
    """Implements `hudi-py stats`."""
    table, screen = target.open(), Screen()
    files = records(table.files())
    report: dict[str, Any] = {"base_files": sizes(files), "writes": totals(table.history())}
    if rows:
        with Progress.on_terminal("counting") as progress:
            progress.phase("reading")
            report["num_rows"] = table.scan().count()
    if target.as_json:
        screen.json(report)
        return
    if rows:
        screen.title(counted(report["num_rows"], "row"))
    screen.heading("Sizes of base files")
    columns = [ScreenColumn("partition"), *map(number, ("files", "least", "median", "95 %", "most", "total"))]
    names = ("min_bytes", "median_bytes", "p95_bytes", "max_bytes", "num_bytes")
    table_rows = [
        [row["partition"] or ".", row["num_files"], *(show_bytes(row[name]) for name in names)]
        for row in report["base_files"]
    ]
    screen.table(columns, table_rows, empty="There are no base files.")
    screen.heading("Writes on the active timeline")
    done = report["writes"]
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


def report(target: CommandTarget, output: str | None, opened: bool, full: bool) -> None:
    """Writes the page, prints its path, and opens it."""
    table, screen = target.open(), Screen()
    name = re.sub(r"[^\w.-]+", "_", TableConfig(dict(table.properties)).name).strip("._") or "table"
    path = table.report(output or f"{name}-report.html", full=full)
    if target.as_json:
        screen.json({"path": path, "num_bytes": os.path.getsize(path)})
    else:
        screen.path(f"{path} ({show_bytes(os.path.getsize(path))})")
    if opened and not webbrowser.open(Path(path).as_uri()):
        screen.note("There is no browser to open it in.")


def sizes(files: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns sizes of the base files of each partition, and of all."""
    by_partition: dict[str, list[int]] = {}
    for row in files:
        if row["base_file"]:
            by_partition.setdefault(row["partition"], []).append(row["base_bytes"])
    result = [_size_spread(partition, values) for partition, values in sorted(by_partition.items())]
    if len(result) > 1:
        result.append(_size_spread(_ALL_PARTITIONS, [size for values in by_partition.values() for size in values]))
    return result


def _identity_facts(overview: Overview) -> list[tuple[str, str]]:
    wins = {
        "EVENT_TIME_ORDERING": f"with the greatest {', '.join(overview.ordered_by)}",
        "COMMIT_TIME_ORDERING": "written last",
    }
    return [
        ("Record key", ", ".join(overview.record_key) or "generated"),
        ("Partitioned by", ", ".join(overview.partitioned_by) or "nothing"),
        ("Of equal keys", f"the row {wins.get(overview.merge_mode, 'that its own merger makes')} counts"),
        ("Columns", f"{overview.num_columns:,}, in {overview.base_file_format.capitalize()} files"),
    ]


def _content_facts(overview: Overview) -> list[tuple[str, str]]:
    groups = f"{counted(overview.num_file_groups, 'file group')} in {counted(overview.num_partitions, 'partition')}"
    logs = (
        f"{counted(overview.num_log_files, 'log file')}, {show_bytes(overview.log_bytes)}, in "
        f"{counted(overview.num_groups_with_logs, 'file group')}"
    )
    return [
        ("Files", f"{groups}, {show_bytes(overview.base_bytes + overview.log_bytes)}"),
        ("Logs", logs if overview.num_log_files else ("none" if overview.table_type == "MERGE_ON_READ" else "")),
        ("Metadata table", ", ".join(overview.metadata_partitions) or "none"),
    ]


def _activity_facts(overview: Overview, table: Table) -> list[tuple[str, str]]:
    zone = table_zone(TableConfig(dict(table.properties)))
    facts: list[tuple[str, str]] = []
    last = overview.last_write
    if last is not None:
        changed = {"inserted": "num_inserts", "updated": "num_updates", "deleted": "num_deletes"}
        counts = ", ".join(f"{last[name]:,} {word}" for word, name in changed.items() if last[name])
        time = last["completion_time"] or last["instant"]
        when = f"{readable(time)}, {ago(wall_clock_ms() - epoch_ms(time, zone))}"
        operation = (last["operation"] or last["action"]).lower().replace("_", " ")
        facts.append(("Last write", f"{operation}{': ' + counts if counts else ''}, {when}"))
    since = f", since {readable(overview.first_instant)}" if overview.first_instant else ""
    facts.append(("Timeline", f"{counted(overview.num_instants, 'instant')}{since}"))
    facts.append(("Pending", ", ".join(f"{row['action']} {row['instant']}" for row in overview.pending)))
    facts.append(("Savepoints", ", ".join(overview.savepoints)))
    facts.extend(("Lock", f"held by {lock['process'] or lock['owner']}") for lock in overview.locks)
    facts.extend(("Unknown", item) for item in overview.unknown)
    return facts


def _size_spread(partition: str, values: Sequence[int]) -> dict[str, Any]:
    low, median, high = (int(item) for item in np.percentile(values, (0, 50, 95)))
    return {
        "partition": partition,
        "num_files": len(values),
        "num_bytes": sum(values),
        "min_bytes": low,
        "median_bytes": median,
        "p95_bytes": high,
        "max_bytes": max(values),
    }
