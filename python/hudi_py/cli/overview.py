"""`hudi-py show`: what a table is, how it is doing, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from typing import Any

from hudi_py.cli.declare import Target
from hudi_py.cli.screen import Screen, ago, readable, records
from hudi_py.errors import HudiError, first_line
from hudi_py.merge import merge_settings
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, show_bytes
from hudi_py.schema import META_FIELDS
from hudi_py.table import Table
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.times import epoch_ms, table_zone

_COMMANDS = {"compaction": "compact", "log_compaction": "log-compact", "clean": "clean", "archive": "archive"}
"""Services and the commands that run them."""
SERVICES = ("COMPACT", "LOG_COMPACT", "CLUSTER")
"""Operations of commits that change no rows."""
_WRITES = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do next."""

    why: str
    command: str


@dataclass(frozen=True, slots=True)
class Overview:
    """What `show` says; `--json` prints these fields."""

    uri: str
    name: str
    table_type: str
    version: int
    read_only: str | None
    """Why it cannot be written to; None if it can be."""
    record_key: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    ordered_by: tuple[str, ...]
    merge_mode: str
    base_file_format: str
    num_columns: int
    num_partitions: int
    num_file_groups: int
    num_base_files: int
    base_bytes: int
    num_log_files: int
    log_bytes: int
    num_groups_with_logs: int
    metadata_partitions: tuple[str, ...]
    num_instants: int
    first_instant: str | None
    last_write: dict[str, Any] | None
    """The newest row of `Table.history()` that is not of a table service."""
    pending: list[dict[str, Any]]
    """Rows of `Table.instants()`, oldest first."""
    savepoints: list[str]
    locks: list[dict[str, Any]]
    services: list[dict[str, Any]]
    """`service`, `due` and `reason` for compaction, clean and archive; empty if the table is read only."""
    unknown: list[str] = field(default_factory=list)
    """What could not be found out, and why."""
    next: list[Step] = field(default_factory=list)


def show(target: Target) -> None:
    """`hudi-py show`."""
    table, screen = target.open(), Screen()
    found = overview(table, target.path)
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


def show_properties(target: Target) -> None:
    """`hudi-py show --properties`."""
    properties, screen = dict(sorted(target.open().properties.items())), Screen()
    if target.as_json:
        screen.json(properties)
        return
    for key, value in properties.items():
        screen.line(f"{key}={value}")


def overview(table: Table, path: str) -> Overview:
    """The facts about a table; `path` is how the user named it."""
    config = TableConfig(dict(table.properties))
    files = records(table.files())
    instants = records(table.instants())
    history = records(table.history())
    unknown: list[str] = []
    services: list[dict[str, Any]] = []
    if table.read_only is None:
        try:
            services = [asdict(each) for each in table.due()]
        except HudiError as error:
            unknown.append(f"what services are due: {first_line(error)}")
    try:
        locks = [asdict(each) for each in table.locks()]
    except (HudiError, OSError, ImportError) as error:
        locks = []
        unknown.append(f"who holds the lock: {first_line(error)}")
    found = Overview(
        uri=table.uri,
        name=config.name,
        table_type=config.table_type,
        version=config.version,
        read_only=table.read_only,
        record_key=config.record_key_fields,
        partitioned_by=config.partition_fields,
        ordered_by=config.ordering_fields,
        merge_mode=_merge_mode(config),
        base_file_format=config.base_file_format,
        num_columns=len([each for each in table.schema if each.name not in META_FIELDS]),
        num_partitions=len({row["partition"] for row in files}),
        num_file_groups=len(files),
        num_base_files=len([row for row in files if row["base_file"]]),
        base_bytes=sum(row["base_bytes"] for row in files),
        num_log_files=sum(len(row["log_files"]) for row in files),
        log_bytes=sum(row["log_bytes"] for row in files),
        num_groups_with_logs=len([row for row in files if row["log_files"]]),
        metadata_partitions=config.metadata_partitions,
        num_instants=len(instants),
        first_instant=instants[0]["instant"] if instants else None,
        last_write=next((row for row in reversed(history) if row["operation"] not in SERVICES), None),
        pending=[row for row in instants if row["state"] != "COMPLETED"],
        savepoints=[row["instant"] for row in instants if row["action"] == "savepoint"],
        locks=locks,
        services=services,
        unknown=unknown,
    )
    found.next.extend(_next(found, table, shlex.quote(path)))
    return found


def _next(found: Overview, table: Table, path: str) -> list[Step]:
    """What to do next, the most pressing first."""
    steps: list[Step] = []
    if found.read_only is not None:
        return steps
    planned = {row["instant"]: row["service"] for row in records(table.plans())}
    for row in found.pending:
        service, instant = planned.get(row["instant"]), row["instant"]
        if service is not None:
            why = f"The plan {instant} of a {service.replace('_', ' ')} is pending"
            steps.append(Step(why, f"hudi-py {_COMMANDS[service]} {path}"))
        elif row["action"] in _WRITES:
            why = f"The {row['action']} {instant} is running, or its process has died. The next write undoes dead ones"
            steps.append(Step(why, f"hudi-py rollback {path} {instant}"))
    if not found.metadata_partitions and found.last_write is not None:
        why = "There is no metadata table, so folders are listed and no statistics leave files out"
        steps.append(Step(why, f"hudi-py metadata rebuild {path} files column_stats"))
    running = set(planned.values())
    for each in found.services:
        if each["due"] and each["service"] not in running:
            why = f"{each['service'].capitalize()} is due: {each['reason']}"
            steps.append(Step(why, f"hudi-py {_COMMANDS[each['service']]} {path}"))
    if found.last_write is None and not found.pending:
        steps.append(Step("The table is empty", f"hudi-py write {path} ROWS.csv"))
    return steps


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


def _merge_mode(config: TableConfig) -> str:
    try:
        return merge_settings(config, {}).mode
    except HudiError:  # a class of Java
        return config.merge_mode or "custom"
