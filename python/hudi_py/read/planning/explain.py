"""Formats a plan: the files it reads, those it prunes, and why."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from hudi_py.model.words import counted, show_bytes, visible
from hudi_py.read.planning.plan import ScanPlan
from hudi_py.read.split import ChangeSplit, Split

_log = logging.getLogger(__name__)

_MAX_SPLITS = 50


def explain_plan(plan: ScanPlan, *, query_type: str, state: str, limit: int | None) -> str:
    """Describes a scan: columns, filter, what each planning step pruned, and the file slices to read.

    Args:
        state: describes the state or range of the table that is read.
    """
    spec = plan.spec
    lines = [
        f"Scan of {spec.uri} ({query_type}, {state})",
        f"  columns     {len(spec.columns)} of {len(spec.table_schema)}: {', '.join(spec.columns)}",
        f"  filter      {spec.filter.text if spec.filter else '-'}",
    ]
    if plan.note is not None:
        lines.insert(1, f"  note        {plan.note}")
    if spec.keys is not None:
        lines.append(f"  keys        {_shown_keys(sorted(spec.keys))}")
    lines += [
        f"  limit       {'-' if limit is None else limit}",
        f"  listed by   {plan.listed_by}",
        f"  partitions  {plan.partitions_after} of {plan.partitions_before}",
    ]
    lines += _pruning_lines(plan)
    if any(isinstance(split, ChangeSplit) for split in plan.splits):
        lines.append(f"  groups      {len(plan.splits)}, {show_bytes(plan.size)}")
    else:
        merged = sum(split.merged for split in plan.splits)
        lines.append(f"  slices      {len(plan.splits)}, {merged} of them merged with logs, {show_bytes(plan.size)}")
    if spec.mode != "merge":
        lines.append(f"  mode        {spec.mode}{', deletes are rows' if spec.emit_deletes else ''}")
    elif spec.logs is not None:
        settings = spec.logs.merge
        ordering = ", ".join(settings.ordering_fields)
        lines.append(f"  merge       {settings.mode}{f' by {ordering}' if ordering else ''}")
    if any(not split.merged for split in plan.splits) and spec.filter is not None:
        lines.append("  row groups  of slices without logs are left out by the statistics in their footers when read")
    lines += _split_lines(plan)
    return "\n".join(map(visible, lines))


def _pruning_lines(plan: ScanPlan) -> Iterator[str]:
    """Yields a line for each step that could prune something."""
    if plan.pruning:
        yield "  left out by"
    width = max((len(step.step) for step in plan.pruning), default=0)
    for step in plan.pruning:
        why = f"  ({step.why})" if step.why else ""
        yield f"    {step.step:<{width}}  {step.before:,} -> {step.after:,} {step.what}{why}"


def _split_lines(plan: ScanPlan) -> Iterator[str]:
    """Yields a line for each of the first splits."""
    for split in plan.splits[:_MAX_SPLITS]:
        yield f"    {split.partition or '.'}/{split.file_id}  {_split_kind(split)}  {show_bytes(split.size)}"
    if len(plan.splits) > _MAX_SPLITS:
        yield f"    ... and {len(plan.splits) - _MAX_SPLITS:,} more"


def log_plan(plan: ScanPlan, state: str, seconds: float) -> None:
    """Logs a plan without the values in its filter and keys, which may be private."""
    uri = plan.spec.uri
    if plan.note is not None:
        _log.warning("reading %s: %s", uri, plan.note)
    if not _log.isEnabledFor(logging.INFO):
        return
    for step in plan.pruning:
        _log.debug("scan of %s: %s: %d -> %d %s", uri, step.step, step.before, step.after, step.what)
    _log.info(
        "scan of %s (%s): %d of %s, %s, %s, listed by %s, planned in %.3f s",
        *(uri, state, plan.partitions_after, counted(plan.partitions_before, "partition")),
        *(counted(len(plan.splits), "split"), show_bytes(plan.size), plan.listed_by, seconds),
    )


def _split_kind(split: Split) -> str:
    if isinstance(split, ChangeSplit):
        return f"changes of {len(split.changes)} commits"
    if not split.merged:
        return "base"
    return f"base + {len(split.log_files)} log" if split.base_file else f"{len(split.log_files)} log"


def _shown_keys(keys: Sequence[str]) -> str:
    more = f", ... ({len(keys):,} in all)" if len(keys) > 3 else ""
    return ", ".join(keys[:3]) + more
