"""Examines the metadata table against the storage."""

from __future__ import annotations

from collections.abc import Iterator

from hudi_py.errors import HudiError, StorageError, first_line
from hudi_py.health.facts import Facts, is_data
from hudi_py.health.findings import Finding
from hudi_py.metadata.files import read_files
from hudi_py.metadata.keys import ALL_PARTITIONS, partition_key, partition_of_key
from hudi_py.metadata.table import FILES, MetadataTable, open_metadata
from hudi_py.metadata_write.maintenance.verify import compare
from hudi_py.metadata_write.partitions.registry import maintained_names
from hudi_py.model.layout import META_FOLDER, METADATA_TABLE
from hudi_py.model.names import join_path, parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.timeline.state import TableState

_NAMED = 10


def check_metadata(facts: Facts) -> Iterator[Finding]:
    """Yields findings about the metadata table from a comparison of listings, or of all records in a full
    examination."""
    yield from _leftover(facts)
    yield from check_complete(facts.table)
    metadata, listed, unusable = examined(facts.state, listing=True)
    if unusable is not None:
        yield unusable
    if metadata is None:
        return
    facts.checked.append("metadata table: files")
    different = list(_listings(facts, listed))
    yield from different
    if facts.full:
        yield from _records(facts, metadata, skip_files=bool(different))


def check_complete(config: TableConfig) -> Iterator[Finding]:
    """Returns the finding about partitions that were begun but not completed."""
    unfinished = sorted({*config.metadata_partitions_inflight, *config.metadata_partitions_to_make})
    if unfinished:
        yield Finding(
            "metadata.unfinished",
            f"{', '.join(unfinished)} of the metadata table were begun and are not complete",
            details={"partitions": unfinished},
        )


def examined(
    state: TableState, *, listing: bool
) -> tuple[MetadataTable | None, dict[str, dict[str, int]], Finding | None]:
    """Opens the metadata table, and with `listing` its list of files; None and a finding if readers ignore it."""
    try:
        metadata = open_metadata(state)
        if metadata is None:
            return None, {}, None
        metadata.check()
        return metadata, read_files(metadata) if listing else {}, None
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError) as error:
        reason = f"the metadata table cannot be used: {first_line(error)}"
        return None, {}, Finding("metadata.unusable", reason, paths=(METADATA_TABLE,))


def _leftover(facts: Facts) -> Iterator[Finding]:
    config = facts.table
    named = {*config.metadata_partitions, *config.metadata_partitions_inflight, *config.metadata_partitions_to_make}
    folders = [info.name for info in facts.storage.list(METADATA_TABLE) if info.is_dir and info.name != META_FOLDER]
    with_files = [name for name in folders if name not in named and facts.storage.list(f"{METADATA_TABLE}/{name}")]
    if with_files:
        yield Finding(
            "metadata.leftover",
            f"the properties do not name {', '.join(with_files)}, which {METADATA_TABLE} has",
            paths=tuple(f"{METADATA_TABLE}/{name}" for name in with_files) if named else (METADATA_TABLE,),
        )


def _listings(facts: Facts, listed: dict[str, dict[str, int]]) -> Iterator[Finding]:
    """Compares the files of completed commits in the metadata table's listing with the storage."""
    timeline = facts.active
    pending: set[str] = {instant.time for instant in timeline.pending}
    here = set(facts.view.partitions())
    there = {partition_of_key(key) for key in listed.get(ALL_PARTITIONS, {})}
    for partition in sorted(here | there):
        recorded = listed.get(partition_key(partition), {})
        files = {info.name: info.size for info in facts.folders.get(partition, ()) if is_data(info)}
        gone = [name for name in recorded if name not in files and _counts(facts, join_path(partition, name), pending)]
        new = [name for name in files if name not in recorded and _counts(facts, join_path(partition, name), pending)]
        shorter = [name for name, size in recorded.items() if name in files and files[name] < size]
        if gone or new or shorter or (partition not in there and files):
            yield Finding(
                "metadata.files",
                f"the metadata table lists {counted(len(gone), 'file')} of partition {partition!r} that are not there, "
                f"lacks {len(new)}, and has {len(shorter)} with a greater size: "
                + ", ".join((gone + new + shorter)[:_NAMED]),
                partition=partition,
                details={"gone": len(gone), "lacking": len(new), "longer": len(shorter)},
            )


def _counts(facts: Facts, path: str, pending: set[str]) -> bool:
    """Returns whether both sides must agree on a file: a completed commit wrote it, as far as is known."""
    name = path.rpartition("/")[2]
    log = parse_log_file_name(name)
    parsed = log or parse_base_file_name(name)
    if parsed is None or (log is not None and log.cdc) or parsed.instant in pending:
        return False
    if (
        log is not None and not facts.table.logs_named_by_instant
    ):  # its name has the base instant, and rollbacks write logs too
        return path in facts.written_by_any
    written = facts.written.get(parsed.instant)
    return facts.active.is_committed(parsed.instant) if written is None else path in written


def _records(facts: Facts, metadata: MetadataTable, *, skip_files: bool) -> Iterator[Finding]:
    known = maintained_names(facts.storage, facts.table, facts.table.metadata_partitions)
    names = [name for name in known if not (skip_files and name == FILES)]
    for check in compare(facts.state, metadata, facts.options, names, facts.progress):
        if not check.ok:
            code = "index.record" if check.partition == "record_index" else "metadata.index"
            yield Finding(
                code, f"the partition {check}; {'; '.join(check.examples)}", details={"partition": check.partition}
            )
    facts.checked.append(f"metadata table: records of {', '.join(names)}")
