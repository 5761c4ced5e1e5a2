"""The chart of the README, drawn from figures that `python -m benchmarks --out` wrote.

    python -m benchmarks.chart        # from benchmarks/baselines/tpch-sf1.json to docs/assets/speed.svg

A test fails where the chart is not that of the stored figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tools.pictures import BLUE, BROWN, FOLDER, GREEN, GREY, svg, text

FIGURES: Final = Path(__file__).with_name("baselines") / "tpch-sf1.json"
CHART: Final = FOLDER / "speed.svg"
ROWS: Final = {
    "upsert of 5 %, mor": "Upsert of 300,000 rows, merge on read",
    "upsert of 5 %, cow": "Upsert of 300,000 rows, copy on write",
    "bulk insert, cow": "Bulk insert of 6 million rows",
    "all, mor, 5 % in logs": "Read of all rows, 300,000 of them in logs",
}
ENGINES: Final = {
    "Apache Hudi": ("Apache Hudi 1.2.0 in Spark", GREY),
    "hudi-rs": ("hudi-rs 0.5.0", BROWN),
    "hudi-py (enabled)": ("hudi-py in Spark", BLUE),
    "hudi-py (core)": ("hudi-py in Python", GREEN),
}
WIDTH: Final = 560
LABELS: Final = 192
BAR: Final = 18


def chart(seconds: dict[str, dict[str, float]]) -> str:
    """Draws seconds as bars, a group for each row."""
    measured = {row: {name: seconds[row][name] for name in ENGINES if name in seconds[row]} for row in ROWS}
    scale = (WIDTH - LABELS - 54) / max(max(values.values()) for values in measured.values())
    parts, y = [], 18
    for row, values in measured.items():
        parts.append(text(0, y, ROWS[row], bold=True))
        y += 8
        for engine, value in values.items():
            name, colour = ENGINES[engine]
            length = round(max(value * scale, 1), 1)
            parts += [
                text(LABELS - 8, y + 13, name, anchor="end"),
                f'<rect x="{LABELS}" y="{y + 2}" width="{length:g}" height="{BAR - 4}" rx="2" fill="{colour}"/>',
                text(LABELS + length + 6, y + 13, f"{value:.1f} s"),
            ]
            y += BAR
        y += 26
    return svg("Seconds of hudi-py, Apache Hudi and hudi-rs", WIDTH, y - 20, parts)


def drawn() -> str:
    """Draws the stored figures."""
    return chart(json.loads(FIGURES.read_text(encoding="utf-8"))["seconds"])


if __name__ == "__main__":
    CHART.write_text(drawn(), encoding="utf-8")
