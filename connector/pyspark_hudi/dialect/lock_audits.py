"""The procedures of the audit of the table lock (`SetAuditLockProcedure`, `ShowAuditLockStatusProcedure`,
`ValidateAuditLockProcedure`, `CleanupAuditLockProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hudi_py.errors import ConfigError
from pyspark_hudi import calls
from pyspark_hudi.dialect.procedure import Given, Procedure, Rows, needed
from pyspark_hudi.dialect.tables import StatementTarget

_STATES: Final = ("enabled", "disabled")


def _name(given: Given) -> str:
    """Returns the table as the call names it."""
    return str(given["table"] or given["path"])


def _set_state(target: StatementTarget, given: Given) -> Rows:
    state = needed(given, "state").lower()
    if state not in _STATES:
        raise ConfigError(f"Cannot call set_audit_lock with state => {given['state']!r}; supported: enabled, disabled")
    target.call(calls.set_audit, state == _STATES[0])
    yield _name(given), state, f"Lock audit logging successfully {state}"


def _show_status(target: StatementTarget, given: Given) -> Rows:
    enabled, config, folder = target.call(calls.audit_status)
    base = (target.path if given["path"] or ":" in target.path else f"file:{target.path}").rstrip("/")
    yield _name(given), enabled, f"{base}/{config}", f"{base}/{folder}"


def _validate(target: StatementTarget, given: Given) -> Rows:
    report = target.call(calls.validate_audit)
    yield _name(given), report.result, report.num_transactions, report.num_issues, report.details


def _clean_up(target: StatementTarget, given: Given) -> Rows:
    days, dry_run = given["age_days"], bool(given["dry_run"])
    any_, count = target.call(calls.clean_up_audit, days, dry_run)
    if not any_:
        text = "No audit folder found - nothing to cleanup"
    elif not count:
        text = f"No audit files older than {days} days found"
    else:
        done = "Dry run: Would delete" if dry_run else "Successfully deleted"
        text = f"{done} {count} audit files older than {days} days"
    yield _name(given), count, dry_run, days, text


_OF_TABLE: Final = {"table": None, "path": None}
AUDIT_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "set_audit_lock": Procedure(
        {**_OF_TABLE, "state": None}, "`table` STRING, audit_state STRING, message STRING", _set_state
    ),
    "show_audit_lock_status": Procedure(
        _OF_TABLE,
        "`table` STRING, audit_enabled BOOLEAN, config_path STRING, audit_folder_path STRING",
        _show_status,
    ),
    "validate_audit_lock": Procedure(
        _OF_TABLE,
        "`table` STRING, validation_result STRING, transactions_validated INT, issues_found INT, details STRING",
        _validate,
    ),
    "cleanup_audit_lock": Procedure(
        {**_OF_TABLE, "dry_run": False, "age_days": 7},
        "`table` STRING, files_cleaned INT, dry_run BOOLEAN, age_days INT, message STRING",
        _clean_up,
    ),
}
