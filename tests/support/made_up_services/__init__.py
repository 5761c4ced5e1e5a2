"""Two services that a release might have: where their descriptions go, and what every door has to say about them.

The package is copied with their modules and the lines that name them, because Spark's workers import it, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import hudi_py
from hudi_py.errors import HudiError

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = Path(__file__).parent
PLANNED: Final = {
    "services/planned/pending.py": {
        "from hudi_py.timeline.state": "from hudi_py.services.made_up_planned import FRESHEN\n",
        "COMPACTION, LOG_COMPACTION, ": "FRESHEN, ",
    },
    "services/clustering/plan.py": {
        "    return None if plan is None or": (
            '    if plan is not None and plan.strategy == "made.up.Freshening":\n        return None\n'
        ),
    },
}
"""The modules that the service with plans touches: what is added before a text of each. Its plans are clusterings, so
the service that runs any clustering has to leave them."""
STEP: Final = {
    "services/registry.py": {
        "\nSAVEPOINT: Final": "from hudi_py.services.made_up_step import TALLY\n",
        "        ARCHIVE,\n": "        TALLY,\n",
    }
}
"""Those that the service of a single step touches."""
QUIET: Final = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


def run_with_made_up(folder: Path, script: str) -> Any:
    """What a script prints as JSON in a process that has both services. It finds `FOLDER` and may use this module."""
    copy = folder / "python" / "hudi_py"
    shutil.copytree(Path(hudi_py.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, additions in {**PLANNED, **STEP}.items():
        text = (copy / name).read_text(encoding="utf-8")
        for before, added in additions.items():
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, added + before)
        (copy / name).write_text(text, encoding="utf-8")
    for kind in ("planned", "step"):
        shutil.copy(FOLDER / f"{kind}.py", copy / "services" / f"made_up_{kind}.py")
    path = os.pathsep.join([str(copy.parent), str(ROOT), str(ROOT / "connector")])
    ran = subprocess.run(
        [sys.executable, "-c", f"FOLDER = {str(folder)!r}\n{script}"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


Door = Callable[..., Mapping[str, Any]]
"""Runs a service of the table at a path, and returns its report."""

CALLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("tally", {}),
    ("tally", {"partition": "x", "least": "1", "double": "true"}),
    ("freshen", {"phase": "schedule", "most": 1}),
    ("unschedule", {"instant": "PENDING"}),
    ("freshen", {"phase": "schedule"}),
    ("freshen", {"phase": "schedule"}),
    ("freshen", {"phase": "execute", "instant": "PENDING"}),
    ("freshen", {"phase": "execute"}),
    ("freshen", {"most": "1"}),
    ("savepoint", {"comment": "before the migration"}),
    ("delete_savepoint", {"instant": "PENDING"}),
    ("rollback", {"instant": "20200101000000000", "with_newer": "true"}),
    ("restore", {}),
    ("freshen", {"colour": "red"}),
    ("freshen", {"most": "many"}),
    ("freshen", {"phase": "execute", "instant": "20200101000000000"}),
    ("tally", {"least": "many"}),
    ("tally", {"double": "perhaps"}),
    ("tally", {"phase": "schedule"}),
    ("tally", {"instant": "20200101000000000"}),
    ("tallies", {}),
)
"""Calls of services, one after the other on a table with two file groups. PENDING: the instant of the last report."""
ANSWERS: Final = (
    {"service": "tally", "num_files": 2},
    {"service": "tally", "num_files": 2},
    {"service": "freshen", "instant": "TIME"},
    {"service": "unschedule", "instant": "TIME", "plan": "freshen"},
    {"service": "freshen", "instant": "TIME"},
    {"service": "freshen", "reason": "no file is left"},
    {"service": "freshen", "instant": "TIME", "completion_time": "TIME", "num_file_groups": 2},
    {"service": "freshen", "reason": "no plan is pending"},
    {"service": "freshen", "instant": "TIME", "completion_time": "TIME", "num_file_groups": 1},
    {
        "service": "savepoint",
        **dict.fromkeys(("instant", "completion_time", "savepoint"), "TIME"),
        **dict.fromkeys(("num_partitions", "num_files"), 2),
    },
    {
        "service": "delete_savepoint",
        **dict.fromkeys(("instant", "savepoint"), "TIME"),
        **dict.fromkeys(("num_partitions", "num_files"), 2),
    },
    (
        "Cannot roll back TIME of PATH: the active timeline has no such instant, and archived ones cannot be undone; "
        "the latest writes: TIME, TIME, TIME"
    ),
    "Cannot run the service restore without an instant; give instant='...'",
    "Cannot run the service freshen with colour: it takes most",
    "Cannot run the service freshen with most = 'many': expected a whole number, how many file groups at most",
    "Cannot run the freshen TIME of PATH: there is no such pending plan; pending: none",
    "Cannot run the service tally with least = 'many': expected a whole number, the least size to count",
    "Cannot run the service tally with double = 'perhaps': expected true or false, whether to count each twice",
    "Cannot run the phase 'schedule' of the service tally; it has no phases",
    "Cannot run the service tally with the instant 'TIME': it takes none; leave it out",
    "Cannot run the service 'tallies'; services are ...",
)
"""What each of them answers at every door: the report without what is zero or empty, or the error."""
ANNOUNCED: Final = [["replacecommit"], ["replacecommit"], ["savepoint"]]
"""The actions that are announced meanwhile."""


def make_table(path: str) -> None:
    rows = [{"id": n, "p": "xy"[n], "v": n} for n in range(2)]
    hudi_py.write(path, rows, "insert", QUIET, record_key="id", partition_by="p")


def answers(path: str, door: Door) -> list[Any]:
    """What a door answers to the calls, on a new table at a path."""
    make_table(path)
    pending, results = "", list[Any]()
    for name, given in CALLS:
        arguments = {key: pending if value == "PENDING" else value for key, value in given.items()}
        try:
            report = {key: value for key, value in door(path, name, **arguments).items() if value}
            pending = report.get("instant", pending)
            results.append(json.loads(_plain(json.dumps(report), path)))
        except HudiError as error:
            results.append(re.sub("services are .*tally.*", "services are ...", _plain(str(error), path)))
    assert hudi_py.open_table(path).scan().count() == 2
    return results


def _plain(text: str, path: str) -> str:
    return re.sub(r"\b\d{17}\b", "TIME", text.replace(f"file://{path}", "PATH"))


def _completed(uri: str) -> list[tuple[str, str]]:
    """The completed instants, with their actions."""
    rows = hudi_py.open_table(uri).instants().to_pylist()
    return [(row["instant"], row["action"]) for row in rows if row["state"] == "COMPLETED"]


@contextlib.contextmanager
def announcements() -> Iterator[list[list[str]]]:
    """The actions that are announced in the context, of each announcement that has some."""
    results: list[list[str]] = []

    @contextlib.contextmanager
    def announced(storage: Any, options: Any) -> Iterator[None]:
        before = _completed(storage.uri)
        yield
        new = _completed(storage.uri)
        results.append([each[1] for each in new if each not in before])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hudi_py.wiring.announced", announced)
        yield results
    results[:] = [actions for actions in results if actions]
