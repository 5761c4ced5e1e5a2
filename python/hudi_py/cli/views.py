"""Prints lists: timeline, files, partitions, schema, plans, savepoints, locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.screen import Screen, ScreenColumn, number, records
from hudi_py.errors import ConfigError
from hudi_py.model.words import readable, show_bytes
from hudi_py.schema import META_FIELDS
from hudi_py.table import Table

_WROTE: Final = ("operation", "num_inserts", "num_updates", "num_deletes", "num_files", "num_bytes")
INSTANT: Final = ScreenColumn("instant", keep=True)


@dataclass(frozen=True, slots=True)
class InstantFilter:
    """Which instants to list."""

    limit: int | None = None
    action: str | None = None
    pending: bool = False
    archived: bool = False


def instants(table: Table, wanted: InstantFilter) -> list[dict[str, Any]]:
    """Lists instants, newest first, each with what it wrote (None for those that write no rows)."""
    written = {row["instant"]: row for row in records(table.history(archived=wanted.archived))}
    result = []
    for row in reversed(records(table.instants(archived=wanted.archived))):
        if (wanted.pending and row["state"] == "COMPLETED") or wanted.action not in (None, row["action"]):
            continue
        history = written.get(row["instant"], {}) if row["state"] == "COMPLETED" else {}
        same = history.get("action") == row["action"]
        result.append({**row, **{name: history.get(name) if same else None for name in _WROTE}})
    return result[: wanted.limit]


def timeline(target: CommandTarget, wanted: InstantFilter) -> None:
    """Implements `hudi-py timeline`."""
    result, screen = instants(target.open(), wanted), Screen()
    if target.as_json:
        screen.json_lines(result)
        return
    states = [ScreenColumn("state", keep=True)] if any(row["state"] != "COMPLETED" for row in result) else []
    columns = [INSTANT, ScreenColumn("action", keep=True), *states, ScreenColumn("operation")]
    columns += [*map(number, ("inserted", "updated", "deleted", "size")), ScreenColumn("completed", keep=True)]
    rows = [
        [
            row["instant"],
            row["action"],
            *([row["state"].lower()] if states else []),
            (row["operation"] or "").lower(),
            *(row[name] for name in _WROTE[1:4]),
            _size_text(row["num_bytes"]),
            readable(row["completion_time"]),
        ]
        for row in result
    ]
    screen.table(columns, rows, empty="No instants.")


def _check_partition(table: Table, wanted: str, as_of: str | None) -> None:
    known = [row["partition"] for row in records(table.partitions(as_of=as_of))]
    if wanted not in known:
        raise ConfigError(
            f"Cannot list the files of partition {wanted!r}: {table.uri} has no such partition; "
            f"it has {', '.join(known[:5]) or 'none'}{', ...' if len(known) > 5 else ''}"
        )


def files(target: CommandTarget, partition: str | None, logs: bool, as_of: str | None) -> None:
    """Implements `hudi-py files`."""
    table, screen = target.open(), Screen()
    slices = records(table.files(as_of=as_of))
    if partition is not None:
        wanted = partition.strip("/")
        slices = [row for row in slices if row["partition"] == wanted]
        if not slices:
            _check_partition(table, wanted, as_of)
    if logs:
        slices = [row for row in slices if row["log_files"]]
    if target.as_json:
        screen.json_lines(slices)
        return
    rows = [
        [
            row["partition"],
            row["file_id"],
            row["base_instant"],
            _size_text(row["base_bytes"]) if row["base_file"] else "",
            len(row["log_files"]) or None,
            _size_text(row["log_bytes"] or None),
        ]
        for row in slices
    ]
    columns = [
        ScreenColumn("partition"),
        ScreenColumn("file id"),
        ScreenColumn("base instant", keep=True),
        number("base size"),
    ]
    columns += [number("logs"), number("log size")]
    if not any(row[0] for row in rows):  # not partitioned
        columns, rows = columns[1:], [row[1:] for row in rows]
    screen.table(columns, rows, empty="No files.")


def partitions(target: CommandTarget, as_of: str | None) -> None:
    """Implements `hudi-py partitions`."""
    result, screen = records(target.open().partitions(as_of=as_of)), Screen()
    if target.as_json:
        screen.json_lines(result)
        return
    rows = [
        [row["partition"] or ".", row["num_slices"], row["num_files"], show_bytes(row["num_bytes"])] for row in result
    ]
    columns = [ScreenColumn("partition"), *map(number, ("file slices", "files", "size"))]
    screen.table(columns, rows, empty="No partitions.")


def schema(target: CommandTarget, meta: bool, as_of: str | None) -> None:
    """Implements `hudi-py schema`."""
    table, screen = target.open(), Screen()
    columns = table.schema if as_of is None else table.scan(as_of=as_of).schema
    config = {key: table.properties.get(f"hoodie.table.{key}", "") for key in ("recordkey.fields", "partition.fields")}
    result = [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "record_key": field.name in _field_names(config["recordkey.fields"]),
            "partition": field.name in _field_names(config["partition.fields"]),
        }
        for field in columns
        if meta or field.name not in META_FIELDS
    ]
    if target.as_json:
        screen.json_lines(result)
        return
    required = not all(row["nullable"] for row in result)
    heads = [ScreenColumn("column", keep=True), ScreenColumn("type"), ScreenColumn("role", keep=True)]
    heads += [ScreenColumn("null", keep=True)] if required else []
    rows = [
        [row["name"], row["type"], _column_role(row), *(["" if row["nullable"] else "not null"] if required else [])]
        for row in result
    ]
    screen.table(heads, rows, empty="No columns: nothing has been written.")


def plans(target: CommandTarget) -> None:
    """`hudi-py plans`."""
    result, screen = records(target.open().services.pending()), Screen()
    if target.as_json:
        screen.json_lines(result)
        return
    rows = [
        [row["instant"], row["service"], row["state"].lower(), row["partition"], row["file_id"], len(row["files"])]
        for row in result
    ]
    columns = [INSTANT, ScreenColumn("service", keep=True), ScreenColumn("state", keep=True), ScreenColumn("partition")]
    screen.table([*columns, ScreenColumn("file id"), number("files")], rows, empty="No pending plans.")


def savepoints(target: CommandTarget) -> None:
    """`hudi-py savepoint list`."""
    result, screen = records(target.open().savepoints.list()), Screen()
    if target.as_json:
        screen.json_lines(result)
        return
    names = ("user", "comment", "num_partitions", "num_files")
    rows = [
        [row["instant"], row["created"].strftime("%Y-%m-%d %H:%M:%S"), *(row[name] for name in names)] for row in result
    ]
    columns = [INSTANT, ScreenColumn("created (UTC)", keep=True), ScreenColumn("user"), ScreenColumn("comment")]
    screen.table([*columns, number("partitions"), number("files")], rows, empty="No savepoints.")


def indexes(target: CommandTarget) -> None:
    """`hudi-py index list`."""
    result, screen = records(target.open().indexes.list()), Screen()
    if target.as_json:
        screen.json_lines({**row, "options": dict(row["options"])} for row in result)
        return
    rows = [
        [row["name"], row["kind"], ", ".join(row["columns"]), row["function"], "yes" if row["ready"] else "no"]
        for row in result
    ]
    columns = [
        ScreenColumn("name", keep=True),
        ScreenColumn("kind"),
        ScreenColumn("columns"),
        ScreenColumn("function"),
        ScreenColumn("ready"),
    ]
    screen.table(columns, rows, empty="No indexes.")


def locks(target: CommandTarget) -> None:
    """`hudi-py locks show`."""
    holders, screen = target.open().locks.holders(), Screen()
    if target.as_json:
        screen.json_lines(asdict(item) for item in holders)
        return
    if not holders:
        screen.note("Nobody holds the table lock.")
    for item in holders:
        times = {"since": item.since, "expires": item.expires}
        screen.facts(
            [
                ("owner", item.owner),
                ("process", item.process),
                *((name, value.isoformat(" ", "seconds")) for name, value in times.items() if value is not None),
                ("lock", f"{item.provider} in {item.place}"),
            ]
        )


def lock_audit(target: CommandTarget) -> None:
    """Implements `hudi-py locks audit status`."""
    audit, screen = target.open().locks.audit, Screen()
    status = {"enabled": audit.enabled, "config_path": audit.config_path, "folder": audit.folder}
    if target.as_json:
        screen.json(status)
    else:
        shown = [("audit", "enabled" if audit.enabled else "disabled")]
        screen.facts([*shown, ("set in", audit.config_path), ("records", audit.folder)])


def _size_text(size: int | None) -> str | None:
    return None if size is None else show_bytes(size)


def _field_names(text: str) -> list[str]:
    """Returns the names of fields, without the `:TYPE` of custom key generators."""
    return [part.strip().split(":")[0] for part in text.split(",")]


def _column_role(row: Mapping[str, Any]) -> str:
    return ", ".join(name.replace("_", " ") for name in ("record_key", "partition") if row[name])
