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
    summary = report.writes
    if not summary.commits:
        return section("writes", "WriteSummary", tag("p", "No write is on the active timeline.", class_="note"))
    beginning, end = readable(summary.bins[0].first), readable(summary.bins[-1].last)
    axis = (beginning, end) if len(summary.bins) > 1 else (beginning,)
    parts: list[Content] = [
        tag("p", _amplified(summary), class_="note"),
        tag(
            "div",
            tag("div", tag("h3", "Bytes written"), _bytes_chart(summary, axis)),
            tag("div", tag("h3", "Rows written for each row changed"), _amplification_chart(summary, axis)),
            class_="pair",
        ),
        legend(("write", "writes"), ("service", "table services")),
        tag("h3", "By operation"),
        _operations(summary.operations),
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
        for index, (number, pending) in enumerate(zip(lane.bins, lane.pending_bins, strict=True)):
            if not number:
                continue
            height = (LANE - 8) * max((number / most) ** 0.5, 0.25)
            y = (row + 1) * LANE - 3 - height
            marks.append(Mark(index * width + 0.08 * width, 0.84 * width, lane.role, y, height))
            if pending:
                marks.append(Mark(index * width + 0.08 * width, 0.84 * width, "pending", row * LANE + 4, LANE - 7))
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
            texts=tuple(_binned(activity.lanes, index, limits) for index in range(count)),
            chosen=max((index for lane in activity.lanes for index in range(count) if lane.bins[index]), default=0),
            beside=tag("ul", labels, class_="lanes"),
            axis=(limits[0], limits[count // 2], limits[-1]) if count > 2 else (limits[0], limits[-1]),
        )
    )


def _binned(lanes: Iterable[Lane], index: int, limits: Sequence[str]) -> str:
    parts = []
    for lane in lanes:
        if lane.bins[index]:
            pending = f" ({lane.pending_bins[index]:,} pending)" if lane.pending_bins[index] else ""
            parts.append(counted(lane.bins[index], kind_words(lane.kind)) + pending)
    span = limits[index] if limits[index] == limits[index + 1] else f"{limits[index]} to {limits[index + 1]}"
    return f"{span}: {', '.join(parts) or 'nothing'}"


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
        taken = [show_duration(duration) for duration in lane.durations] if lane.durations else [""] * 3
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
    text = " ".join(remark for remark in remarks if remark)
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
        *(["", "", ""] if entry.changed is None else [f"{number:,}" for number in entry.changed]),
        show_bytes(entry.bytes) if entry.bytes is not None else "",
    ]


def _end(entry: ReportedInstant) -> int:
    start = entry.start_ms or 0
    return start if entry.end_ms is None else max(entry.end_ms, start)


def _amplified(summary: WriteSummary) -> str:
    size = show_bytes(summary.bytes)
    by = f", {show_bytes(summary.service_bytes)} of it by table services" if summary.service_bytes else ""
    if summary.amplification is None:
        return f"{counted(summary.commits, 'commit')} wrote {size}{by}. No row was changed."
    return (
        f"{counted(summary.commits, 'commit')} wrote {size}{by}. They changed {counted(summary.rows_changed, 'row')} "
        f"and wrote {summary.rows_written:,}: {summary.amplification:.1f} for each one changed."
    )


def _bytes_chart(summary: WriteSummary, axis: tuple[str, ...]) -> Html:
    most = max(bin_.write_bytes + bin_.service_bytes for bin_ in summary.bins) or 1
    width, marks = _WIDTH / len(summary.bins), []
    for index, bin_ in enumerate(summary.bins):
        y = float(_HEIGHT)
        for size, kind in ((bin_.write_bytes, "write"), (bin_.service_bytes, "service")):
            height = max(size / most * _HEIGHT, 1.5) if size else 0
            y -= height
            marks.append(Mark(index * width + 0.08 * width, 0.84 * width, kind, y, height))
    texts = tuple(f"{_when(bin_)}: {_wrote(bin_)}" for bin_ in summary.bins)
    return chart(
        Chart("Bytes written over time", tuple(marks), _HEIGHT, texts, len(texts) - 1, _ends(show_bytes(most)), axis)
    )


def _amplification_chart(summary: WriteSummary, axis: tuple[str, ...]) -> Html:
    rates = [bin_.rows_written / bin_.rows_changed if bin_.rows_changed else None for bin_ in summary.bins]
    most = max((rate for rate in rates if rate is not None), default=1.0) or 1.0
    width, marks = _WIDTH / len(summary.bins), []
    for index, (bin_, rate) in enumerate(zip(summary.bins, rates, strict=True)):
        # writes that changed nothing, such as compactions, have no rate
        height = 2.0 if rate is None else rate / most * _HEIGHT
        kind = "quiet" if rate is None else "service" if not bin_.write_bytes else "write"
        marks.append(Mark(index * width + 0.08 * width, 0.84 * width, kind, _HEIGHT - height, height))
    texts = tuple(
        f"{_when(bin_)}: {bin_.rows_written:,} rows written, {bin_.rows_changed:,} changed"
        + (f", {rate:.1f} for each" if rate is not None else "")
        for bin_, rate in zip(summary.bins, rates, strict=True)
    )
    label, newest = "Rows written for each row changed, over time", len(texts) - 1
    return chart(Chart(label, tuple(marks), _HEIGHT, texts, newest, _ends(f"{most:.1f}"), axis))


def _ends(most: str) -> Html:
    return tag("div", tag("span", most), tag("span", "0"), class_="ends", aria_hidden="true")


def _when(bin_: WriteBin) -> str:
    first, last = readable(visible(bin_.first)), readable(visible(bin_.last))
    return first if bin_.commits == 1 else f"{first} to {last}, {counted(bin_.commits, 'commit')}"


def _wrote(bin_: WriteBin) -> str:
    parts = [show_bytes(bin_.write_bytes) + " by writes"] if bin_.write_bytes or not bin_.service_bytes else []
    if bin_.service_bytes:
        parts.append(show_bytes(bin_.service_bytes) + " by table services")
    return ", ".join(parts)


def _operations(summaries: Sequence[OperationSummary]) -> Html:
    names = ("commits", "inserted", "updated", "deleted", "rows written", "files", "size")
    heads = [Head("operation"), *(Head(text, "right") for text in names)]
    rows = []
    for summary in summaries:
        changed = (
            ["", "", ""] if summary.service else [f"{n:,}" for n in (summary.inserts, summary.updates, summary.deletes)]
        )
        numbers = [f"{summary.commits:,}", *changed, f"{summary.rows_written:,}", f"{summary.files:,}"]
        title = visible(summary.name).lower().replace("_", " ")
        rows.append([title + (" (table service)" if summary.service else ""), *numbers, show_bytes(summary.bytes)])
    return table("Completed writes by operation", heads, rows)
