"""Generates the page about the doctor: `python -m tools.doctor_page > docs/doctor.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from hudi_py.health.codes import CODES, Code

_HEAD = """# Doctor and repair

<!-- Written by `python -m tools.doctor_page`; change python/hudi_py/health/ instead. -->

`doctor` examines a table and lists, the most harmful first, what is wrong, with what consequence, and which
call repairs it. It only reads, and takes no lock. `repair` carries out a plan that you have seen, keeps what it
removes, and can be undone.

```python
import hudi_py

table = hudi_py.open_table("/data/trips")
# doctor(full=True) reads every row; hudi_py.doctor(path) needs no valid table
diagnosis = table.doctor()
# or diagnosis.healthy, diagnosis.findings, diagnosis.to_dict()
print(diagnosis)

plan = table.repair_plan(diagnosis)
# a sentence for each step; nothing is changed yet
print(plan)
report = table.repair(plan)
if report.id is not None:
    # or table.health.forget(report.id), which deletes what is kept
    table.health.undo(report.id)
```

For a table that cannot be opened there are `hudi_py.doctor`, `repair_plan`, `repair`, `undo_repair` and
`forget_repair`, which take its path.

## How much is read

The doctor lists the storage once and reads the metadata of all active commits, footers and log blocks of 64 files,
and the keys of four partitions, up to two million rows. It looks up a thousand keys of each partition in the record
index. `full=True` reads all rows and compares every record of the metadata table, in the memory that the keys of a
partition take (with a record index, those of the table). Other writers may go on meanwhile: what they are doing may
show as a finding that is gone the next time.

## What a repair does

- A plan repairs what the examination has seen: after `doctor(full=True)`, everything.
- It examines the table again under the table lock and refuses if the plan no longer holds. Steps that only change
  files happen under this lock. Rollbacks, new commits and the metadata table follow, each under the lock as always.
- What it removes or replaces is kept in `.hoodie/.hudi_py_repair/<id>`, which no engine lists, until `forget_repair`.
- `undo_repair` brings the former bytes back, as long as nothing was written to the table since. Readers may see a
  state in between. A repair that was killed is undone in the same way. A broken lock does not come back. On object
  stores files get a new modification time, which in table version 6 is the completion time of instants.
- Of several rows with one key, the one with the greatest ordering value stays, or the last one written. The file
  groups that had such keys are written again as one commit, so an incremental query returns their rows.
- Files that are missing or cannot be read are repaired only with `repair_plan(lose_rows=True)`: their file groups are
  written again with the rows that can be read, and `RepairReport` has the number of lost rows, and their keys as far
  as they could be read. Without a base file, its rows are lost; without a log, older versions of its rows return.
- Lost properties are written again from the metadata table, the timeline and the folders. The columns
  of record key, partition path and ordering are stored nowhere else: pass them as options, as for a new table, with an
  empty ordering field for none.
- Refused are tables that this release cannot write. Tables with indexes that hudi-py cannot keep up to date
  need them dropped before their metadata table is rebuilt.

## Severities

`critical`: rows are lost, wrong, or cannot be read. `error`: writes or services fail, or other engines read something
else. `warning`: no harm yet, or only to some readers. `notice`: costs time or space, or is worth knowing; a healthy
table may have notices.
"""


def doctor_page() -> str:
    """Renders the page as Markdown."""
    return "\n".join([_HEAD, *_tables()])


def _tables() -> Iterator[str]:
    yield "## Codes\n"
    yield "| code | severity | found | consequence | to fix |"
    yield "|---|---|---|---|---|"
    yield from (_row(code) for code in CODES.values())
    yield ""


def _row(code: Code) -> str:
    cells = (f"`{code.name}`", code.severity.word, code.title, code.consequence, code.remedy)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(doctor_page())
