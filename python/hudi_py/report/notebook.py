"""A table in a notebook."""

from __future__ import annotations

import pyarrow as pa

from hudi_py.markup import Content, Html, named, view
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, readable, visible
from hudi_py.read.scan import columns_view
from hudi_py.timeline.timeline import Timeline


def table_view(uri: str, config: TableConfig, timeline: Timeline | None, schema: pa.Schema | None) -> Html:
    """A few facts from properties and timeline; files are not listed. What could not be read is None."""
    kind = "merge on read" if config.is_mor else "copy on write"
    facts: list[tuple[str, Content]] = [
        ("Path", named(uri)),
        ("Record key", _names(config.record_key_fields) or "generated"),
        ("Partitioned by", _names(config.partition_fields) or "nothing"),
        ("Ordered by", _names(config.ordering_fields)),
        ("Metadata table", _names(config.metadata_partitions) or "none"),
    ]
    if timeline is not None:
        last = timeline.last_completed
        pending = f", {len(timeline.pending):,} pending" if timeline.pending else ""
        facts.append(("Timeline", counted(len(timeline.instants), "instant") + pending))
        facts.append(("Last write", None if last is None else f"{last.action.value} {readable(visible(last.time))}"))
    return view(config.name or "Hudi table", f"{kind}, table version {config.version}", facts, columns_view(schema))


def _names(names: tuple[str, ...]) -> list[Content]:
    found: list[Content] = []
    for each in names:
        found += [", " if found else None, named(each)]
    return found
