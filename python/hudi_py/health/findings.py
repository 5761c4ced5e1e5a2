"""The result of an examination: findings, in order of harm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hudi_py.errors import Interface
from hudi_py.health.codes import CODES, Severity
from hudi_py.model.words import Spoken, counted


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Spoken):
    """One problem of a table."""

    code: str
    """Stable name, see docs/doctor.md."""
    what: str
    """Description, with paths, instants and numbers."""
    instant: str | None = None
    """Requested time of the instant concerned."""
    partition: str | None = None
    paths: tuple[str, ...] = ()
    """Files concerned, relative to the table."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further evidence, ready for JSON."""

    @property
    def severity(self) -> Severity:
        return CODES[self.code].severity

    @property
    def consequence(self) -> str:
        return CODES[self.code].consequence

    @property
    def remedy(self) -> str:
        """The call that repairs it, or what to do if no call can."""
        return CODES[self.code].remedy

    def remedy_for(self, interface: Interface) -> str:
        """Returns the remedy in the terms of an interface."""
        return CODES[self.code].worded(interface)

    @property
    def subject(self) -> tuple[object, ...]:
        """Returns what identifies the same finding in a later examination."""
        return (self.code, self.instant, self.partition, self.paths)

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {
            "code": self.code,
            "severity": self.severity.word,
            "what": self.what,
            "consequence": self.consequence,
            "remedy": self.remedy,
            "instant": self.instant,
            "partition": self.partition,
            "paths": list(self.paths),
            "details": dict(self.details),
        }

    def _text(self) -> str:
        return f"{self.severity.word}: {self.what} [{self.code}]"


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Spoken):
    """What the doctor found in a table."""

    uri: str
    """The table's base path, without credentials."""
    findings: tuple[Finding, ...] = ()
    """The findings, most harmful first."""
    checked: tuple[str, ...] = ()
    """What was examined, such as `keys: 4 of 12 partitions`."""
    skipped: tuple[str, ...] = ()
    """What could not be examined, and why."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Releases of hudi-py, Python and the libraries, and what Spark would load."""
    full: bool = False
    """Whether every row was examined, not a sample."""

    @property
    def healthy(self) -> bool:
        """Returns whether no finding is a warning or worse."""
        return all(finding.severity < Severity.WARNING for finding in self.findings)

    @property
    def worst(self) -> Severity | None:
        """Returns the severity of the most harmful finding; None if there is none."""
        return max((finding.severity for finding in self.findings), default=None)

    def of(self, *codes: str) -> tuple[Finding, ...]:
        """Returns the findings with one of these codes."""
        return tuple(finding for finding in self.findings if finding.code in codes)

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {
            "uri": self.uri,
            "healthy": self.healthy,
            "full": self.full,
            "findings": [finding.to_dict() for finding in self.findings],
            "checked": list(self.checked),
            "skipped": list(self.skipped),
            "environment": dict(self.environment),
        }

    def _text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        bad = sum(finding.severity >= Severity.WARNING for finding in self.findings)
        yield f"{self.uri}: " + ("healthy" if self.healthy else counted(bad, "finding") + " to fix")
        for finding in self.findings:
            yield f"  {finding}"
            yield f"    {finding.consequence} To fix: {finding.remedy}"
        for reason in self.skipped:
            yield f"  not examined: {reason}"
