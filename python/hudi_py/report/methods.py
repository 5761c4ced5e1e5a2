"""The methods of `Table` that show it as HTML: as a page, and in a notebook."""

from __future__ import annotations

import base64
import hashlib
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol

import pyarrow as pa

from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, HudiError
from hudi_py.markup import Content, Html, joined, named, raw, tag, view
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, readable, visible
from hudi_py.read import table_schema
from hudi_py.read.scan import columns_view
from hudi_py.report import history, sections
from hudi_py.report.overview import ReportedTable
from hudi_py.report.parts import name as named_text
from hudi_py.report.summary import Report, gather, summarise
from hudi_py.storage import Storage, StrPath, plain_uri
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline

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
                tag("h1", named_text(overview.name or "Hudi table")),
                tag("p", tag("code", named_text(overview.uri)), class_="uri"),
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


class _Table(ReportedTable, Protocol):
    _storage: Storage
    _options: Mapping[str, Any]


class ReportMethods:
    """The table as a page, and in notebooks."""

    _storage: Storage
    _config: TableConfig

    def report(self: _Table, path: StrPath, *, full: bool = False, options: Mapping[str, Any] | None = None) -> str:
        """Writes a page about the table, as one HTML file that needs nothing else: its timeline, the sizes of its
        files, what its writes and services did, what is due, and what the doctor finds. Changes nothing in the table.

        The page omits what cannot be read because of damage, and says so.

        Args:
            path: a local file, which is replaced; it appears when it is complete.
            full: see `doctor`.
            options: write options. They decide which services are due and which files count as small.

        Returns:
            The absolute path of the page.

        Raises:
            ConfigError: an option is not valid.
            OSError: the file cannot be written.
        """
        given = {**self._options, **(options or {})}
        Options.resolve(given, Scope.WRITE)
        source = copy(self)
        source._options = given
        named = plain_uri(self.uri)
        result = summarise(
            gather(source, self._storage, full=full), named, given, now_ms=wall_clock_ms(), release=_installed_release()
        )
        return _write_page(os.path.abspath(os.path.expanduser(path)), page(result))

    def _repr_html_(self) -> str:
        """Shows the table in a notebook: facts from its properties and timeline. Other displays show text."""
        config, timeline, schema = self._config, None, None
        with suppress(HudiError, OSError):  # a notebook shows what can be read
            config = load_table_config(self._storage)
            timeline = load_timeline(self._storage, config)
            schema = table_schema(TableState(self._storage, config, timeline))
        return table_view(self._storage.uri, config, timeline, schema)


def _installed_release() -> str:
    try:
        return version("hudi-py")
    except PackageNotFoundError:  # running from a checkout
        return "from source"


def _write_page(path: str, text: str) -> str:
    if os.path.isdir(path):
        raise ConfigError(f"Cannot write the report to {path}: it is a folder; name a file in it, such as report.html")
    part = f"{path}.{uuid.uuid4().hex[:8]}.part"
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    return path


def table_view(uri: str, config: TableConfig, timeline: Timeline | None, schema: pa.Schema | None) -> Html:
    """Shows a few facts from properties and timeline; files are not listed. Arguments that could not be read are
    None."""
    kind = "merge on read" if config.is_mor else "copy on write"
    facts: list[tuple[str, Content]] = [
        ("Path", named(uri)),
        ("Record key", _name_list(config.record_key_fields) or "generated"),
        ("Partitioned by", _name_list(config.partition_fields) or "nothing"),
        ("Ordered by", _name_list(config.ordering_fields)),
        ("Metadata table", _name_list(config.metadata_partitions) or "none"),
    ]
    if timeline is not None:
        last = timeline.last_completed
        pending = f", {len(timeline.pending):,} pending" if timeline.pending else ""
        facts.append(("Timeline", counted(len(timeline.instants), "instant") + pending))
        facts.append(("Last write", None if last is None else f"{last.action.value} {readable(visible(last.time))}"))
    return view(config.name or "Hudi table", f"{kind}, table version {config.version}", facts, columns_view(schema))


def _name_list(names: tuple[str, ...]) -> list[Content]:
    result: list[Content] = []
    for name in names:
        result += [", " if result else None, named(name)]
    return result
