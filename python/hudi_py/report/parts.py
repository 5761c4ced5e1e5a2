"""Parts of the page: tables, bars, charts, figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hudi_py.markup import Content, Html, escaped, joined, named, raw, tag

LANE: Final = 30
"""Height of a lane of a chart, in pixels."""
_MAX_CHARACTERS: Final = 400
_WIDTH: Final = 1000


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column of a table."""

    text: str
    kind: str = ""
    """`right` for numbers, `bar` for bars, `span` for bars over time, `wrap` for text that may wrap."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A rectangle in a drawing of width 1,000."""

    x: float
    width: float
    kind: str
    """The class of its colour: `write`, `service`, `undo`, `mark`, `wait`, `quiet` or `pending`."""
    y: float = 0
    height: float = 12


def section(key: str, title: str, *content: Content) -> Html:
    """Renders a part of the page with a heading, which the navigation names."""
    return tag("section", tag("h2", title, id=f"{key}-title"), *content, id=key, aria_labelledby=f"{key}-title")


def short(text: str) -> str:
    """Shortens text of the table that would be too long to read."""
    return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "…"


def name(text: str) -> Html:
    """Renders a name from the table."""
    return named(short(text))


def table(
    caption: str, heads: Sequence[Head], rows: Iterable[Sequence[Content]], *, rest: Sequence[Content] = ()
) -> Html:
    """Renders a table whose first column names its rows. `rest` is a last row for what is not listed."""

    def cells(row: Sequence[Content], class_: str | None = None) -> Html:
        first, *others = zip(heads, row, strict=True)
        return tag(
            "tr",
            tag("th", first[1], scope="row", class_=first[0].kind or None),
            [tag("td", content, class_=head.kind or None) for head, content in others],
            class_=class_,
        )

    body = [cells(row) for row in rows]
    if rest:
        body.append(cells(rest, "rest"))
    titles = [tag("th", head.text, scope="col", class_="right" if head.kind == "right" else None) for head in heads]
    return tag(
        "div",
        tag("table", tag("caption", tag("span", caption)), tag("thead", tag("tr", titles)), tag("tbody", body)),
        class_="scroll",
        role="group",
        aria_label=caption,
    )


def bar(*parts: tuple[float, str]) -> Html:
    """Renders a bar of shares of a whole, each with its colour; the numbers are next to it."""
    marks, x = [], 0.0
    for share, kind in parts:
        marks.append(Mark(x, share * _WIDTH, kind))
        x += share * _WIDTH
    return drawing(marks, 12)


def drawing(marks: Iterable[Mark], height: float, *more: Content) -> Html:
    """Renders rectangles, stretched to the width of the page; text elsewhere describes them."""
    rects = [
        tag(
            "rect",
            x=_number_text(mark.x),
            y=_number_text(mark.y),
            width=_number_text(mark.width),
            height=_number_text(mark.height),
            class_=mark.kind,
        )
        for mark in marks
        if mark.width > 0 and mark.height > 0
    ]
    return tag(
        "svg",
        more,
        rects,
        viewBox=f"0 0 {_WIDTH} {_number_text(height)}",
        height=_number_text(height),
        preserveAspectRatio="none",
        aria_hidden="true",
        focusable="false",
    )


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with columns, each described in words."""

    label: str
    marks: tuple[Mark, ...]
    height: float
    texts: tuple[str, ...]
    """A sentence for each column."""
    chosen: int
    """Index of the column that is described first."""
    beside: Html
    """Content left of the drawing."""
    axis: tuple[str, ...]
    """Labels below the drawing, at equal distances."""


def chart(given: Chart) -> Html:
    """Renders a chart with a slider over its columns, for mouse and keyboard."""
    cursor = tag("rect", x=0, y=0, width=0, height=_number_text(given.height), class_="cursor")
    # within a script, only the end tag of the script is not text
    texts = raw(json.dumps(list(given.texts), ensure_ascii=False).replace("<", "\\u003c"))
    slider = tag(
        "input",
        type="range",
        min=0,
        max=max(len(given.texts) - 1, 0),
        value=given.chosen,
        aria_label=given.label,
        hidden=True,
    )
    plot = drawing(given.marks, given.height, cursor)
    return tag(
        "div",
        tag(
            "div",
            given.beside,
            plot,
            tag("div", [tag("span", text) for text in given.axis], class_="axis", aria_hidden="true"),
            tag("div", slider, class_="time"),
            class_="plot",
        ),
        tag("div", class_="detail", hidden=True),
        raw(f'<script type="application/json">{texts}</script>'),
        class_="chart",
        role="group",
        aria_label=given.label,
    )


def legend(*entries: tuple[str, str]) -> Html:
    """Renders colours and their meanings."""
    return tag(
        "ul",
        [
            tag(
                "li",
                tag(
                    "svg",
                    tag("rect", x=0, y=0, width=11, height=11, class_=kind),
                    viewBox="0 0 11 11",
                    aria_hidden="true",
                    focusable="false",
                ),
                text,
            )
            for kind, text in entries
        ],
        class_="legend",
    )


def cards(entries: Iterable[tuple[str, str, str, str]]) -> Html:
    """Renders figures: name, value, remark, and the class of the value's colour."""
    return tag(
        "dl",
        [
            tag(
                "div",
                tag("dt", title),
                tag("dd", value, class_=f"value {kind}".strip()),
                tag("dd", more, class_="more") if more else None,
            )
            for title, value, more, kind in entries
        ],
        class_="cards",
    )


def facts(entries: Iterable[tuple[str, Content]]) -> Html:
    """Renders names and values; those without a value are left out."""
    return tag(
        "dl",
        [joined((tag("dt", title), tag("dd", value))) for title, value in entries if value],
        class_="facts",
    )


def command(text: str) -> Html:
    """Renders a command to copy."""
    button = tag(
        "button", "Copy", tag("span", f" {short(text)}", class_="hidden"), type="button", class_="copy", hidden=True
    )
    return tag("div", tag("code", escaped(text)), button, class_="command")


def badge(text: str, kind: str) -> Html:
    return tag("span", text, class_=f"badge {kind}")


def more_than(shown: int, count: int, noun: str) -> Html | None:
    """Renders the number of items that are not listed; `noun` in the plural."""
    return tag("p", f"And {count - shown:,} more {noun}.", class_="note") if count > shown else None


def _number_text(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
