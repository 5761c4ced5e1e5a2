"""`hudi-py show`: what a table is, how it is doing, and what to do next."""

from __future__ import annotations

from dataclasses import asdict

from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.screen import Screen
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import ago, counted, readable, show_bytes
from hudi_py.report.facts import read_facts
from hudi_py.report.overview import Overview, overview
from hudi_py.table import Table
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.times import epoch_ms, table_zone


def show(target: CommandTarget) -> None:
    """`hudi-py show`."""
    table, screen = target.open(), Screen()
    found = overview(read_facts(table), target.path)
    if target.as_json:
        screen.json(asdict(found))
        return
    kind = "merge on read" if found.table_type == "MERGE_ON_READ" else "copy on write"
    screen.title(found.name or found.uri, f"{kind}, table version {found.version}")
    screen.path(found.uri, "dim")
    if found.read_only:
        screen.line(f"Read only: {found.read_only}", "yellow")
    screen.line()
    screen.facts([*_is(found), *_holds(found), *_does(found, table)])
    screen.heading("Next")
    if not found.next:
        screen.line("  Nothing is due." if found.services else "  Nothing.")
    for step in found.next:
        screen.line(f"  {step.why}:", hang=2)
        screen.path(f"    {step.command}", "green")


def show_properties(target: CommandTarget) -> None:
    """`hudi-py show --properties`."""
    properties, screen = dict(sorted(target.open().properties.items())), Screen()
    if target.as_json:
        screen.json(properties)
        return
    for key, value in properties.items():
        screen.line(f"{key}={value}")


def _is(found: Overview) -> list[tuple[str, str]]:
    wins = {
        "EVENT_TIME_ORDERING": f"with the greatest {', '.join(found.ordered_by)}",
        "COMMIT_TIME_ORDERING": "written last",
    }
    return [
        ("Record key", ", ".join(found.record_key) or "generated"),
        ("Partitioned by", ", ".join(found.partitioned_by) or "nothing"),
        ("Of equal keys", f"the row {wins.get(found.merge_mode, 'that a merger of its own makes')} counts"),
        ("Columns", f"{found.num_columns:,}, in {found.base_file_format.capitalize()} files"),
    ]


def _holds(found: Overview) -> list[tuple[str, str]]:
    groups = f"{counted(found.num_file_groups, 'file group')} in {counted(found.num_partitions, 'partition')}"
    logs = (
        f"{counted(found.num_log_files, 'log file')}, {show_bytes(found.log_bytes)}, in "
        f"{counted(found.num_groups_with_logs, 'file group')}"
    )
    return [
        ("Files", f"{groups}, {show_bytes(found.base_bytes + found.log_bytes)}"),
        ("Logs", logs if found.num_log_files else ("none" if found.table_type == "MERGE_ON_READ" else "")),
        ("Metadata table", ", ".join(found.metadata_partitions) or "none"),
    ]


def _does(found: Overview, table: Table) -> list[tuple[str, str]]:
    zone = table_zone(TableConfig(dict(table.properties)))
    facts: list[tuple[str, str]] = []
    last = found.last_write
    if last is not None:
        changed = {"inserted": "num_inserts", "updated": "num_updates", "deleted": "num_deletes"}
        counts = ", ".join(f"{last[name]:,} {word}" for word, name in changed.items() if last[name])
        time = last["completion_time"] or last["instant"]
        when = f"{readable(time)}, {ago(wall_clock_ms() - epoch_ms(time, zone))}"
        operation = (last["operation"] or last["action"]).lower().replace("_", " ")
        facts.append(("Last write", f"{operation}{': ' + counts if counts else ''}, {when}"))
    since = f", since {readable(found.first_instant)}" if found.first_instant else ""
    facts.append(("Timeline", f"{counted(found.num_instants, 'instant')}{since}"))
    facts.append(("Pending", ", ".join(f"{row['action']} {row['instant']}" for row in found.pending)))
    facts.append(("Savepoints", ", ".join(found.savepoints)))
    facts.extend(("Lock", f"held by {each['process'] or each['owner']}") for each in found.locks)
    facts.extend(("Unknown", each) for each in found.unknown)
    return facts
