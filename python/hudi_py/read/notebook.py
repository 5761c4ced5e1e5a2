"""A scan in a notebook."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hudi_py.markup import Content, Html, folded, named, view
from hudi_py.model.words import counted, show_bytes
from hudi_py.read.plan import ScanPlan
from hudi_py.schema import META_FIELDS

_MAX_COLUMNS: Final = 100


def scan_view(plan: ScanPlan, *, query_type: str, state: str, limit: int | None) -> Html:
    """What a scan will read; reads nothing. For the arguments see `read.explain.explain_plan`."""
    spec = plan.spec
    merged = sum(split.merged for split in plan.splits)
    logs = f", {merged:,} of them merged with logs" if merged else ""
    facts: list[tuple[str, Content]] = [
        ("Path", named(spec.uri)),
        ("State", state),
        ("Filter", named(spec.filter.text) if spec.filter else None),
        ("Limit", None if limit is None else f"{limit:,}"),
        ("Partitions", f"{plan.partitions_after:,} of {plan.partitions_before:,}"),
        ("File slices", f"{len(plan.splits):,}{logs}, {show_bytes(plan.size)}"),
    ]
    steps: list[list[Content]] = [
        [step.step, f"{step.before:,} to {step.after:,} {step.what}", step.why] for step in plan.pruning
    ]
    pruned = folded("What was left out", ("by", "from", ""), steps) if steps else None
    return view("Scan", query_type.replace("_", " "), facts, columns_view(spec.output_schema), pruned)


def columns_view(schema: pa.Schema | None) -> Content:
    """Columns of users and their types."""
    fields = [field for field in schema or () if field.name not in META_FIELDS]
    rows: list[list[Content]] = [[named(field.name), named(field.type)] for field in fields[:_MAX_COLUMNS]]
    if len(fields) > len(rows):
        rows.append([f"and {len(fields) - len(rows):,} more", ""])
    return folded(counted(len(fields), "column"), ("column", "type"), rows) if rows else None
