"""What a run of pytest did, for scripts that add up several runs: `.ci/run` and `.ci/nightly`.

Where HUDI_PY_TALLY names a file, each test adds a line with its outcome, its seconds with set-up and teardown, and its
name. What tests count with `record_property("counted: steps", 12)` is added as lines of their own, and printed.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import Final

import pytest

COUNTED: Final = "counted: "


def keep(reporter: pytest.TerminalReporter) -> None:
    """Prints what was counted, and writes it and the tests into the file, if there is one."""
    if hasattr(reporter.config, "workerinput"):  # a process of pytest-xdist, whose reports its parent has, too
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    outcomes: dict[str, str] = {}
    counts = Counter[str]()
    for report in (report for reports in reporter.stats.values() for report in reports):
        if not isinstance(report, pytest.TestReport):
            continue
        seconds[report.nodeid] += report.duration
        if report.when == "call" or report.outcome != "passed":
            outcomes[report.nodeid] = report.outcome
        if report.when == "teardown":  # whose report has the properties of the whole test
            for name, value in report.user_properties:
                if name.startswith(COUNTED):
                    counts[name.removeprefix(COUNTED)] += int(str(value))
    if counts:
        reporter.write_line("counted: " + ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())))
    if target := os.environ.get("HUDI_PY_TALLY"):
        lines = [f"{outcomes.get(name, 'passed')}\t{took:.2f}\t{name}\n" for name, took in seconds.items()]
        lines += [f"counted\t{count}\t{name}\n" for name, count in sorted(counts.items())]
        with open(target, "a", encoding="utf-8") as file:
            file.writelines(lines)
