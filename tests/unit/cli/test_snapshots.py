"""What people see: texts of commands over golden tables, in terminals of several widths.

`HUDI_PY_SNAPSHOTS=write` writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hudi_py.cli import overview
from tests.golden.tables import Extracted
from tests.unit.cli.conftest import Run

FOLDER = Path(__file__).parent / "snapshots"
NOW_MS = 1_800_000_000_000

CASES = {
    "show_80": (80, "v9_mor_record_index", "show"),
    "show_savepoint_80": (80, "v9_mor_savepoint_restore", "show"),
    "show_pending_plan_80": (80, "v6_mor_compaction_pending", "show"),
    "show_read_only_60": (60, "v9_cow_schema_on_read", "show"),
    "timeline_80": (80, "v9_mor_compaction", "timeline"),
    "timeline_pending_120": (120, "v9_mor_inflight", "timeline"),
    "timeline_40": (40, "v6_mor_ops", "timeline -n 3"),
    "files_80": (80, "v9_mor_event_time", "files"),
    "files_120": (120, "v9_mor_event_time", "files --logs"),
    "partitions_80": (80, "v9_cow_multi_partition", "partitions"),
    "schema_80": (80, "v9_cow_all_types", "schema"),
    "stats_80": (80, "v9_mor_event_time", "stats"),
    "plans_80": (80, "v6_mor_compaction_pending", "plans"),
    "savepoints_80": (80, "v9_mor_savepoint_restore", "savepoint list"),
    "read_80": (80, "v9_cow_all_types", "read -n 3"),
    "read_40": (40, "v9_cow_all_types", "read -n 3"),
    "read_meta_120": (120, "v9_mor_event_time", "read --meta -n 2"),
    "explain_80": (80, "v9_mor_event_time", "explain"),
    "clean_dry_run_80": (80, "v9_mor_record_index", "clean --dry-run -o hoodie.clean.commits.retained=1"),
    "compact_dry_run_80": (80, "v9_mor_event_time", "compact --dry-run"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_people_see(name: str, golden: Extracted, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    width, table, command = CASES[name]
    terminal = {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": str(width), "LINES": "50"}
    for key, value in terminal.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(overview, "wall_clock_ms", lambda: NOW_MS)
    monkeypatch.chdir(golden(table).parent)
    words = command.split()
    at = 2 if words[0] == "savepoint" else 1
    given = [*words[:at], table, *words[at:]]
    out = cli(*given).out.replace(golden(table).as_uri(), f"file:///data/{table}")
    text = f"$ hudi-py {' '.join(given)}\n" + re.sub(r" +$", "", out, flags=re.MULTILINE)
    kept = FOLDER / f"{name}.txt"
    if os.environ.get("HUDI_PY_SNAPSHOTS") == "write":
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")
    assert all(len(line) <= width for line in text.splitlines()[1:] if "/data/" not in line)


def test_no_snapshot_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CASES)
