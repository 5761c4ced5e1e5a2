"""How many requests an operation takes. `docs/object-stores.md` has the figures."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.stores.proxy import Proxy
from tests.stores.servers import Server, options_for

PAGE = Path(__file__).parents[2] / "docs" / "object-stores.md"
OFF = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "1",
}
SLACK = 1.3
"""Threads share checks if they come at the same time, which depends on the machine; slow ones beat their hearts more
often."""


def rows(partitions: range, ts: int) -> pa.Table:
    numbers = range(partitions.start * 4, partitions.stop * 4)
    listed = [{"id": f"k{number}", "ts": ts, "part": f"p{number // 4}"} for number in numbers]
    return pa.Table.from_pylist(listed)


def measured(s3: Server, bucket: str, proxy: Proxy, kind: str) -> dict[str, int]:
    """Requests of each operation on a table with 10 partitions and a metadata table."""
    path, options = f"{bucket}/t", options_for(proxy.url)
    more = {"record_key": "id", "partition_by": "part", "ordering_by": "ts", "table_type": kind}
    hudi_py.write(path, rows(range(10), 1), options=OFF, **more, storage_options=s3.options)
    table = hudi_py.open_table(path, OFF, storage_options=options)
    counts: dict[str, int] = {}

    def count(name: str) -> None:
        counts[name] = len(proxy.requests)
        proxy.reset()

    table.upsert(rows(range(1), 2))  # finds out that the store honours conditions
    proxy.reset()
    hudi_py.open_table(path, OFF, storage_options=options)
    count("open")
    table.scan(filter="part = 'p3'").to_table()
    count("snapshot of 1 partition of 10")
    table.scan().to_table()
    count("snapshot of 10 partitions")
    table.upsert(rows(range(1), 3))
    count("upsert to 1 partition of 10")
    table.upsert(rows(range(10), 4))
    count("upsert to 10 partitions")
    if kind == "mor":
        assert table.compact().instant is not None
        count("compaction of 10 file groups")
        table.upsert(rows(range(10), 5))
        table.compact()
        proxy.reset()
    assert table.clean().instant is not None
    count("clean of 10 partitions")
    return counts


def documented() -> dict[str, dict[str, int]]:
    """The figures of the page, by kind of table."""
    found: dict[str, dict[str, int]] = {"cow": {}, "mor": {}}
    for name, cow, mor in re.findall(
        r"^\| ([a-z].*?) \| +(\d*|-) \| +(\d*|-) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    ):
        for kind, figure in (("cow", cow), ("mor", mor)):
            if figure != "-":
                found[kind][name] = int(figure)
    return found


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_operations_take_no_more_requests_than_documented(s3: Server, bucket: str, proxy: Proxy, kind: str) -> None:
    counts, figures = measured(s3, bucket, proxy, kind), documented()[kind]
    assert counts.keys() == figures.keys(), counts
    too_many = {name: (count, figures[name]) for name, count in counts.items() if count > figures[name] * SLACK}
    assert not too_many, f"operation: (requests, documented): {too_many}; all: {counts}"
    assert counts["open"] == 1
