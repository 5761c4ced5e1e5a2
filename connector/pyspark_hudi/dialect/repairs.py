"""The procedures that change the metadata table, or write files of the caller (`CreateMetadataTableProcedure`,
`InitMetadataTableProcedure`, `DeleteMetadataTableProcedure`, `ExportInstantsProcedure`, Apache Hudi 1.2.0), and
those of the audit of the table lock (`SetAuditLockProcedure`, `ShowAuditLockStatusProcedure`,
`ValidateAuditLockProcedure`, `CleanupAuditLockProcedure`)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Final

from hudi_py.errors import ConfigError
from hudi_py.wiring import IndexChange
from pyspark_hudi import calls
from pyspark_hudi.dialect.descriptors import EXPORT, EXPORTED, Given, Procedure, Rows, needed, rows_of
from pyspark_hudi.dialect.tables import StatementTarget


def _change_seconds(target: StatementTarget, action: str) -> float:
    """Returns how many seconds an action took."""
    begun = time.monotonic()
    target.call(calls.change_index, IndexChange(action))
    return round(time.monotonic() - begun, 3)


def _metadata_place(target: StatementTarget) -> str:
    path = target.path if ":" in target.path else f"file:{target.path}"
    return f"{path.rstrip('/')}/.hoodie/metadata"


def _create_metadata(target: StatementTarget, given: Given) -> Rows:
    taken = _change_seconds(target, "make")
    yield (f"Created Metadata Table in {_metadata_place(target)} (duration={taken}secs)",)


def _init_metadata(target: StatementTarget, given: Given) -> Rows:
    if given["read_only"]:
        names = target.config.properties.get("hoodie.table.metadata.partitions")
        if not names:
            raise ConfigError(
                f"Cannot open the metadata table of {target.shown}: there is none; CALL create_metadata_table makes one"
            )
    taken = 0.0 if given["read_only"] else _change_seconds(target, "complete")
    action = "Opened" if given["read_only"] else "Initialized"
    yield (f"{action} Metadata Table in {_metadata_place(target)} (duration={taken}sec)",)


def _delete_metadata(target: StatementTarget, given: Given) -> Rows:
    _change_seconds(target, "remove")
    yield (f"Deleted Metadata Table at '{_metadata_place(target)}'",)


def _export_instants(target: StatementTarget, given: Given) -> Rows:
    """Exports instants to a folder of the process that runs CALL, one file each."""
    folder = needed(given, "local_folder")
    if not os.path.isdir(folder):
        raise ConfigError(
            f"Cannot export instants of {target.shown} to {folder}: it is not a folder of this machine; create it, or "
            "name another"
        )
    rows = rows_of(target, EXPORT, given)
    for name, content in rows:
        with open(os.path.join(folder, os.path.basename(name)), "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
    yield (f"Exported {len(rows)} Instants to {folder}",)


_RESULT: Final = "result STRING"
REPAIR_PROCEDURES: Final = {
    "create_metadata_table": Procedure({"table": None}, _RESULT, _create_metadata),
    "init_metadata_table": Procedure({"table": None, "read_only": False}, _RESULT, _init_metadata),
    "delete_metadata_table": Procedure({"table": None}, _RESULT, _delete_metadata),
    EXPORT: Procedure(EXPORTED, "export_detail STRING", _export_instants),
}


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
