"""Sections of the page about the past: timeline and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Final

from hudi_py.markup import Content, Html, tag
from hudi_py.model.words import counted, readable, show_bytes, show_duration, visible
from hudi_py.report.activity import Activity, Lane, ReportedInstant, Scale, scale_of
from hudi_py.report.parts import LANE, Chart, Head, Mark, badge, chart, drawing, legend, section, table
from hudi_py.report.summary import Report
from hudi_py.report.writes import OperationSummary, WriteBin, WriteSummary
from hudi_py.timeline.times import format_instant

_WIDTH: Final = 1000
_HEIGHT: Final = 90
_KINDS: Final = {
    "deltacommit": "delta commit",
    "replacecommit": "replace commit",
    "logcompaction": "log compaction",
    "schemacommit": "schema commit",
}
_ROLES: Final = {"write": "changes rows", "service": "table service", "undo": "undoes", "mark": "marks"}


def timeline(report: Report) -> Html:
    """Renders the timeline over time, by kind of action, and the newest instants."""
    activity = report.activity
    if not activity.count:
        return section("timeline", "Timeline", tag("p", "There are no instants.", class_="note"))
    parts: list[Content] = []
    if activity.edges:
        parts += [_lanes(activity, report.zone), _legend(activity)]
    parts.append(tag("p", _together(activity), class_="note"))
    parts.append(_kinds(activity))
    parts.append(tag("h3", "Newest instants"))
    parts += _newest(activity, report)
    return section("timeline", "Timeline", *parts)


def writes(report: Report) -> Html:
    """Renders what the writes wrote, and for how many changes."""
    found = report.writes
    if not found.commits:
        return section("writes", "WriteSummary", tag("p", "No write is on the active timeline.", class_="note"))
    beginning, end = readable(found.bins[0].first), readable(found.bins[-1].last)
    axis = (beginning, end) if len(found.bins) > 1 else (beginning,)
    parts: list[Content] = [
        tag("p", _amplified(found), class_="note"),
        tag(
            "div",
            tag("div", tag("h3", "Bytes written"), _bytes_chart(found, axis)),
            tag("div", tag("h3", "Rows written for each row changed"), _amplification_chart(found, axis)),
            class_="pair",
        ),
        legend(("write", "writes"), ("service", "table services")),
        tag("h3", "By operation"),
        _operations(found.operations),
    ]
    return section("writes", "WriteSummary", *parts)


def kind_words(kind: str) -> str:
    """Describes a kind of action in words."""
    return _KINDS.get(kind, kind)


def _lanes(activity: Activity, zone: tzinfo) -> Html:
    count = len(activity.edges) - 1
    width = _WIDTH / count
    marks: list[Mark] = []
    for row, lane in enumerate(activity.lanes):
        most = max(lane.bins, default=0) or 1
        for at, (number, pending) in enumerate(zip(lane.bins, lane.pending_bins, strict=True)):
            if not number:
                continue
            height = (LANE - 8) * max((number / most) ** 0.5, 0.25)
            y = (row + 1) * LANE - 3 - height
            marks.append(Mark(at * width + 0.08 * width, 0.84 * width, lane.role, y, height))
            if pending:
                marks.append(Mark(at * width + 0.08 * width, 0.84 * width, "pending", row * LANE + 4, LANE - 7))
    labels = [
        tag("li", tag("span", kind_words(lane.kind)), tag("span", f"{lane.count:,}", class_="soft"))
        for lane in activity.lanes
    ]
    limits = [readable(format_instant(edge, zone)) for edge in activity.edges]
    return chart(
        Chart(
            label="Instants over time",
            marks=tuple(marks),
            height=LANE * len(activity.lanes),
            texts=tuple(_binned(activity.lanes, at, limits) for at in range(count)),
            chosen=max((at for lane in activity.lanes for at in range(count) if lane.bins[at]), default=0),
            beside=tag("ul", labels, class_="lanes"),
            axis=(limits[0], limits[count // 2], limits[-1]) if count > 2 else (limits[0], limits[-1]),
        )
    )


def _binned(lanes: Iterable[Lane], at: int, limits: Sequence[str]) -> str:
    found = []
    for lane in lanes:
        if lane.bins[at]:
            pending = f" ({lane.pending_bins[at]:,} pending)" if lane.pending_bins[at] else ""
            found.append(counted(lane.bins[at], kind_words(lane.kind)) + pending)
    span = limits[at] if limits[at] == limits[at + 1] else f"{limits[at]} to {limits[at + 1]}"
    return f"{span}: {', '.join(found) or 'nothing'}"


def _legend(activity: Activity) -> Html:
    roles = {lane.role for lane in activity.lanes}
    words = {"write": "changes rows", "service": "table service", "undo": "undoes", "mark": "marks, changes no file"}
    entries: list[tuple[str, str]] = [(role, text) for role, text in words.items() if role in roles]
    if activity.pending:
        entries.append(("pending", "with pending instants"))
    return legend(*entries)


def _together(activity: Activity) -> str:
    if activity.copied:
        return (
            "How long actions took is unknown: this table version keeps it as modification times of files, which have "
            "been copied since."
        )
    if activity.most_at_once < 2:
        return "No two completed actions ran at the same time."
    return (
        f"{counted(activity.overlapping, 'action')} of {activity.count:,} ran while another one did; at most "
        f"{activity.most_at_once:,} ran at once."
    )


def _kinds(activity: Activity) -> Html:
    heads = [Head("action"), Head("what it does"), *(Head(text, "right") for text in ("instants", "pending"))]
    heads += [Head(text, "right") for text in ("median time", "95 %", "longest")]
    heads.append(Head("newest"))
    rows = []
    for lane in activity.lanes:
        taken = [show_duration(each) for each in lane.durations] if lane.durations else [""] * 3
        pending = badge(f"{lane.pending:,}", "pending") if lane.pending else "0"
        rows.append(
            [kind_words(lane.kind), _ROLES[lane.role], f"{lane.count:,}", pending, *taken, readable(visible(lane.last))]
        )
    return table("Instants by action", heads, rows)


def _newest(activity: Activity, report: Report) -> list[Content]:
    known = [entry for entry in activity.entries if entry.start_ms is not None]
    spans = [(entry.start_ms, _end(entry)) for entry in known if entry.start_ms is not None]
    scale = scale_of(spans)
    heads = [Head("instant"), Head("action"), Head("state"), Head("took", "right"), Head("when", "span")]
    heads += [Head("overlaps", "right"), *(Head(text, "right") for text in ("inserted", "updated", "deleted"))]
    heads.append(Head("written", "right"))
    rows = [_row(entry, scale) for entry in activity.entries]
    rest = activity.count - len(activity.entries)
    remarks = ["Pending instants come from any time." if rest and activity.pending else ""]
    remarks.append("Idle times are shortened." if scale.shortened else "")
    if rest:
        remarks.append(f"And {counted(rest, 'older instant')}, which `hudi-py timeline` lists.")
    text = " ".join(each for each in remarks if each)
    caption = f"Instants, the newest first, in the zone {report.zone}"
    return [table(caption, heads, rows), tag("p", text, class_="note") if text else None]


def _row(entry: ReportedInstant, scale: Scale) -> list[Content]:
    """Renders a row of the table of instants."""
    marks = []
    if entry.start_ms is not None:
        left, right = scale.place(entry.start_ms) * _WIDTH, scale.place(_end(entry)) * _WIDTH
        width = max(right - left, 5)
        marks.append(Mark(min(left, _WIDTH - width), width, "pending" if entry.pending else entry.role, 1, 10))
    took = entry.duration_ms
    operation = entry.operation.lower().replace("_", " ")
    return [
        tag("code", visible(entry.instant)),
        kind_words(entry.kind) + (f", {visible(operation)}" if entry.role == "write" and operation else ""),
        badge(entry.state, "pending") if entry.pending else entry.state,
        show_duration(took) if took is not None and took >= 0 else "",
        drawing(marks, 12),
        f"{entry.overlaps:,}" if entry.overlaps else "",
        *(["", "", ""] if entry.changed is None else [f"{each:,}" for each in entry.changed]),
        show_bytes(entry.bytes) if entry.bytes is not None else "",
    ]


def _end(entry: ReportedInstant) -> int:
    start = entry.start_ms or 0
    return start if entry.end_ms is None else max(entry.end_ms, start)


def _amplified(found: WriteSummary) -> str:
    size = show_bytes(found.bytes)
    by = f", {show_bytes(found.service_bytes)} of it by table services" if found.service_bytes else ""
    if found.amplification is None:
        return f"{counted(found.commits, 'commit')} wrote {size}{by}. No row was changed."
    return (
        f"{counted(found.commits, 'commit')} wrote {size}{by}. They changed {counted(found.rows_changed, 'row')} "
        f"and wrote {found.rows_written:,}: {found.amplification:.1f} for each one changed."
    )


def _bytes_chart(found: WriteSummary, axis: tuple[str, ...]) -> Html:
    most = max(each.write_bytes + each.service_bytes for each in found.bins) or 1
    width, marks = _WIDTH / len(found.bins), []
    for at, each in enumerate(found.bins):
        y = float(_HEIGHT)
        for size, kind in ((each.write_bytes, "write"), (each.service_bytes, "service")):
            height = max(size / most * _HEIGHT, 1.5) if size else 0
            y -= height
            marks.append(Mark(at * width + 0.08 * width, 0.84 * width, kind, y, height))
    texts = tuple(f"{_when(each)}: {_wrote(each)}" for each in found.bins)
    return chart(
        Chart("Bytes written over time", tuple(marks), _HEIGHT, texts, len(texts) - 1, _ends(show_bytes(most)), axis)
    )


def _amplification_chart(found: WriteSummary, axis: tuple[str, ...]) -> Html:
    rates = [each.rows_written / each.rows_changed if each.rows_changed else None for each in found.bins]
    most = max((rate for rate in rates if rate is not None), default=1.0) or 1.0
    width, marks = _WIDTH / len(found.bins), []
    for at, (each, rate) in enumerate(zip(found.bins, rates, strict=True)):
        # writes that changed nothing, such as compactions, have no rate
        height = 2.0 if rate is None else rate / most * _HEIGHT
        kind = "quiet" if rate is None else "service" if not each.write_bytes else "write"
        marks.append(Mark(at * width + 0.08 * width, 0.84 * width, kind, _HEIGHT - height, height))
    texts = tuple(
        f"{_when(each)}: {each.rows_written:,} rows written, {each.rows_changed:,} changed"
        + (f", {rate:.1f} for each" if rate is not None else "")
        for each, rate in zip(found.bins, rates, strict=True)
    )
    label, newest = "Rows written for each row changed, over time", len(texts) - 1
    return chart(Chart(label, tuple(marks), _HEIGHT, texts, newest, _ends(f"{most:.1f}"), axis))


def _ends(most: str) -> Html:
    return tag("div", tag("span", most), tag("span", "0"), class_="ends", aria_hidden="true")


def _when(each: WriteBin) -> str:
    first, last = readable(visible(each.first)), readable(visible(each.last))
    return first if each.commits == 1 else f"{first} to {last}, {counted(each.commits, 'commit')}"


def _wrote(each: WriteBin) -> str:
    parts = [show_bytes(each.write_bytes) + " by writes"] if each.write_bytes or not each.service_bytes else []
    if each.service_bytes:
        parts.append(show_bytes(each.service_bytes) + " by table services")
    return ", ".join(parts)


def _operations(found: Sequence[OperationSummary]) -> Html:
    names = ("commits", "inserted", "updated", "deleted", "rows written", "files", "size")
    heads = [Head("operation"), *(Head(text, "right") for text in names)]
    rows = []
    for each in found:
        changed = ["", "", ""] if each.service else [f"{n:,}" for n in (each.inserts, each.updates, each.deletes)]
        numbers = [f"{each.commits:,}", *changed, f"{each.rows_written:,}", f"{each.files:,}"]
        title = visible(each.name).lower().replace("_", " ")
        rows.append([title + (" (table service)" if each.service else ""), *numbers, show_bytes(each.bytes)])
    return table("Completed writes by operation", heads, rows)
