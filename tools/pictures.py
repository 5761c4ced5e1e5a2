"""The drawings of the documents: what becomes of a table, the steps of a write, and what a read merges.

    python -m tools.pictures        # writes docs/assets/*.svg; a test fails while they are others

Lines and text have the colour of the text around them, so that a drawing follows the theme of the site, which takes it
into the page. Shown as an image, in the repository, it follows the theme of the browser.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tools.matrix import ROOT

FOLDER: Final = ROOT / "docs" / "assets"
FONT: Final = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
BLUE, GREEN, BROWN, GREY = "#4a5fe0", "#1f8a70", "#b9772d", "#8c959f"


def svg(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    """Returns a drawing of that size, with a title for people who cannot see it."""
    style = "svg.drawing{color:#1f2328}@media(prefers-color-scheme:dark){svg.drawing{color:#e6edf3}}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'font-family="{FONT}" font-size="13" fill="currentColor">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{style}</style>", *parts, "</svg>", ""])


def text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False, small: bool = False) -> str:
    """Returns one line of text, with its baseline at y."""
    more = (' font-weight="600"' if bold else "") + (' font-size="11"' if small else "")
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def table_rows(x: float, y: float, rows: Iterable[str]) -> list[str]:
    """Returns rows of a table, with columns aligned by spaces."""
    return [
        f'<text x="{x:g}" y="{y + 17 * at:g}" font-family="monospace" xml:space="preserve">{escape(row)}</text>'
        for at, row in enumerate(rows)
    ]


def box(x: float, y: float, width: float, height: float, colour: str, lines: Iterable[str] = ()) -> list[str]:
    """Returns a rounded box with centred lines of text, the first of them bold."""
    lines = list(lines)
    top = y + height / 2 - 8 * (len(lines) - 1) + 4.5
    inside = [
        text(x + width / 2, top + 16 * at, words, anchor="middle", bold=at == 0, small=at > 0)
        for at, words in enumerate(lines)
    ]
    return [
        f'{frame(x, y, width, height)} fill="{colour}" fill-opacity=".2" stroke="{colour}" stroke-width="1.5"/>',
        *inside,
    ]


def frame(x: float, y: float, width: float, height: float) -> str:
    """Returns the beginning of a rounded rectangle; its colours complete it."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"'


def line(x1: float, y1: float, x2: float, y2: float, *, arrow: bool = False, dashed: bool = False) -> str:
    """Returns a straight line; it must be horizontal or vertical if it ends in an arrow."""
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    drawn = f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="currentColor" stroke-opacity=".6" fill="none"{dash}/>'
    if not arrow:
        return drawn
    dx, dy = ((x2 > x1) - (x2 < x1)) * 7, ((y2 > y1) - (y2 < y1)) * 7
    left, right = (x2 - dx - dy / 2, y2 - dy - dx / 2), (x2 - dx + dy / 2, y2 - dy + dx / 2)
    points = f"{x2:g},{y2:g} {left[0]:g},{left[1]:g} {right[0]:g},{right[1]:g}"
    return f'{drawn}<polygon points="{points}" fill-opacity=".6"/>'


def table_life() -> str:
    """Draws two file groups over five instants: base files, logs, a compaction and a clean."""
    instants = ("commit", "deltacommit", "deltacommit", "compaction", "clean")
    did = ("first write", "upsert", "upsert, delete", "merges the slice", "removes the old slice")
    left, step, width = 108, 116, 100
    parts = [text(0, 30, "timeline", bold=True), line(left - 10, 46, left + 5 * step, 46, arrow=True)]
    for at, (instant, what) in enumerate(zip(instants, did, strict=True)):
        middle = left + at * step + width / 2
        parts += [
            text(middle, 16, instant, anchor="middle", bold=True),
            text(middle, 32, what, anchor="middle", small=True),
            f'<circle cx="{middle:g}" cy="46" r="4.5"/>',
            line(middle, 52, middle, 66, dashed=True),
        ]
    for top, group in ((76, "file group A"), (176, "file group B")):
        parts += [text(0, top + 26, group, bold=True)]
    parts += [text(0, 118, "of a partition", small=True)]

    def file(at: int, top: float, colour: str, *lines: str, faded: bool = False) -> list[str]:
        drawn = box(left + at * step, top, width, 40, colour, lines)
        return [f'<g opacity="{0.45 if faded else 1:g}">', *drawn, "</g>"]

    slices = ' fill="none" stroke="currentColor" stroke-opacity=".5"/>'
    parts += [
        frame(left - 6, 68, 3 * step - 4, 56) + slices,
        text(left, 140, "file slice 1", small=True),
        *file(0, 76, BLUE, "base file", "Parquet"),
        *file(1, 76, BROWN, "log", "updated rows"),
        *file(2, 76, BROWN, "log", "updates, deletes"),
        frame(left + 3 * step - 6, 68, width + 12, 56) + slices,
        text(left + 3 * step, 140, "file slice 2", small=True),
        *file(3, 76, BLUE, "base file", "slice 1, merged"),
        *file(4, 76, GREY, "slice 1", "its files are gone", faded=True),
        *file(0, 176, BLUE, "base file", "Parquet"),
        *file(2, 176, BROWN, "log", "updated rows"),
        text(left + 3 * step + width / 2, 201, "not due", anchor="middle", small=True),
    ]
    notes = (
        "A reader takes, of each group, the newest slice as of an instant.",
        "Time travel to the second instant reads the base files of both groups and the first log.",
    )
    parts += [text(0, 250 + 18 * at, note, small=True) for at, note in enumerate(notes)]
    return svg("What becomes of a table: file groups, slices, base files and logs over five instants", 690, 276, parts)


def write_steps() -> str:
    """Draws the steps of a write from rows to the completed instant."""
    steps = (
        ("rows", "Arrow, pandas, a DataFrame", "checked before anything is made", GREY),
        ("key", "record key and partition", "of the rows of one key one counts", GREEN),
        ("tag", "an index finds known keys", "in their file groups", GREEN),
        ("place", "new keys go to small files", "or to new file groups", GREEN),
        ("write", "base files or logs", "with markers: a failed write is undone", BLUE),
        ("commit", "under the lock: conflicts,", "metadata table, completed instant", BROWN),
        ("after it", "clean, archive, compact,", "catalogs, as options say", GREY),
    )
    parts: list[str] = []
    for at, (name, first, second, colour) in enumerate(steps):
        y = 4 + at * 54
        parts += [*box(1, y, 110, 38, colour, [name]), text(126, y + 16, first), text(126, y + 33, second, small=True)]
        if at:
            parts.append(line(56, y - 15, 56, y - 1, arrow=True))
    brace = 410
    for top, bottom, words in (
        (4, 4 + 3 * 54 + 38, ("nothing of the table", "has changed")),
        (4 + 4 * 54, 4 + 4 * 54 + 38, ("readers see", "none of it")),
        (4 + 5 * 54, 4 + 6 * 54 + 38, ("readers see", "all of it")),
    ):
        parts += [line(brace, top, brace, bottom)]
        middle = (top + bottom) / 2
        parts += [text(brace + 12, middle - 2 + 15 * row, part, small=True) for row, part in enumerate(words)]
    return svg("The steps of a write", 540, 4 + 6 * 54 + 44, parts)


def read_merge() -> str:
    """Draws how a base file and two logs become the rows of one file slice."""
    columns: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("base file", BLUE, ("a  1  12.50", "b  1   7.00", "c  1   9.00")),
        ("log 1", BROWN, ("a  2  13.00", "d  2   5.50")),
        ("log 2", BROWN, ("b  -  deleted", "a  1   1.00")),
    )
    parts = [text(0, 16, "key, ordering value, fare", small=True)]
    y = 30.0
    for name, colour, rows in columns:
        height = 28 + 17 * len(rows)
        parts += [*box(1, y, 150, height, colour), text(10, y + 17, name, bold=True)]
        parts += table_rows(10, y + 35, rows)
        parts.append(line(151, y + height / 2, 212, y + height / 2, arrow=True))
        y += height + 12
    middle = (30 + y - 12) / 2
    parts += [
        *box(214, 30, 128, y - 42, GREEN),
        *(
            text(278, middle - 20 + 18 * at, words, anchor="middle", bold=at == 0, small=at > 0)
            for at, words in enumerate(("merge by key", "the greatest", "ordering value", "counts"))
        ),
        line(342, middle, 378, middle, arrow=True),
        *box(380, middle - 42, 150, 84, GREEN),
        text(390, middle - 24, "rows of the slice", bold=True),
        *table_rows(390, middle - 4, ("a  2  13.00", "c  1   9.00", "d  2   5.50")),
        text(380, middle + 62, "then filter, columns, limit", small=True),
    ]
    return svg("How a base file and its logs become rows", 540, y, parts)


def drawn() -> dict[Path, str]:
    """Returns the text of each drawing by file."""
    return {
        FOLDER / "table-life.svg": table_life(),
        FOLDER / "write-steps.svg": write_steps(),
        FOLDER / "read-merge.svg": read_merge(),
    }


if __name__ == "__main__":
    for path, drawing in drawn().items():
        path.write_text(drawing, encoding="utf-8")
