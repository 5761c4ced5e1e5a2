"""Sections of the page about the present: next steps, figures, findings, files, services, metadata table, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hudi_py.health import Diagnosis, Finding, Severity
from hudi_py.markup import Content, Html, tag
from hudi_py.model.words import ago, counted, readable, show_bytes, show_duration, visible
from hudi_py.report.history import kind_words
from hudi_py.report.overview import Overview
from hudi_py.report.parts import Head, badge, bar, cards, command, facts, legend, more_than, name, section, short, table
from hudi_py.report.sizes import FileSizes, LogBin, PartitionSize, SizeBin
from hudi_py.report.summary import ColumnFact, MetadataPartitionSummary, Report
from hudi_py.timeline.times import epoch_ms

_MAX_ALIKE: Final = 10
_MAX_PATHS: Final = 8
_MAX_COLUMNS: Final = 40
_MAX_LISTED: Final = 12
_WINS: Final = {"EVENT_TIME_ORDERING": "with the greatest {}", "COMMIT_TIME_ORDERING": "written last"}
_SERVICES: Final = (
    "compaction",
    "logcompaction",
    "clustering",
    "clean",
    "indexing",
    "rollback",
    "restore",
    "savepoint",
)
_NOT_PARTITIONED: Final = "(not partitioned)"


def next_steps(report: Report) -> Html:
    """Renders what to do next."""
    if not report.next:
        said = "Nothing is due." if report.overview.read_only is None else "Nothing."
        return section("next", "What to do next", tag("p", said, class_="note good"))
    items = [
        tag(
            "li",
            tag("p", short(visible(step.why)), "."),
            command(step.command),
            class_="bad" if step.pressing else None,
        )
        for step in report.next[:_MAX_LISTED]
    ]
    rest = more_than(len(items), len(report.next), "steps like these")
    return section("next", "What to do next", tag("ol", items, class_="steps"), rest)


def glance(report: Report) -> Html:
    """Renders figures and facts."""
    overview = report.overview
    wins = _WINS.get(overview.merge_mode, "that its own merger makes").format(", ".join(overview.ordered_by))
    details: list[tuple[str, Content]] = [
        ("Record key", _name_list(overview.record_key) or "generated"),
        ("Partitioned by", _name_list(overview.partitioned_by) or "nothing"),
        ("Of equal keys", f"the row {wins} counts"),
        ("Base files", overview.base_file_format.capitalize()),
        ("Read only", overview.read_only),
        ("Savepoints", _some_names(overview.savepoints)),
        ("Lock", [name(f"held by {lock['process'] or lock['owner']}") for lock in overview.locks]),
    ]
    parts: list[Content] = [cards(_glance_figures(report)), facts(details)]
    if report.unknown:
        parts.append(tag("h3", "What could not be found out"))
        parts.append(tag("ul", [tag("li", short(item)) for item in report.unknown], class_="paths"))
    return section("glance", "At a glance", *parts)


def findings(report: Report) -> Html:
    """Renders the doctor's findings."""
    diagnosis = report.diagnosis
    if diagnosis is None:
        return section("doctor", "Doctor", tag("p", "The table could not be examined.", class_="note error"))
    parts: list[Content] = []
    if not diagnosis.findings:
        parts.append(tag("p", "Nothing was found.", class_="note good"))
    by_code: dict[str, list[Finding]] = {}
    for finding in diagnosis.findings:
        by_code.setdefault(finding.code, []).append(finding)
    if by_code:
        parts.append(tag("ol", [_finding_item(alike) for alike in by_code.values()], class_="findings"))
    skipped = [tag("li", "Not examined: ", short(item)) for item in diagnosis.skipped]
    parts.append(tag("ul", skipped, class_="paths soft") if skipped else None)
    examined = [tag("li", short(item)) for item in diagnosis.checked]
    releases = [[item, name(value)] for item, value in diagnosis.environment.items()]
    parts.append(
        tag(
            "details",
            tag("summary", "What was examined, and with which releases"),
            tag("ul", examined, class_="paths") if examined else None,
            table("Releases", [Head("of"), Head("release", "wrap")], releases) if releases else None,
        )
    )
    return section("doctor", "Doctor", *parts)


def files(report: Report) -> Html:
    """Renders partitions, file groups and slices."""
    result = report.files
    if not result.total.groups:
        return section("files", "Files", tag("p", "There are no data files.", class_="note"))
    parts: list[Content] = [tag("p", _size_sentence(report), class_="note"), _partition_table(result)]
    kinds = [("write", "base files")]
    if result.total.log_files:
        kinds.append(("wait", "logs, which wait for a compaction"))
    parts.append(legend(*kinds))
    sizes = [tag("h3", "Base files by size"), _size_chart(result), legend(("write", "full enough"), ("wait", "small"))]
    pair: list[Content] = [tag("div", sizes)] if result.sizes else []
    if result.total.log_files:
        pair.append(tag("div", tag("h3", "File slices by number of logs"), _log_chart(result)))
    parts.append(tag("div", pair, class_="pair"))
    if result.slices:
        parts += [tag("h3", "Most logs waiting"), _longest_slices(result)]
    return section("files", "Files", *parts)


def services(report: Report) -> Html:
    """Renders what services did, and what is due."""
    heads = [Head("service"), Head("due"), Head("why, or why not", "wrap"), Head("done", "right"), Head("newest")]
    heads.append(Head("median time", "right"))
    due = {item.service.replace("_", ""): item for item in report.due}
    lanes = {lane.kind: lane for lane in report.activity.lanes}
    rows: list[list[Content]] = []
    for kind in (*_SERVICES, "archive"):
        lane, state = lanes.get(kind), due.get(kind)
        if lane is None and state is None:
            continue
        done = f"{lane.count - lane.pending:,}" if lane else ""
        median = show_duration(lane.durations[0]) if lane and lane.durations else ""
        newest = readable(visible(lane.last)) if lane else ""
        mark = "" if state is None else badge("due", "warning") if state.due else "not due"
        rows.append([kind_words(kind), mark, short(state.reason) if state else "", done, newest, median])
    parts: list[Content] = []
    if rows:
        parts.append(table("Table services on the active timeline, and what they would do now", heads, rows))
    else:
        parts.append(tag("p", "No service has run, and none is due.", class_="note"))
    if report.overview.read_only:
        parts.append(tag("p", "hudi-py cannot run services on this table: ", report.overview.read_only, class_="note"))
    if report.plans:
        heads = [Head("plan"), Head("service"), Head("state"), Head("file groups or partitions", "right")]
        heads.append(Head("files", "right"))
        plans: list[list[Content]] = [
            [
                tag("code", name(plan.instant)),
                kind_words(plan.service.replace("_", "")),
                badge(plan.state, "pending"),
                f"{plan.units:,}",
                f"{plan.files:,}",
            ]
            for plan in report.plans[:_MAX_LISTED]
        ]
        parts.append(table("Pending plans", heads, plans))
        parts.append(more_than(len(plans), len(report.plans), "plans"))
    return section("services", "Table services", *parts)


def metadata(partitions: tuple[MetadataPartitionSummary, ...]) -> Html:
    """Renders the metadata table."""
    if not partitions:
        text = "There is none: readers list folders, and no statistics leave files out."
        return section("metadata", "Metadata table", tag("p", text, class_="note"))
    most = max(item.base_bytes + item.log_bytes for item in partitions) or 1
    heads = [Head("partition"), Head("state"), *(Head(text, "right") for text in ("file groups", "base size", "logs"))]
    heads += [Head("log size", "right"), Head("size", "bar")]
    rows: list[list[Content]] = [
        [
            name(item.name),
            "used by readers" if item.ready else badge("being built", "pending"),
            f"{item.groups:,}",
            show_bytes(item.base_bytes),
            f"{item.log_files:,}",
            show_bytes(item.log_bytes),
            bar((item.base_bytes / most, "write"), (item.log_bytes / most, "wait")),
        ]
        for item in partitions
    ]
    return section("metadata", "Metadata table", table("Partitions of the metadata table", heads, rows))


def columns(facts: tuple[ColumnFact, ...], count: int, properties: Mapping[str, str]) -> Html:
    """Renders columns and properties."""
    heads = [Head("column", "wrap"), Head("type", "wrap"), Head("null"), Head("role")]
    rows: list[list[Content]] = [
        [
            name(item.name),
            tag("code", name(item.type)),
            "may be null" if item.nullable else "never",
            ", ".join(item.roles),
        ]
        for item in facts
    ]
    given: list[list[Content]] = [
        [tag("code", name(key)), tag("code", name(value))] for key, value in properties.items()
    ]
    first, others = rows[:_MAX_COLUMNS], rows[_MAX_COLUMNS:]
    more = table(f"Columns {len(first) + 1:,} to {len(rows):,}", heads, others)
    folded = tag("details", tag("summary", f"{count - len(first):,} more columns"), more)
    return section(
        "schema",
        "Schema",
        table(f"Columns of the newest rows: {count:,}", heads, first) if rows else tag("p", "Unknown.", class_="note"),
        tag("div", folded, more_than(len(rows), count, "columns")) if others else None,
        tag(
            "details",
            tag("summary", "hoodie.properties"),
            table("Properties of the table", [Head("key"), Head("value", "wrap")], given),
        ),
    )


def last_write(overview: Overview, report: Report) -> tuple[str, str]:
    """Returns when the last write was, and what it did."""
    last = overview.last_write
    if last is None:
        return "never", ""
    time = last["completion_time"] or last["instant"]
    return ago(report.made_ms - epoch_ms(time, report.zone)), done_by(last)


def done_by(write: Mapping[str, Any]) -> str:
    """Describes a row of `Table.history()`, such as `upsert: 3 inserted, 1 updated`."""
    words = {"inserted": "num_inserts", "updated": "num_updates", "deleted": "num_deletes"}
    counts = ", ".join(f"{write[key]:,} {word}" for word, key in words.items() if write[key])
    operation = visible(write["operation"] or write["action"]).lower().replace("_", " ")
    return f"{operation}{': ' + counts if counts else ''}"


def partition_name(path: str) -> Content:
    return name(path) if path else tag("span", _NOT_PARTITIONED, class_="soft")


def _glance_figures(report: Report) -> Iterable[tuple[str, str, str, str]]:
    overview, files = report.overview, report.files
    yield _health_figure(report.diagnosis)
    groups = f"{counted(files.total.groups, 'file group')} in {counted(files.num_partitions, 'partition')}"
    yield "Size", show_bytes(files.total.bytes), groups, ""
    yield "Last write", *last_write(overview, report), ""
    if overview.table_type == "MERGE_ON_READ":
        more = f"{show_bytes(files.total.log_bytes)} in {counted(files.waiting, 'file group')}" if files.waiting else ""
        yield "Logs waiting", f"{files.total.log_files:,}", more, ""
    small = f"of {counted(files.total.base_files, 'base file')}, below {show_bytes(files.small_limit)}"
    yield "Small files", f"{files.total.small_files:,}", small, ""
    rate = report.writes.amplification
    if rate is not None:
        yield "Write amplification", f"{rate:.1f}", "rows written for each row changed", ""
    since = f"since {readable(visible(overview.first_instant))[:10]}" if overview.first_instant else ""
    pending = f"{report.activity.pending:,} pending, " if report.activity.pending else ""
    yield "Timeline", counted(overview.num_instants, "instant"), pending + since, ""
    if report.older is not None:
        yield "Older versions", show_bytes(report.older.bytes), counted(report.older.slices, "file slice"), ""


def _health_figure(diagnosis: Diagnosis | None) -> tuple[str, str, str, str]:
    if diagnosis is None:
        return "Health", "unknown", "could not be examined", "error"
    counts: dict[Severity, int] = {}
    for finding in diagnosis.findings:
        counts[finding.severity] = counts.get(finding.severity, 0) + 1
    if diagnosis.healthy:
        notices = counts.get(Severity.NOTICE, 0)
        return "Health", "healthy", counted(notices, "notice") if notices else "nothing was found", "good"
    worst, *others = (_how_many(severity, counts[severity]) for severity in sorted(counts, reverse=True))
    return "Health", worst, ", ".join(others), max(counts).word


def _how_many(severity: Severity, count: int) -> str:
    return f"{count:,} {severity.word}" if severity is Severity.CRITICAL else counted(count, severity.word)


def _finding_item(alike: list[Finding]) -> Html:
    """Renders findings of one kind: the first, and the others folded."""
    item, *others = alike
    paths = [tag("li", tag("code", name(path))) for path in item.paths[:_MAX_PATHS]]
    extra = more_than(len(paths), len(item.paths), "files")
    listed = tag("details", tag("summary", counted(len(item.paths), "file")), tag("ul", paths, class_="paths"), extra)
    where: list[Content] = []
    if item.partition is not None:
        where.append([" Partition ", partition_name(item.partition), "."])
    if item.instant is not None:
        where.append([" Instant ", tag("code", name(item.instant)), "."])
    return tag(
        "li",
        tag("p", badge(item.severity.word, item.severity.word), " ", tag("strong", name(item.what))),
        tag("p", item.consequence, where),
        tag("p", tag("span", "To fix: ", class_="soft"), item.remedy),
        tag("p", tag("code", item.code), class_="soft"),
        listed if paths else None,
        _folded_findings(others) if others else None,
        class_=item.severity.word,
    )


def _folded_findings(findings: list[Finding]) -> Html:
    items = [tag("li", name(item.what)) for item in findings[:_MAX_ALIKE]]
    rest = more_than(len(items), len(findings), "like these, which `hudi-py doctor` lists")
    return tag("details", tag("summary", f"{len(findings):,} more like this"), tag("ul", items, class_="paths"), rest)


def _name_list(names: Iterable[str]) -> list[Content]:
    result: list[Content] = []
    for item in names:
        result += [", " if result else None, name(item)]
    return result


def _some_names(names: list[str]) -> Content:
    if not names:
        return None
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return [_name_list(names[-_MAX_LISTED:]), more]


def _size_sentence(report: Report) -> str:
    files, total = report.files, report.files.total
    text = (
        f"{counted(total.groups, 'file group')} in {counted(files.num_partitions, 'partition')}, "
        f"{show_bytes(total.bytes)} in the newest file slices."
    )
    if files.spread is not None:
        low, median, high, most = (show_bytes(item) for item in files.spread)
        text += f" Base files: least {low}, median {median}, 95 % below {high}, greatest {most}."
    if report.older is not None and report.older.slices:
        text += (
            f" Older versions kept for time travel: {counted(report.older.slices, 'file slice')}, "
            f"{show_bytes(report.older.bytes)}."
        )
    return text


def _partition_table(sizes: FileSizes) -> Html:
    names = ("file groups", "base files", "base size", "logs", "log size", "small files")
    heads = [Head("partition", "wrap"), Head("size", "right"), Head("base and logs", "bar")]
    heads += [Head(text, "right") for text in names]
    most = max(partition.bytes for partition in sizes.partitions) or 1

    def cells(title: Content, size: PartitionSize, drawn: bool) -> list[Content]:
        shares = bar((size.base_bytes / most, "write"), (size.log_bytes / most, "wait")) if drawn else ""
        logs = [f"{size.log_files:,}", show_bytes(size.log_bytes)] if size.log_files else ["", ""]
        small = f"{size.small_files:,}" if size.small_files else ""
        groups = [f"{size.groups:,}", f"{size.base_files:,}", show_bytes(size.base_bytes)]
        return [title, show_bytes(size.bytes), shares, *groups, *logs, small]

    rows = [cells(partition_name(partition.name or ""), partition, True) for partition in sizes.partitions]
    rest: list[Content] = []
    if sizes.others is not None:
        count = sizes.num_partitions - len(sizes.partitions)
        rest = cells(f"and {counted(count, 'more partition')}", sizes.others, False)
    return table("Partitions, the largest first: their newest file slices", heads, rows, rest=rest)


def _size_chart(sizes: FileSizes) -> Html:
    most = max(size.files for size in sizes.sizes) or 1
    heads = [Head("size"), Head("base files", "right"), Head("share", "bar"), Head("total", "right")]
    rows = []
    for size in sizes.sizes:
        small = size.high is not None and size.high <= sizes.small_limit
        drawn = bar((size.files / most, "wait" if small else "write"))
        rows.append([_size_range(size), f"{size.files:,}", drawn, show_bytes(size.bytes)])
    caption = (
        f"{counted(sizes.total.small_files, 'base file')} of {sizes.total.base_files:,}, "
        f"{show_bytes(sizes.small_bytes)}, are small: below {show_bytes(sizes.small_limit)}"
    )
    return table(caption, heads, rows)


def _size_range(bin_: SizeBin) -> str:
    if bin_.high is None:
        return f"{show_bytes(bin_.low)} or more"
    return f"{show_bytes(bin_.low)} to {show_bytes(bin_.high)}" if bin_.low else f"below {show_bytes(bin_.high)}"


def _log_chart(sizes: FileSizes) -> Html:
    most = max(log.slices for log in sizes.logs) or 1
    heads = [Head("logs"), Head("file slices", "right"), Head("share", "bar"), Head("log size", "right")]
    rows = [
        [
            _log_range(log),
            f"{log.slices:,}",
            bar((log.slices / most, "wait" if log.low else "write")),
            show_bytes(log.log_bytes) if log.low else "",
        ]
        for log in sizes.logs
    ]
    size = show_bytes(sizes.total.log_bytes)
    caption = f"{counted(sizes.waiting, 'file slice')} of {sizes.total.groups:,} with logs, {size}"
    return table(caption, heads, rows)


def _log_range(bin_: LogBin) -> str:
    if bin_.high is None:
        return f"{bin_.low} or more"
    if bin_.low == bin_.high:
        return "none" if not bin_.low else str(bin_.low)
    return f"{bin_.low} to {bin_.high}"


def _longest_slices(sizes: FileSizes) -> Html:
    heads = [Head("file id"), Head("logs", "right"), Head("log size", "right"), Head("base and logs", "bar")]
    heads += [Head("base size", "right"), Head("partition", "wrap"), Head("base instant")]
    most = max(slice_.base_bytes + slice_.log_bytes for slice_ in sizes.slices) or 1
    rows = [
        [
            tag("code", name(slice_.file_id)),
            f"{slice_.log_files:,}",
            show_bytes(slice_.log_bytes),
            bar((slice_.base_bytes / most, "write"), (slice_.log_bytes / most, "wait")),
            show_bytes(slice_.base_bytes),
            partition_name(slice_.partition),
            tag("code", name(slice_.base_instant)),
        ]
        for slice_ in sizes.slices
    ]
    rest: list[Content] = []
    if sizes.waiting > len(sizes.slices):
        rest = [f"and {sizes.waiting - len(sizes.slices):,} more", "", "", "", "", "", ""]
    return table("File slices with the most bytes of logs", heads, rows, rest=rest)
