"""Findings of the doctor: one code for each kind of problem, with its consequence and remedy.

`python -m tools.doctor_page > docs/doctor.md` generates the page from this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hudi_py.errors import Interface, Remedy


class Severity(IntEnum):
    """The harm that a finding does; the most harmful comes first in a diagnosis."""

    NOTICE = 0
    """Costs time or space, or is worth knowing. A healthy table may have notices."""
    WARNING = 1
    """Does no harm yet, or only to some readers."""
    ERROR = 2
    """Writes or services fail, or other engines read different rows."""
    CRITICAL = 3
    """Rows are lost, wrong, or cannot be read."""

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding."""

    name: str
    severity: Severity
    title: str
    consequence: str
    advice: str
    """The call that repairs it, or what to do if no call can. Names of `_CALLS` in braces stand for calls."""
    repaired: bool = False
    """Whether `Table.repair` repairs it."""

    @property
    def remedy(self) -> str:
        """The advice in the terms of the Python API."""
        return self.worded("python")

    def worded(self, interface: Interface) -> str:
        """Returns the advice in the terms of an interface."""
        return self.advice.format_map({name: call.worded(interface) for name, call in _CALLS.items()})


_CALLS: Final = {
    "repair": Remedy("table.repair(table.repair_plan())", cli="`hudi-py repair PATH`"),
    "repair_path": Remedy("hudi_py.repair(path, hudi_py.repair_plan(path))", cli="`hudi-py repair PATH`"),
    "lose_rows": Remedy("table.repair(table.repair_plan(lose_rows=True))", cli="`hudi-py repair PATH --lose-rows`"),
    "undo": Remedy("table.health.undo(id)", cli="`hudi-py repairs undo PATH ID`"),
    "forget": Remedy("table.health.forget(id)", cli="`hudi-py repairs forget PATH ID`"),
    "rollback": Remedy("table.rollback(instant)", cli="`hudi-py rollback PATH INSTANT`"),
    "compact": Remedy("table.compact()", cli="`hudi-py compact PATH`"),
    "log_compact": Remedy("table.log_compact()", cli="`hudi-py log-compact PATH`"),
    "clean": Remedy("table.clean()", cli="`hudi-py clean PATH`"),
    "upgrade": Remedy("table.upgrade()", cli="`hudi-py upgrade PATH`"),
    "cluster": Remedy("table.cluster()", cli="`hudi-py cluster PATH`"),
    "archive": Remedy("table.archive()", cli="`hudi-py archive PATH`"),
    "unschedule": Remedy("table.services.unschedule(instant)", cli="`hudi-py unschedule PATH INSTANT`"),
    "rebuild": Remedy("table.metadata.rebuild(name)", cli="`hudi-py metadata rebuild PATH NAME`"),
    "holders": Remedy("table.locks.holders()", cli="`hudi-py locks show PATH`"),
    "release": Remedy("table.locks.release(owner)", cli="`hudi-py locks break PATH OWNER`"),
}
_C, _E, _W, _N = Severity.CRITICAL, Severity.ERROR, Severity.WARNING, Severity.NOTICE

_ALL: Final = (
    # -- properties
    Code(
        "properties.missing",
        _C,
        "`hoodie.properties` is missing and there is no backup",
        "The table cannot be opened by any engine.",
        "restore it from a copy; or {repair_path} with the columns of key, partition and ordering as options: "
        "metadata table, timeline and folders prove the rest",
        True,
    ),
    Code(
        "properties.from_backup",
        _E,
        "`hoodie.properties` is missing or unreadable, its backup is whole",
        "Readers fall back to the backup. Any writer may replace it.",
        "{repair_path}",
        True,
    ),
    Code(
        "properties.damaged",
        _C,
        "`hoodie.properties` cannot be read or its checksum is wrong, and there is no whole backup",
        "The table cannot be opened.",
        "{repair_path} restores the checksum where the table's name can be proved; else restore the file from a copy",
        True,
    ),
    Code(
        "properties.leftover",
        _W,
        "an interrupted update of the properties left a file",
        "Nothing, until the properties are lost: then readers take the old ones.",
        "{repair}",
        True,
    ),
    Code(
        "properties.key",
        _C,
        "a key of `hoodie.properties` has a wrong character",
        "The key counts as absent, so Apache Hudi may merge rows in another way. hudi-py refuses the table.",
        "{repair_path}",
        True,
    ),
    Code(
        "properties.value",
        _C,
        "a property has a value that no release knows",
        "hudi-py refuses the table; Apache Hudi takes another value or fails.",
        "correct the value in .hoodie/hoodie.properties",
    ),
    Code(
        "properties.version",
        _E,
        "this release does not read the table version or its timeline layout",
        "The table cannot be opened by hudi-py.",
        "upgrade or downgrade the table with a release of Apache Hudi that reads it, or correct hoodie.table.version",
    ),
    Code(
        "properties.foreign",
        _E,
        "the properties contradict the files of the table",
        "Engines read or write the table as what it is not.",
        "correct .hoodie/hoodie.properties, or restore it from a copy",
    ),
    # -- timeline
    Code(
        "timeline.unreadable",
        _C,
        "the timeline cannot be read",
        "The table cannot be read.",
        "correct hoodie.timeline.path and hoodie.timeline.layout.version, or restore the timeline's folder from a copy",
    ),
    Code(
        "timeline.corrupt_commit",
        _C,
        "the file of a completed instant cannot be read",
        "Schema, replaced file groups and statistics of the commit are unknown. Reads and services may fail.",
        "restore the file from a copy",
    ),
    Code(
        "timeline.empty_commit",
        _W,
        "the file of a completed commit is empty",
        "Incremental queries over the commit fail; its files are not checked.",
        "restore the file from a copy",
    ),
    Code(
        "timeline.empty_newest",
        _C,
        "the file of a completed commit is empty, and no later write has a schema",
        "Columns that it added are unknown: writes are refused, and so are reads that would lose such a column. Apache "
        "Hudi loses it for good.",
        "restore the file from a copy; if its writer died before it wrote it, delete it, and the next write rolls "
        "the commit back",
    ),
    Code(
        "timeline.completed_differently",
        _E,
        "an instant has several completed files, and they differ",
        "The one with the smallest completion time counts. Engines may disagree on what the instant did.",
        "remove the completed files that no copy of the table has",
    ),
    Code(
        "timeline.twice_completed",
        _N,
        "an instant has several completed files that have the same content",
        "The smallest completion time counts. The TTL service of Apache Hudi 1.2.0 completes its instants twice.",
        "none is needed: rolling the instant back and archiving it remove all of them",
    ),
    Code(
        "timeline.plan_unreadable",
        _E,
        "the plan of a pending instant cannot be read",
        "Reads and writes that need the plan fail.",
        "restore the requested file from a copy",
    ),
    Code(
        "timeline.clean_unreadable",
        _E,
        "the plan of a pending clean cannot be read",
        "Cleans fail, and archiving stops before it.",
        "{repair} drops it: the next clean makes a new plan",
        True,
    ),
    Code(
        "timeline.no_request",
        _W,
        "an instant has begun without a requested file",
        "Apache Hudi cannot roll it back or archive it.",
        "restore the requested file from a copy; if the instant is dead, {rollback}",
    ),
    Code(
        "timeline.archive_unreadable",
        _E,
        "the archived timeline cannot be read",
        "Incremental queries over archived commits, and services that look back, fail.",
        "restore the folder of the archive from a copy",
    ),
    Code(
        "timeline.dead_write",
        _W,
        "a write is pending whose process has ended or shows no sign of life",
        "Its files take space. The next write rolls it back first, unless hoodie.clean.failed.writes.policy=NEVER.",
        "{repair}",
        True,
    ),
    Code(
        "timeline.dead_recovery",
        _W,
        "a rollback or restore was begun and not finished",
        "The table may hold files that are half undone. The next write finishes it first.",
        "{repair}",
        True,
    ),
    Code(
        "timeline.dead_service",
        _W,
        "a table service was begun, and its process has ended or shows no sign of life",
        "What it planned is not done; cleaning and archiving stop before it.",
        "{repair} undoes the attempt; then run the plan ({compact}, {clean}) or {unschedule}",
        True,
    ),
    Code(
        "timeline.running",
        _N,
        "an action is under way",
        "One writer at a time has to wait for it.",
        "wait until it is done",
    ),
    Code(
        "timeline.planned",
        _N,
        "a table service is planned and not begun",
        "Cleaning and archiving stop before it.",
        "run it: {compact}, {log_compact}, {clean}; or {unschedule}",
    ),
    Code(
        "timeline.ahead",
        _E,
        "the timeline is ahead of this machine's clock",
        "Writes are refused until the clock has caught up. New instants of other machines may come out of order.",
        "correct the clock, or the time zone (hoodie.table.timeline.timezone), or wait",
    ),
    Code(
        "timeline.order",
        _E,
        "an instant was completed before it was requested",
        "Logs may belong to the wrong file slice; incremental queries skip or repeat the commit.",
        "find the machine with the wrong clock; restore the table to a savepoint before the instant",
    ),
    Code(
        "timeline.zone",
        _W,
        "the instants were not written in this machine's time zone",
        "New instants may sort before old ones. Times in queries mean another moment.",
        "run all writers in one time zone, or in UTC with hoodie.table.timeline.timezone=UTC",
    ),
    Code(
        "timeline.long",
        _W,
        "the active timeline has far more commits than archiving keeps",
        "Each read and write lists and reads all of them.",
        "{archive}; look for old savepoints, pending plans and hoodie.archive.automatic=false",
    ),
    # -- files
    Code(
        "files.missing",
        _C,
        "a file that a completed commit wrote is missing",
        "Its rows cannot be read. Apache Hudi returns older rows, or none, without an error.",
        "restore the file from a copy or roll back the commit; {lose_rows} gives the rows up",
        True,
    ),
    Code(
        "files.short",
        _C,
        "a file that a completed commit wrote is too short",
        "Its rows cannot be read.",
        "restore the file from a copy or roll back the commit; {lose_rows} keeps what can be read",
        True,
    ),
    Code(
        "files.replaced",
        _C,
        "a base file is longer than its commit recorded: it was replaced",
        "Its rows may be others than those committed.",
        "restore the file from a copy or roll back the commit; {lose_rows} keeps what can be read",
        True,
    ),
    Code(
        "files.corrupt",
        _C,
        "a committed file cannot be read",
        "Queries that need it fail.",
        "restore the file from a copy or roll back the commit; {lose_rows} keeps what can be read",
        True,
    ),
    Code(
        "files.intruder",
        _C,
        "a base file counts as committed, although no commit wrote it",
        "Its rows are read with those of the table.",
        "{repair}",
        True,
    ),
    Code(
        "files.stranger",
        _W,
        "a data file belongs to an instant that is not on the timeline",
        "It takes space. Readers skip it, until an archived or later instant makes it count.",
        "{repair}",
        True,
    ),
    Code(
        "files.no_metafile",
        _E,
        "a partition's folder has no `.hoodie_partition_metadata`",
        "Engines that list folders do not see the partition.",
        "{repair}",
        True,
    ),
    Code(
        "files.nested_partition",
        _E,
        "a partition is inside another one",
        "Apache Hudi does not see its rows where it lists folders, nor in a metadata table that it builds.",
        "write its rows to another partition, then delete them from it",
    ),
    Code(
        "files.unknown",
        _N,
        "files in partitions have names that are not Apache Hudi's",
        "None: all engines skip them.",
        "move them away if they are not wanted",
    ),
    Code(
        "files.small",
        _N,
        "many base files are small",
        "Reads open many files; listings and the metadata table grow.",
        "larger writes, or {cluster}; hoodie.parquet.small.file.limit packs inserts into them",
    ),
    Code(
        "files.logs_waiting",
        _N,
        "logs wait for a compaction",
        "Each read merges them.",
        "{compact}",
    ),
    Code(
        "files.long_slice",
        _N,
        "a file slice has very many or large logs",
        "Reads of the slice are slow and take much memory.",
        "{compact}, or {log_compact}",
    ),
    # -- rows
    Code(
        "keys.duplicate",
        _E,
        "rows of one partition share a record key",
        "Queries return the key several times; an update changes only some of its rows.",
        "{repair} keeps the row that wins by the table's merge order",
        True,
    ),
    Code(
        "keys.partitions",
        _N,
        "a record key has rows in several partitions, in a table whose keys are unique within a partition",
        "An upsert with another partition value adds a second row instead of moving the row.",
        "nothing, if that is meant; otherwise write with a global index (hoodie.index.type=GLOBAL_SIMPLE), which moves "
        "rows, and delete the older ones",
    ),
    Code(
        "keys.across",
        _E,
        "a record key is in several partitions, although the index is global",
        "An update finds only one of the rows.",
        "{repair} keeps the row that wins by the table's merge order",
        True,
    ),
    Code(
        "index.record",
        _E,
        "the record index contradicts the rows",
        "Upserts insert known keys again or update the wrong file; look-ups by key miss rows.",
        "{repair}",
        True,
    ),
    # -- metadata table
    Code(
        "metadata.unusable",
        _E,
        "the metadata table is missing, damaged, or lacks commits",
        "hudi-py lists folders instead, which is slow; Apache Hudi fails or misses files.",
        "{repair}",
        True,
    ),
    Code(
        "metadata.files",
        _E,
        "the metadata table lists other files than the storage has",
        "Engines that use it miss files or fail on those that are gone.",
        "{repair}",
        True,
    ),
    Code(
        "metadata.index",
        _W,
        "a partition of the metadata table contradicts the files",
        "Queries may skip files that hold matching rows.",
        "{repair}",
        True,
    ),
    Code(
        "metadata.unfinished",
        _N,
        "an index was begun and is not complete",
        "Readers do not use it. It is being built beside writers, or the next write completes it.",
        "{rebuild}, or run the pending indexing again",
    ),
    Code(
        "metadata.leftover",
        _N,
        "the metadata table has folders that the properties do not name",
        "They take space.",
        "{repair}",
        True,
    ),
    # -- locks and leftovers
    Code(
        "lock.dead",
        _W,
        "the table lock is held by a process that has ended, or has expired",
        "Writers that cannot see the process, such as Apache Hudi, wait until they time out.",
        "{repair}",
        True,
    ),
    Code(
        "lock.old",
        _W,
        "another engine has held the table lock for more than an hour",
        "Writers and services fail after waiting for it.",
        "make sure that its process has ended, then {release}",
    ),
    Code(
        "lock.held",
        _N,
        "the table lock is held",
        "Writers wait for it.",
        "wait; {holders} shows the holder",
    ),
    Code(
        "leftovers.markers",
        _N,
        "markers of instants that are not pending",
        "They take space.",
        "{repair}",
        True,
    ),
    Code(
        "leftovers.staging",
        _N,
        "files of finished writes in `.hoodie/.hudi_py`",
        "They take space. The next write removes them.",
        "{repair}",
        True,
    ),
    Code(
        "leftovers.heartbeats",
        _N,
        "heartbeats of instants that are not pending",
        "Apache Hudi may take the writer for one that is alive.",
        "{repair}",
        True,
    ),
    Code(
        "leftovers.locks",
        _N,
        "files of locks that were broken",
        "None.",
        "{repair}",
        True,
    ),
    Code(
        "repair.unfinished",
        _W,
        "a repair was begun and not finished",
        "The table is between two states; what was removed is kept.",
        "{undo}",
    ),
    Code(
        "repair.kept",
        _N,
        "what an earlier repair removed is kept",
        "It takes space.",
        "{undo}, or {forget}",
    ),
    Code(
        "examination.stopped",
        _E,
        "a part of the examination was stopped by an error",
        "What it would have found is not known.",
        "fix the other findings, then examine again",
    ),
    # -- release and environment
    Code(
        "release.read_only",
        _N,
        "this release cannot write to the table",
        "Writes and services are refused.",
        "write to it with Apache Hudi, or upgrade it if its version is before 6: {upgrade}",
    ),
    Code(
        "environment.spark",
        _N,
        "Spark's Python would load another hudi-py, or none",
        '`format("hudi-py")` is not found, or behaves like another release.',
        "set PYSPARK_PYTHON to this Python, or install hudi-py where it points",
    ),
    Code(
        "environment.java",
        _N,
        "PySpark is installed without a Java that it can use",
        "Classic Spark does not start.",
        "install Java 17 or later and set JAVA_HOME",
    ),
)

CODES: Final = {code.name: code for code in _ALL}
"""Every code by name, in the order of the page."""
