"""Examines `hoodie.properties`: whether it exists and is complete, whether its values are known, and whether they fit
the files."""

from __future__ import annotations

from collections.abc import Iterator

from hudi_py.errors import CorruptFileError, HudiError, StorageError, TableNotFoundError, first_line
from hudi_py.health.facts import Facts
from hudi_py.health.findings import Finding
from hudi_py.model.instant import Action
from hudi_py.model.layout import BACKUP, META_FOLDER, PROPERTIES, TIMELINE, UPDATED
from hudi_py.model.properties import (
    CHECKSUM,
    NAME,
    TableConfig,
    checksum,
    damaged_keys,
    invalid_properties,
    parse_properties,
)
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.properties import LAYOUTS_OF_VERSION, load_table_config


def read_properties(storage: Storage, path: str) -> tuple[dict[str, str] | None, str]:
    """Reads the properties in a file, and returns what is wrong with it: empty if nothing is.

    Returns None for the properties if there is no such file, or nothing in it can be read.
    """
    try:
        data = storage.read(path)
    except FileNotFoundError:
        return None, "is missing"
    try:
        properties = parse_properties(data.decode("latin-1"))
    except CorruptFileError as error:
        return None, f"cannot be read: {first_line(error)}"
    if not data.strip():
        return None, "is empty"
    if not properties.get(NAME):
        return properties, f"has no {NAME}"
    stored = properties.get(CHECKSUM)
    if stored is not None and stored.strip() != str(checksum(properties)):
        return properties, f"has {CHECKSUM}={stored}, expected {checksum(properties)} for the table's name"
    return properties, ""


def check_properties(facts: Facts) -> Iterator[Finding]:
    """Yields findings about the properties; sets `facts.config` if they can be used.

    Raises:
        TableNotFoundError: there is no table at the path.
    """
    storage = facts.storage
    properties, problem = read_properties(storage, PROPERTIES)
    backup, backup_problem = read_properties(storage, BACKUP)
    if problem and backup_problem:
        yield _broken_finding(facts, problem, backup_problem)
        return
    if problem:
        yield Finding(
            "properties.from_backup", f"{PROPERTIES} {problem}; {BACKUP} is whole", paths=(PROPERTIES, BACKUP)
        )
    elif backup_problem != "is missing":
        state = "differs from" if backup != properties else "equals"
        yield Finding("properties.leftover", f"{BACKUP} {state} {PROPERTIES}", paths=(BACKUP,))
    if storage.stat(UPDATED) is not None:
        yield Finding("properties.leftover", f"{UPDATED} of an interrupted upgrade is left", paths=(UPDATED,))
    used = properties if not problem else backup
    assert used is not None
    values = list(_check_values(used))
    yield from values
    if not values:
        try:
            facts.config = load_table_config(storage)
        except StorageError:  # not a sign of damage
            raise
        except HudiError as error:
            facts.skipped.append(first_line(error))


def _broken_finding(facts: Facts, problem: str, backup_problem: str) -> Finding:
    if problem == backup_problem == "is missing":
        if not any(_is_state(info.name) for folder in (META_FOLDER, TIMELINE) for info in facts.storage.list(folder)):
            raise TableNotFoundError(
                f"No Hudi table at {facts.storage.uri}: {PROPERTIES} is missing, and there is no timeline; check the "
                "path"
            )
        return Finding("properties.missing", f"{PROPERTIES} is missing, and so is its backup", paths=(PROPERTIES,))
    code = "properties.missing" if problem == "is missing" else "properties.damaged"
    return Finding(code, f"{PROPERTIES} {problem}; its backup {backup_problem}", paths=(PROPERTIES,))


def _check_values(properties: dict[str, str]) -> Iterator[Finding]:
    for key, known in sorted(damaged_keys(properties).items()):
        yield Finding(
            "properties.key",
            f"{PROPERTIES} has the unknown key {key!r} and lacks {known}, which differs in one character",
            paths=(PROPERTIES,),
            details={"key": key, "expected": known},
        )
    for key, choices in sorted(invalid_properties(properties).items()):
        yield Finding(
            "properties.value",
            f"{PROPERTIES} has {key}={properties[key]!r}; known are {', '.join(choices)}",
            paths=(PROPERTIES,),
            details={"key": key, "found": properties[key], "known": list(choices)},
        )
    config = TableConfig(properties)
    layouts = LAYOUTS_OF_VERSION.get(config.version)
    if layouts is None or config.layout not in layouts:
        shown = properties.get("hoodie.table.version", "none")
        yield Finding(
            "properties.version",
            f"the table has hoodie.table.version={shown} and timeline layout {config.layout}; read are 2 to 6 (layouts "
            "0 and 1), 8 and 9 (layout 2)",
            paths=(PROPERTIES,),
            details={"version": shown, "layout": config.layout},
        )


def check_contradictions(facts: Facts) -> Iterator[Finding]:
    """Yields findings about properties that contradict timeline and files."""
    config, timeline = facts.table, facts.active
    deltas = [i.time for i in timeline.instants if i.action in (Action.DELTA_COMMIT, Action.COMPACTION)]
    logs = [] if config.is_mor else _newest_logs(facts)
    if not config.is_mor and (deltas or logs):
        yield Finding(
            "properties.foreign",
            f"hoodie.table.type is COPY_ON_WRITE, but the table has {len(deltas)} delta commits and compactions and "
            f"{len(logs)} log files, such as {(deltas or logs)[0]}",
            paths=(PROPERTIES,),
            details={"key": "hoodie.table.type"},
        )
    other = TIMELINE if config.layout < 2 else META_FOLDER
    layout = Layout(2 if config.layout < 2 else 1, other)
    names = [info.name for info in facts.storage.list(other) if not info.is_dir and layout.parse(info.name)]
    if names and other != timeline.layout.folder:
        yield Finding(
            "properties.foreign",
            f"the timeline is in {timeline.layout.folder} (hoodie.timeline.layout.version={config.layout}), but "
            f"{other} has {len(names)} instants too, such as {names[0]}",
            paths=(PROPERTIES, other),
            details={"key": "hoodie.timeline.layout.version"},
        )


def _newest_logs(facts: Facts) -> list[str]:
    """Returns the logs of the newest file slices; earlier ones may be from before a change of the table's type."""
    view = facts.view
    return [log.path for path in view.partitions() for slice_ in view.latest_slices(path) for log in slice_.log_files]


def _is_state(name: str) -> bool:
    return Layout(2, "").parse(name) is not None or Layout(1, "").parse(name) is not None
