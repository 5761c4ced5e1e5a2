"""The chart of the README, drawn from figures that `python -m benchmarks --out` wrote.

    python -m benchmarks.chart        # from benchmarks/baselines/tpch-sf1.json to docs/assets/speed.svg

A test fails where the chart is not that of the stored figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parent.parent
FIGURES: Final = ROOT / "benchmarks" / "baselines" / "tpch-sf1.json"
CHART: Final = ROOT / "docs" / "assets" / "speed.svg"
ROWS: Final = {
    "upsert of 5 %, mor": "Upsert of 300,000 rows, merge on read",
    "upsert of 5 %, cow": "Upsert of 300,000 rows, copy on write",
    "bulk insert, cow": "Bulk insert of 6 million rows",
    "all, mor, 5 % in logs": "Read of all rows, 300,000 of them in logs",
}
ENGINES: Final = {
    "Apache Hudi": ("Apache Hudi 1.2.0 in Spark", "hudi"),
    "hudi-rs": ("hudi-rs 0.5.0", "rs"),
    "hudi-py (enabled)": ("hudi-py in Spark", "spark"),
    "hudi-py (core)": ("hudi-py in Python", "core"),
}
STYLE: Final = (
    "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:13px;fill:#1f2328}"
    ".title{font-weight:600}.hudi{fill:#8c959f}.rs{fill:#b58a5a}.spark{fill:#3346c4}.core{fill:#1f8a70}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.hudi{fill:#6e7681}.rs{fill:#a67c4d}.spark{fill:#8c9bff}"
    ".core{fill:#3fb99a}}"
)
WIDTH: Final = 720
LABELS: Final = 190
BAR: Final = 18


def chart(seconds: dict[str, dict[str, float]]) -> str:
    """Draw seconds as bars in SVG, a group for each row, which follow a light or dark theme."""
    scale = (WIDTH - LABELS - 60) / max(
        seconds[row][engine] for row in ROWS for engine in ENGINES if engine in seconds[row]
    )
    parts, y = [], 18
    for row, title in ROWS.items():
        parts.append(f'<text class="title" x="0" y="{y}">{escape(title)}</text>')
        y += 8
        for engine, (name, style) in ENGINES.items():
            value = seconds[row].get(engine)
            if value is None:
                continue
            length = max(value * scale, 1)
            parts += [
                f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>',
                f'<rect class="{style}" x="{LABELS}" y="{y + 2}" width="{length:.1f}" height="{BAR - 4}" rx="2"/>',
                f'<text x="{LABELS + length + 6:.1f}" y="{y + 13}">{value:.1f} s</text>',
            ]
            y += BAR
        y += 26
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 20}" role="img">'
    return "\n".join(
        [head, "<title>Seconds of hudi-py and of others</title>", f"<style>{STYLE}</style>", *parts, "</svg>", ""]
    )


def drawn() -> str:
    """Draw the stored figures."""
    return chart(json.loads(FIGURES.read_text(encoding="utf-8"))["seconds"])


if __name__ == "__main__":
    CHART.write_text(drawn(), encoding="utf-8")
