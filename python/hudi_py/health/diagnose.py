"""Examines a table: runs the checks in order, and sorts their findings by harm."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hudi_py.config import Options, Scope
from hudi_py.config.services import check_archive
from hudi_py.errors import StorageError, first_line
from hudi_py.health import files, metadata, properties, rows, timeline
from hudi_py.health.codes import CODES
from hudi_py.health.environment import check_environment, environment
from hudi_py.health.facts import ExaminationLimits, Facts
from hudi_py.health.findings import Diagnosis, Finding
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.progress import Progress
from hudi_py.storage import Storage
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.write.table.support import read_only_reason

_ORDER = {name: number for number, name in enumerate(CODES)}
Check = Callable[[Facts], Iterator[Finding]]
_OF_TIMELINE: tuple[Check, ...] = (
    properties.check_contradictions,
    timeline.check_contents,
    timeline.check_pending,
    timeline.check_clock,
    timeline.check_length,
)
_NEED_SLICES: tuple[Check, ...] = (
    files.check_files,
    files.check_contents,
    files.check_sizes,
    rows.check_rows,
    metadata.check_metadata,
)


def diagnose(
    storage: Storage,
    options: Mapping[str, Any] | None = None,
    *,
    full: bool = False,
    with_environment: bool = True,
    limits: ExaminationLimits | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Examines a table, even one that cannot be opened. Changes nothing and takes no lock.

    Lists the storage once. Writes that go on meanwhile may show as findings: examine again.

    Args:
        options: options of writes, which name the lock and what archiving, compaction and small files are held
            against.
        full: read every row and every record of the metadata table; otherwise a sample, see `ExaminationLimits`.
        with_environment: whether to look at Python, Spark and Java too.

    Raises:
        TableNotFoundError: there is no table.
        ConfigError: an option is unknown or not valid.
    """
    resolved = Options.resolve(options, Scope.WRITE)
    for check in (check_archive, TransactionSettings.of, MetadataTableWriter):
        check(resolved)  # invalid options are no finding about the table
    facts = Facts(
        storage,
        resolved,
        dict(options or {}),
        storage_options,
        full,
        limits or ExaminationLimits(),
        progress or Progress.silent(),
        time.time_ns() // 1_000_000,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damage becomes findings
        findings = list(_of_table(facts))
    libraries = environment() if with_environment else {}
    findings += check_environment(libraries) if with_environment else ()
    unique = {(finding.code, finding.subject, finding.what): finding for finding in findings}
    ordered = sorted(
        unique.values(), key=lambda item: (-item.severity, _ORDER[item.code], item.instant or "", item.what)
    )
    return Diagnosis(
        storage.uri,
        _without_repeated(ordered),
        tuple(facts.checked),
        tuple(facts.skipped),
        libraries,
        full,
    )


def _of_table(facts: Facts) -> Iterator[Finding]:
    facts.progress.phase("reading properties and timeline")
    yield from properties.check_properties(facts)
    yield from _guarded_check(timeline.check_locks, facts)
    if facts.config is not None:
        yield from _guarded_check(timeline.check_readable, facts)
    yield from _guarded_check(timeline.check_leftovers, facts)
    if facts.config is None or facts.timeline is None:
        facts.skipped.append("files, rows and metadata table: properties or timeline cannot be read")
        return
    reason = read_only_reason(facts.config)
    if reason is not None:
        yield Finding("release.read_only", reason)
    for check in _OF_TIMELINE:
        yield from _guarded_check(check, facts)
    facts.progress.phase("listing files")
    why = files.check_slices(facts)
    if why:
        facts.skipped.append(f"files, rows and metadata table: {why}")
        return
    for check in _NEED_SLICES:
        yield from _guarded_check(check, facts)


def _guarded_check(check: Check, facts: Facts) -> Iterator[Finding]:
    """Yields the findings of a check. If the examined file stops the check, that is a finding itself, and the other
    checks go on."""
    try:
        yield from check(facts)
    except StorageError:  # not a sign of damage
        raise
    except Exception as error:  # the files of a damaged table may hold anything
        what = check.__name__.removeprefix("check_").replace("_", " ")
        yield Finding(
            "examination.stopped",
            f"the examination of {what} was stopped by an error: {type(error).__name__}: {first_line(error)}",
            details={"check": what, "error": type(error).__name__},
        )


def _without_repeated(findings: list[Finding]) -> tuple[Finding, ...]:
    """Returns findings without those that others explain: a file that cannot be read is named once."""
    lost = {
        path
        for finding in findings
        if finding.code in ("files.missing", "files.short", "files.replaced")
        for path in finding.paths
    }
    seen: set[str] = set()
    kept = []
    for finding in findings:
        if finding.code == "files.corrupt":
            if lost.intersection(finding.paths) or seen.intersection(finding.paths):
                continue
            seen.update(finding.paths)
        kept.append(finding)
    return tuple(kept)
