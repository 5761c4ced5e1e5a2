"""Section of the page about files: partitions, sizes, logs waiting."""

from __future__ import annotations

from typing import Final

from hudi_py.markup import Content, Html, tag
from hudi_py.model.words import counted, show_bytes
from hudi_py.report.parts import Head, bar, legend, name, section, table
from hudi_py.report.sizes import FileSizes, LogBin, PartitionSize, SizeBin
from hudi_py.report.summary import Report

_NOT_PARTITIONED: Final = "(not partitioned)"


def files(report: Report) -> Html:
    """Partitions, file groups and slices."""
    found = report.files
    if not found.total.groups:
        return section("files", "Files", tag("p", "There are no data files.", class_="note"))
    parts: list[Content] = [tag("p", _sentence(report), class_="note"), _partitions(found)]
    kinds = [("write", "base files")]
    if found.total.log_files:
        kinds.append(("wait", "logs, which wait for a compaction"))
    parts.append(legend(*kinds))
    sizes = [tag("h3", "Base files by size"), _sizes(found), legend(("write", "full enough"), ("wait", "small"))]
    pair: list[Content] = [tag("div", sizes)] if found.sizes else []
    if found.total.log_files:
        pair.append(tag("div", tag("h3", "File slices by number of logs"), _logs(found)))
    parts.append(tag("div", pair, class_="pair"))
    if found.slices:
        parts += [tag("h3", "Most logs waiting"), _longest(found)]
    return section("files", "Files", *parts)


def partition_name(path: str) -> Content:
    return name(path) if path else tag("span", _NOT_PARTITIONED, class_="soft")


def _sentence(report: Report) -> str:
    found, total = report.files, report.files.total
    text = (
        f"{counted(total.groups, 'file group')} in {counted(found.num_partitions, 'partition')}, "
        f"{show_bytes(total.bytes)} in the newest file slices."
    )
    if found.spread is not None:
        low, median, high, most = (show_bytes(each) for each in found.spread)
        text += f" Base files: least {low}, median {median}, 95 % below {high}, greatest {most}."
    if report.older is not None and report.older.slices:
        text += (
            f" Older versions kept for time travel: {counted(report.older.slices, 'file slice')}, "
            f"{show_bytes(report.older.bytes)}."
        )
    return text


def _partitions(found: FileSizes) -> Html:
    names = ("file groups", "base files", "base size", "logs", "log size", "small files")
    heads = [Head("partition", "wrap"), Head("size", "right"), Head("base and logs", "bar")]
    heads += [Head(text, "right") for text in names]
    most = max(each.bytes for each in found.partitions) or 1

    def cells(title: Content, each: PartitionSize, drawn: bool) -> list[Content]:
        shares = bar((each.base_bytes / most, "write"), (each.log_bytes / most, "wait")) if drawn else ""
        logs = [f"{each.log_files:,}", show_bytes(each.log_bytes)] if each.log_files else ["", ""]
        small = f"{each.small_files:,}" if each.small_files else ""
        groups = [f"{each.groups:,}", f"{each.base_files:,}", show_bytes(each.base_bytes)]
        return [title, show_bytes(each.bytes), shares, *groups, *logs, small]

    rows = [cells(partition_name(each.name or ""), each, True) for each in found.partitions]
    rest: list[Content] = []
    if found.others is not None:
        count = found.num_partitions - len(found.partitions)
        rest = cells(f"and {counted(count, 'more partition')}", found.others, False)
    return table("Partitions, the largest first: their newest file slices", heads, rows, rest=rest)


def _sizes(found: FileSizes) -> Html:
    most = max(each.files for each in found.sizes) or 1
    heads = [Head("size"), Head("base files", "right"), Head("share", "bar"), Head("total", "right")]
    rows = []
    for each in found.sizes:
        small = each.high is not None and each.high <= found.small_limit
        drawn = bar((each.files / most, "wait" if small else "write"))
        rows.append([_size_range(each), f"{each.files:,}", drawn, show_bytes(each.bytes)])
    caption = (
        f"{counted(found.total.small_files, 'base file')} of {found.total.base_files:,}, "
        f"{show_bytes(found.small_bytes)}, are small: below {show_bytes(found.small_limit)}"
    )
    return table(caption, heads, rows)


def _size_range(each: SizeBin) -> str:
    if each.high is None:
        return f"{show_bytes(each.low)} or more"
    return f"{show_bytes(each.low)} to {show_bytes(each.high)}" if each.low else f"below {show_bytes(each.high)}"


def _logs(found: FileSizes) -> Html:
    most = max(each.slices for each in found.logs) or 1
    heads = [Head("logs"), Head("file slices", "right"), Head("share", "bar"), Head("log size", "right")]
    rows = [
        [
            _log_range(each),
            f"{each.slices:,}",
            bar((each.slices / most, "wait" if each.low else "write")),
            show_bytes(each.log_bytes) if each.low else "",
        ]
        for each in found.logs
    ]
    size = show_bytes(found.total.log_bytes)
    caption = f"{counted(found.waiting, 'file slice')} of {found.total.groups:,} with logs, {size}"
    return table(caption, heads, rows)


def _log_range(each: LogBin) -> str:
    if each.high is None:
        return f"{each.low} or more"
    if each.low == each.high:
        return "none" if not each.low else str(each.low)
    return f"{each.low} to {each.high}"


def _longest(found: FileSizes) -> Html:
    heads = [Head("file id"), Head("logs", "right"), Head("log size", "right"), Head("base and logs", "bar")]
    heads += [Head("base size", "right"), Head("partition", "wrap"), Head("base instant")]
    most = max(each.base_bytes + each.log_bytes for each in found.slices) or 1
    rows = [
        [
            tag("code", name(each.file_id)),
            f"{each.log_files:,}",
            show_bytes(each.log_bytes),
            bar((each.base_bytes / most, "write"), (each.log_bytes / most, "wait")),
            show_bytes(each.base_bytes),
            partition_name(each.partition),
            tag("code", name(each.base_instant)),
        ]
        for each in found.slices
    ]
    rest: list[Content] = []
    if found.waiting > len(found.slices):
        rest = [f"and {found.waiting - len(found.slices):,} more", "", "", "", "", "", ""]
    return table("File slices with the most bytes of logs", heads, rows, rest=rest)
