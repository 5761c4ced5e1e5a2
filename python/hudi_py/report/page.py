"""The page: one HTML document that makes no requests."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Final

from hudi_py.markup import Content, Html, joined, raw, tag
from hudi_py.model.words import readable
from hudi_py.report import history, sections
from hudi_py.report.parts import name
from hudi_py.report.summary import Report

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cg fill='%232360c5'%3E%3Crect y='9' width='4' height='7' rx='1'/%3E%3Crect x='6' y='5' width='4' height='11' "
    "rx='1'/%3E%3Crect x='12' width='4' height='16' rx='1'/%3E%3C/g%3E%3C/svg%3E"
)
_PLACES: Final = (
    ("next", "Next"),
    ("glance", "At a glance"),
    ("doctor", "Doctor"),
    ("timeline", "Timeline"),
    ("writes", "Writes"),
    ("files", "Files"),
    ("services", "Services"),
    ("metadata", "Metadata table"),
    ("schema", "Schema"),
)


def page(report: Report) -> str:
    """Renders the document. Style sheet, script and drawings are embedded; its security policy forbids every
    request."""
    title = report.overview.name or "table"
    style, script = _asset_text("page.css"), _asset_text("page.js")
    policy = (
        f"default-src 'none'; style-src {_content_hash(style)}; script-src {_content_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title, " - hudi-py report"),
        tag("link", rel="icon", href=_ICON),
        raw(f"<style>{style}</style>"),
    )
    body = tag("body", *_page_body(report), raw(f"<script>{script}</script>"))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _page_body(report: Report) -> list[Content]:
    return [
        tag("a", "Skip to the report", href="#main", class_="skip"),
        _page_header(report),
        tag(
            "nav",
            tag("ul", [tag("li", tag("a", text, href=f"#{key}")) for key, text in _PLACES], class_="wide"),
            aria_label="Sections",
        ),
        tag(
            "main",
            sections.next_steps(report),
            sections.glance(report),
            sections.findings(report),
            history.timeline(report),
            history.writes(report),
            sections.files(report),
            sections.services(report),
            sections.metadata(report.metadata),
            sections.columns(report.columns, report.num_columns, report.properties),
            id="main",
            class_="wide",
            tabindex="-1",
        ),
        tag("footer", tag("p", f"Made by hudi-py {report.release}. It shows the active timeline only.", class_="wide")),
    ]


def _page_header(report: Report) -> Html:
    overview = report.overview
    kind = "merge on read" if overview.table_type == "MERGE_ON_READ" else "copy on write"
    about = f"{kind.capitalize()}, table version {overview.version}. As of {readable(report.made)} in {report.zone}."
    return tag(
        "header",
        tag(
            "div",
            tag(
                "div",
                tag("h1", name(overview.name or "Hudi table")),
                tag("p", tag("code", name(overview.uri)), class_="uri"),
                tag("p", about, class_="about"),
            ),
            tag(
                "fieldset",
                tag("legend", "Theme", class_="hidden"),
                joined(_theme_choice(value) for value in ("auto", "light", "dark")),
                class_="theme",
            ),
            class_="wide",
        ),
    )


def _theme_choice(value: str) -> Html:
    choice = tag("input", type="radio", name="theme", id=f"theme-{value}", value=value, checked=value == "auto")
    return tag("label", choice, value.capitalize())


@cache
def _asset_text(file: str) -> str:
    return (resources.files("hudi_py.report") / "assets" / file).read_text(encoding="utf-8")


def _content_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
