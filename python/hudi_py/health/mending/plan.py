"""Plans a repair: ordered steps, each described in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from hudi_py.health.findings import Diagnosis, Finding
from hudi_py.model.words import Spoken, counted, show_bytes


class StepKind(str, Enum):
    """The kinds of steps, in the order in which a repair takes them."""

    RESTORE_PROPERTIES = "restore properties"
    BREAK_LOCK = "break lock"
    REBUILD_PROPERTIES = "rebuild properties"
    REMOVE = "remove"
    RECOVER = "recover"
    UNDO_ATTEMPT = "undo attempt"
    MARK_PARTITION = "mark partition"
    QUARANTINE = "quarantine"
    DEDUPLICATE = "deduplicate"
    REBUILD_METADATA = "rebuild metadata"


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step of a repair."""

    kind: StepKind
    sentence: str
    """Description of the step."""
    findings: tuple[Finding, ...]
    """The findings that it repairs."""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {
            "kind": self.kind.value,
            "sentence": self.sentence,
            "codes": sorted({finding.code for finding in self.findings}),
        }


@dataclass(frozen=True, slots=True, repr=False)
class RepairPlan(Spoken):
    """The steps of a repair. A plan changes nothing."""

    uri: str
    steps: tuple[RepairStep, ...] = ()
    left: tuple[Finding, ...] = ()
    """Findings of severity warning or above that no step repairs."""
    full: bool = False
    """Whether the plan is based on a full examination."""

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {
            "uri": self.uri,
            "steps": [step.to_dict() for step in self.steps],
            "left": [finding.to_dict() for finding in self.left],
            "full": self.full,
        }

    def _text(self) -> str:
        lines = [f"repair of {self.uri}: " + (counted(len(self.steps), "step") if self.steps else "nothing to do")]
        lines += (f"  {number}. {step.sentence}" for number, step in enumerate(self.steps, 1))
        lines += (f"  not repaired: {finding} {finding.remedy}" for finding in self.left)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, repr=False)
class RepairReport(Spoken):
    """What a repair did."""

    id: str | None
    """Id for `undo_repair` and `forget_repair`; None if there was nothing to do."""
    done: tuple[str, ...] = ()
    """One sentence for each step."""
    num_kept: int = 0
    """Number of files that were removed or replaced, and are kept."""
    num_bytes: int = 0
    """Size of these files."""
    folder: str | None = None
    """Folder of the kept files, relative to the table."""
    rows_lost: int = 0
    """Number of rows that could not be read, and rows of logs, whose keys may still have an older version."""
    keys_lost: tuple[str, ...] = ()
    """Record keys of lost rows, as far as they could be read."""

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {
            "id": self.id,
            "done": list(self.done),
            "num_kept": self.num_kept,
            "num_bytes": self.num_bytes,
            "folder": self.folder,
            "rows_lost": self.rows_lost,
            "keys_lost": list(self.keys_lost),
        }

    def _text(self) -> str:
        if self.id is None:
            return "repair: nothing to do"
        lines = [f"repair {self.id}: {counted(len(self.done), 'step')}", *(f"  {sentence}" for sentence in self.done)]
        if self.rows_lost:
            lines.append(f"  {counted(self.rows_lost, 'row')} lost")
        lines.append(f"  {counted(self.num_kept, 'file')} of {show_bytes(self.num_bytes)} kept in {self.folder}")
        return "\n".join(lines)


_LOSING: Final = ("files.missing", "files.short", "files.replaced", "files.corrupt")
_REMOVED: Final = {
    "properties.leftover": "Remove {} of an interrupted update of the properties",
    "timeline.clean_unreadable": "Remove {} of a pending clean whose plan cannot be read",
    "files.stranger": "Remove {} that no instant of the timeline wrote",
    "files.intruder": "Remove {} that no commit wrote",
    "leftovers.markers": "Remove {} of markers",
    "leftovers.staging": "Remove {} of finished writes",
    "leftovers.heartbeats": "Remove {} of heartbeats",
    "leftovers.locks": "Remove {} of broken locks",
    "metadata.leftover": "Remove {} of the metadata table that the properties do not name",
}
_METADATA: Final = ("metadata.unusable", "metadata.files", "metadata.index", "index.record")


def plan_repair(diagnosis: Diagnosis, *, lose_rows: bool = False) -> RepairPlan:
    """Plans the steps that repair what a diagnosis found.

    Args:
        lose_rows: also give up the rows of files that are missing or cannot be read, and keep what can be read of them.
    """
    steps = sorted(_plan_steps(diagnosis, lose_rows), key=lambda step: list(StepKind).index(step.kind))
    mended = {id(finding) for step in steps for finding in step.findings}
    left = tuple(finding for finding in diagnosis.findings if finding.severity > 0 and id(finding) not in mended)
    return RepairPlan(diagnosis.uri, tuple(steps), left, diagnosis.full)


def _plan_steps(diagnosis: Diagnosis, lose_rows: bool) -> Iterator[RepairStep]:
    of = diagnosis.of
    for finding in of("properties.from_backup"):
        yield RepairStep(StepKind.RESTORE_PROPERTIES, "Restore hoodie.properties from its backup.", (finding,))
    rebuilt = of("properties.missing", "properties.damaged", "properties.key")
    if rebuilt:
        yield RepairStep(
            StepKind.REBUILD_PROPERTIES,
            "Write hoodie.properties again, with what timeline, files and metadata table prove.",
            rebuilt,
        )
    for finding in of("lock.dead"):
        sentence = f"Break the table lock of {finding.details['process'] or finding.details['owner']}."
        yield RepairStep(StepKind.BREAK_LOCK, sentence, (finding,), {"owner": finding.details["owner"]})
    for code, text in _REMOVED.items():
        for finding in of(code):
            named = counted(len(finding.paths), "file") + f" ({', '.join(finding.paths[:3])}"
            sentence = text.format(named + (", ...)" if len(finding.paths) > 3 else ")")) + "."
            yield RepairStep(StepKind.REMOVE, sentence, (finding,), {"paths": finding.paths})
    yield from _timeline_steps(diagnosis)
    for finding in of("files.no_metafile"):
        sentence = f"Write the partition metafile of {finding.partition!r}."
        yield RepairStep(StepKind.MARK_PARTITION, sentence, (finding,), {"partition": finding.partition})
    yield from _row_steps(diagnosis, lose_rows)


def _timeline_steps(diagnosis: Diagnosis) -> Iterator[RepairStep]:
    """Yields steps that finish or undo what other processes left behind."""
    of = diagnosis.of
    dead = of("timeline.dead_write", "timeline.dead_recovery")
    if dead:
        writes = ", ".join(f"{item.details['action']} {item.instant}" for item in dead)
        yield RepairStep(
            StepKind.RECOVER, f"Roll back failed writes, and finish rollbacks and restores: {writes}.", dead
        )
    for finding in of("timeline.dead_service"):
        if finding.details["action"] in ("compaction", "logcompaction", "clustering", "replacecommit"):
            sentence = f"Undo the attempt at the {finding.details['action']} {finding.instant}; its plan stays."
            yield RepairStep(StepKind.UNDO_ATTEMPT, sentence, (finding,), {"instant": finding.instant})


def _row_steps(diagnosis: Diagnosis, lose_rows: bool) -> Iterator[RepairStep]:
    """Yields steps that rewrite file groups, and the metadata table, which depends on all files."""
    of = diagnosis.of
    lost = of(*_LOSING) if lose_rows else ()
    groups = tuple(sorted({(str(item.partition), str(item.details["file_id"])) for item in lost}))
    if lost:
        yield RepairStep(
            StepKind.QUARANTINE,
            f"Write {counted(len(groups), 'file group')} again with the rows that can be read, and set the damaged "
            f"files aside: {', '.join(path for item in lost for path in item.paths)}.",
            lost,
            {"groups": groups, "paths": tuple(path for item in lost for path in item.paths)},
        )
    twice = of("keys.duplicate", "keys.across")
    unsettled = bool(of("files.intruder")) or bool(of(*_LOSING) and not lose_rows)
    if twice and not unsettled:
        result = {(str(item.partition), str(id_)) for item in twice for id_ in item.details.get("file_ids", ())}
        result |= {(str(item[0]), str(item[1])) for finding in twice for item in finding.details.get("groups", ())}
        keys = sum(int(item.details["keys"]) for item in twice)
        yield RepairStep(
            StepKind.DEDUPLICATE,
            f"Write {counted(len(result), 'file group')} again with one row for each of {counted(keys, 'key')} that "
            "they have several times.",
            twice,
            {"groups": tuple(sorted(result))},
        )
    damaged = of(*_METADATA)
    if damaged and not unsettled:
        yield _rebuild_step(damaged)


def _rebuild_step(damaged: tuple[Finding, ...]) -> RepairStep:
    """Plans to rebuild only the damaged partitions; all of them if the listing of files is damaged, since the others
    depend on it."""
    names = sorted({str(item.details.get("partition", "record_index")) for item in damaged})
    if any(item.code in ("metadata.unusable", "metadata.files") for item in damaged):
        names = []
    what = f"{', '.join(names)} of the metadata table" if names else "the metadata table"
    return RepairStep(StepKind.REBUILD_METADATA, f"Rebuild {what} from the files.", damaged, {"names": tuple(names)})
