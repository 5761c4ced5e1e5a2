"""Builds HTML from values: text stays text, whatever it contains."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from hudi_py.model.words import visible

_VOID: Final = frozenset({"br", "col", "input", "line", "link", "meta", "path", "rect"})


class Html(str):
    """Text that is HTML. Only this module converts other text to it."""

    __slots__ = ()

    def __add__(self, other: str) -> Html:
        return Html(str.__add__(self, escaped(other)))


Content = str | int | None | Sequence["Content"]
"""Children of an element: HTML, text, a number, a sequence of these, or nothing."""


def escaped(text: object) -> Html:
    """Escapes a text as one line of HTML; control characters become visible escapes (`model.words.visible`)."""
    return text if isinstance(text, Html) else Html(html.escape(visible(str(text))))


def tag(name: str, /, *content: Content, **attributes: object) -> Html:
    """Builds an element.

    Args:
        content: its children.
        attributes: None and False leave one out, True gives it no value. `_` in names stands for `-`; one at the end is
            left out, so that `class_` and `for_` can be named.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{given}>" if name not in ("rect", "line", "path") else f"<{name}{given}/>")
    return Html(f"<{name}{given}>{joined(content)}</{name}>")


def joined(content: Iterable[Content]) -> Html:
    """Concatenates children."""
    return Html("".join(_content_html(item) for item in content))


def named(text: object, **attributes: object) -> Html:
    """Renders a name from the table so that its text direction does not affect the text around it."""
    return tag("bdi", str(text), **attributes)


def raw(text: str) -> Html:
    """Marks a text as HTML, such as a style sheet of this package; never use it for text from a table."""
    return Html(text)


def view(title: str, subtitle: str, facts: Iterable[tuple[str, Content]], *more: Content) -> Html:
    """Renders a short view for notebooks: a title over names and values, in the notebook's colours."""
    rows = [
        tag("tr", tag("th", name, scope="row", style=_HEAD), tag("td", value, style=_CELL))
        for name, value in facts
        if value not in (None, "")
    ]
    return tag(
        "div",
        tag("div", tag("strong", title), " ", tag("span", subtitle, style="opacity:.7")),
        tag("table", tag("tbody", rows), style="border-collapse:collapse;margin:.4em 0;font-size:.92em"),
        more,
        style="line-height:1.4;max-width:60em",
    )


def folded(summary: str, heads: Sequence[str], rows: Iterable[Sequence[Content]]) -> Html:
    """Renders a table for notebooks that opens on demand."""
    return tag(
        "details",
        tag("summary", summary, style="cursor:pointer"),
        tag(
            "table",
            tag("thead", tag("tr", [tag("th", head, scope="col", style=_HEAD) for head in heads])),
            tag("tbody", [tag("tr", [tag("td", cell, style=_CELL) for cell in row]) for row in rows]),
            style="border-collapse:collapse;font-size:.92em",
        ),
    )


_HEAD: Final = "text-align:left;font-weight:600;padding:.1em 1.2em .1em 0;vertical-align:top;opacity:.8"
_CELL: Final = "text-align:left;padding:.1em 1.2em .1em 0;vertical-align:top"


def _content_html(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, (str, int)):
        return escaped(content)
    return joined(content)
