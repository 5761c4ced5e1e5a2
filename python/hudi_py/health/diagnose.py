"""Examines a table: runs the checks in order, and sorts their findings by harm. Also examines the environment: the
Python of this process, and the one that Spark would start. Starts no JVM."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import metadata as distributions
from pathlib import Path
from typing import Any, Final

from hudi_py.config import Options, Scope
from hudi_py.config.services import check_archive
from hudi_py.errors import StorageError, first_line
from hudi_py.health import files, metadata, properties, rows, timeline
from hudi_py.health.codes import CODES
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
    return _diagnosis_of(Diagnosis(storage.uri, (), tuple(facts.checked), tuple(facts.skipped), {}, full), findings)


def with_environment(diagnosis: Diagnosis) -> Diagnosis:
    """Returns the diagnosis of a table with what is found of Python, Spark and Java."""
    libraries = environment()
    findings = [*diagnosis.findings, *check_environment(libraries)]
    return _diagnosis_of(replace(diagnosis, environment=libraries), findings)


def _diagnosis_of(diagnosis: Diagnosis, findings: Iterable[Finding]) -> Diagnosis:
    """Returns a diagnosis with these findings, each once, the most harmful first."""
    unique = {(finding.code, finding.subject, finding.what): finding for finding in findings}
    ordered = sorted(
        unique.values(), key=lambda item: (-item.severity, _ORDER[item.code], item.instant or "", item.what)
    )
    return replace(diagnosis, findings=_without_repeated(ordered))


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


_PACKAGES: Final = ("pyarrow", "numpy", "fastavro", "sqlglot", "pyspark", "obstore", "pandas", "polars", "duckdb")
_WAIT_S: Final = 20
_MIN_JAVA: Final = 17
_ASK: Final = (
    "import importlib.metadata as m, importlib.util as u\n"
    "try: v = m.version('hudi-py')\n"
    "except m.PackageNotFoundError: v = 'not installed'\n"
    "s = u.find_spec('hudi_py')\n"
    "print(v, s.origin if s and s.origin else '', sep='|')\n"
)


def environment() -> dict[str, str]:
    """Returns the releases of hudi-py, Python and the libraries; of Spark's Python and its hudi-py, and of Java, if
    there are any.

    Looks into files and asks another Python, if Spark would use one.
    """
    versions = {
        "hudi-py": _library_version("hudi-py") or "not installed",
        "hudi_py": str(Path(__file__).resolve().parents[1]),
        "python": f"{platform.python_version()} ({sys.executable})",
        **{name: version for name in _PACKAGES if (version := _library_version(name))},
    }
    if "pyspark" in versions:
        python = spark_python()
        versions["spark python"] = python or "none"
        if python is not None:
            versions["spark hudi-py"] = _hudi_of(python)
        versions["java"] = java_release() or "none"
    return versions


def check_environment(versions: dict[str, str]) -> Iterator[Finding]:
    """Yields findings about the environment, from `environment`."""
    if "pyspark" not in versions:
        return
    loaded = versions.get("spark hudi-py", "").partition("|")[2]
    if loaded != str(Path(versions["hudi_py"]) / "__init__.py"):
        yield Finding(
            "environment.spark",
            f"Spark's Python is {versions['spark python']}, which loads hudi-py from {loaded or 'nowhere'}; this "
            f"process has it from {versions['hudi_py']}",
            details=versions,
        )
    release = versions["java"].split(" ")[0].partition(".")[0]
    if not release.isdecimal() or int(release) < _MIN_JAVA:
        yield Finding(
            "environment.java", f"PySpark {versions['pyspark']} needs Java {_MIN_JAVA}; found {versions['java']}"
        )


def spark_python() -> str | None:
    """Returns the interpreter that Spark starts for Python sources: `PYSPARK_PYTHON`, else `python3` on the PATH."""
    named = os.environ.get("PYSPARK_PYTHON") or "python3"
    return shutil.which(named)


def java_release() -> str | None:
    """Returns release and home of the Java that PySpark would start, from its file `release`; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        java = shutil.which("java")
        if java is None:
            return None
        home = str(Path(java).resolve().parent.parent)
    try:
        text = (Path(home) / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:  # an installation without the file, or none
        return f"unknown ({home})" if (Path(home) / "bin" / "java").exists() else None
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "JAVA_VERSION":
            return f"{value.strip(chr(34))} ({home})"
    return f"unknown ({home})"


def _library_version(name: str) -> str | None:
    try:
        return distributions.version(name)
    except distributions.PackageNotFoundError:
        return None


def _hudi_of(python: str) -> str:
    """Returns release and file of the hudi-py that an interpreter would load, separated by `|`."""
    try:
        asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}|"
    return asked.stdout.strip() if asked.returncode == 0 else f"unknown: {asked.stderr.strip()[-200:]}|"
