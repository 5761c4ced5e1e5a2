"""`hudi-py report`: a table as a page."""

from __future__ import annotations

import os
import re
import webbrowser
from pathlib import Path

from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.screen import Screen
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import show_bytes


def report(target: CommandTarget, output: str | None, opened: bool, full: bool) -> None:
    """Writes the page, says where it is, and opens it."""
    table, screen = target.open(), Screen()
    name = re.sub(r"[^\w.-]+", "_", TableConfig(dict(table.properties)).name).strip("._") or "table"
    path = table.report(output or f"{name}-report.html", full=full)
    if target.as_json:
        screen.json({"path": path, "num_bytes": os.path.getsize(path)})
    else:
        screen.path(f"{path} ({show_bytes(os.path.getsize(path))})")
    if opened and not webbrowser.open(Path(path).as_uri()):
        screen.note("There is no browser to open it in.")
