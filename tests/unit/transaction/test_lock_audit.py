"""The audit of the lock in an object store: what Apache Hudi's tests expect of its records."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.transaction.locks import LockAudit

START, RENEW, END = "START", "RENEW", "END"


@pytest.fixture
def table(tmp_path: Path) -> hudi_py.Table:
    hudi_py.write(str(tmp_path / "t"), [{"id": 1}], record_key="id")
    return hudi_py.open_table(str(tmp_path / "t"))


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def record(
    table: hudi_py.Table, name: str, begun: int, events: Sequence[tuple[str, int]], expires: int = 60_000
) -> Path:
    """Writes the file of a transaction, as `StorageLockProviderAuditService` does."""
    lines = (
        {
            "ownerId": name,
            "transactionStartTime": begun,
            "timestamp": timestamp,
            "state": state,
            "lockExpiration": expires,
            "lockHeld": state != END,
        }
        for state, timestamp in events
    )
    path = _path(table.locks.audit.folder) / f"{begun}_{name}.jsonl"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_it_is_enabled_and_disabled(table: hudi_py.Table) -> None:
    audit = table.locks.audit
    assert not audit.enabled
    audit.set_enabled(True)
    assert audit.enabled
    assert _path(audit.config_path).read_text() == '{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}'
    audit.set_enabled(False)
    assert not audit.enabled
    _path(audit.config_path).write_text("{")
    assert not audit.enabled


@pytest.mark.parametrize(
    ("transactions", "result", "issues"),
    [
        ([("o1", 0, [(START, 100), (RENEW, 200), (END, 300)]), ("o2", 500, [(START, 600), (END, 700)])], "PASSED", 0),
        ([("o1", 0, [(START, 100)])], "WARNING", 1),
        ([("o1", 0, [(START, 100), (END, 500)]), ("o2", 200, [(START, 300), (END, 400)])], "FAILED", 1),
        ([("o1", 0, [(START, 100)]), ("o2", 50, [(START, 150), (END, 250)])], "FAILED", 2),
        ([("o2", 2000, [(START, 200), (END, 300)]), ("o1", 0, [(START, 600), (END, 700)])], "PASSED", 0),
        ([("o1", 0, [(START, 100), (END, 300)]), ("o2", 300, [(START, 300), (END, 700)])], "PASSED", 0),
    ],
)
def test_records_are_examined(
    table: hudi_py.Table, transactions: list[tuple[str, int, list[tuple[str, int]]]], result: str, issues: int
) -> None:
    for name, begun, events in transactions:
        record(table, name, begun, events)
    found = table.locks.audit.validate()
    assert (found.result, found.num_transactions, found.num_issues) == (result, len(transactions), issues)
    counts = f"Audit Files: {len(transactions)} total, {len(transactions)} parsed successfully, 0 failed to parse"
    if result == "PASSED":
        assert found.details == f"All audit lock transactions validated successfully. {counts}"
    else:
        assert found.details.startswith(f"{counts}. ")


def test_a_lease_that_was_not_released_lasts_until_it_expires(table: hudi_py.Table) -> None:
    record(table, "o1", 1000, [(START, 1100)], expires=1200)
    record(table, "o2", 1300, [(START, 1400), (END, 1500)])
    found = table.locks.audit.validate()
    assert (found.errors, len(found.warnings)) == ((), 1)
    assert "1000_o1.jsonl => transaction did not end gracefully" in found.details
    assert found.to_dict()["result"] == "WARNING"


def test_damaged_records(table: hudi_py.Table) -> None:
    audit = table.locks.audit
    assert audit.validate().details == "No audit folder found - nothing to validate"
    damaged = record(table, "o1", 1000, [])
    assert audit.validate().details == "Failed to parse any audit files"
    record(table, "o2", 2000, [(START, 2100), (END, 2200)])
    found = audit.validate()
    assert (found.result, found.num_transactions, found.num_issues) == ("FAILED", 1, 1)
    assert "[ERROR] Failed to parse audit file: 1000_o1.jsonl" in str(found)
    damaged.write_bytes(b"\xff{}")
    assert audit.validate().num_transactions == 1
    for path in _path(audit.folder).iterdir():
        path.unlink()
    assert audit.validate().details == "No audit files found - nothing to validate"


def test_old_records_are_deleted(table: hudi_py.Table) -> None:
    audit = table.locks.audit
    assert audit.clean_up() == []
    old, new = (record(table, name, 1, [(START, 1)]) for name in ("old", "new"))
    then = time.time() - 10 * 86_400
    os.utime(old, (then, then))
    (_path(audit.folder) / "other.txt").touch()
    assert audit.clean_up(11) == []
    assert audit.clean_up(dry_run=True) == [old.name]
    assert old.exists()
    assert audit.clean_up() == [old.name]
    assert not old.exists()
    assert new.exists()
    for days in (0, -1):
        with pytest.raises(ConfigError, match="age_days must be a positive integer"):
            audit.clean_up(days)


def test_it_takes_no_part_in_the_lock(table: hudi_py.Table) -> None:
    table.locks.audit.set_enabled(True)
    table.upsert([{"id": 2}])
    assert isinstance(table.locks.audit, LockAudit)
    assert table.locks.audit.validate().num_files == 0
