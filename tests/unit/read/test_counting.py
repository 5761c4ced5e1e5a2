"""Counts, and merges of log rows, that read less of a base file than its rows."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.merge import LogMemory
from hudi_py.read import Split
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.slices.parts import added_rows
from hudi_py.read.slices.task import count_split
from hudi_py.storage import open_storage
from hudi_py.storage.threads import REQUESTS, default_threads
from tests.support.splits import with_memory

COUNT = 20
INT, LONG, DAY, TIME, TEXT = pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC"), pa.string()


def written(path: Path, kind: pa.DataType, before: list[Any], after: list[Any]) -> str:
    """Rows 0.. with these ordering values, then those of `after` for rows 0.. in a log."""
    for version, values in enumerate((before, after)):
        data = {
            "id": pa.array(range(len(values))),
            "o": pa.array(values, kind),
            "v": pa.repeat(pa.scalar(version), len(values)),
        }
        made: dict[str, Any] = {} if version else {"table_type": "mor", "record_key": "id", "ordering_by": "o"}
        hudi_py.write(str(path), pa.table(data), "upsert", **made)
    return str(path)


def only_split(path: str, columns: list[str] | None = None) -> Split:
    (split,) = hudi_py.open_table(path).scan(columns).splits()
    return split


@pytest.fixture
def base_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns of each read of a base file."""
    found: list[str] = []

    def noting(reader: BaseFileReader, schema: pa.Schema, **given: Any) -> Any:
        found.append(" ".join(schema.names))
        return batches(reader, schema, **given)

    batches = BaseFileReader.batches
    monkeypatch.setattr(BaseFileReader, "batches", noting)
    return found


MOMENT = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)
CASES: dict[str, tuple[pa.DataType, list[Any], list[Any], bool]] = {
    # the type, values in the base file, values in the log, whether statistics tell that the log wins
    "greater": (LONG, [1] * 4, [2, 3], True),
    "equal": (LONG, [1, 7], [7], True),
    "one is late": (LONG, [5] * 4, [6, 4], False),
    "below the greatest, though not of that key": (LONG, [1, 9], [2], False),
    "nulls in the base file": (LONG, [None, 1], [2], True),
    "nulls in the log": (INT, [1, 2], [3, None], False),
    "nulls as 0": (INT, [None, -5], [-1], False),
    "int": (INT, [1], [2], True),
    "days": (DAY, [date(2024, 2, 28)], [date(2024, 2, 29)], True),
    "late days": (DAY, [date(2024, 2, 29)], [date(2024, 2, 28)], False),
    "times": (TIME, [MOMENT], [MOMENT.replace(hour=13)], True),
    "late times": (TIME, [MOMENT], [MOMENT.replace(hour=11)], False),
    "text, whose statistics may be cut": (TEXT, ["a"], ["b"], False),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_log_rows_that_surely_win(tmp_path: Path, base_reads: list[str], case: str) -> None:
    kind, before, after, sure = CASES[case]
    path = written(tmp_path / "t", kind, before, after)
    rows = hudi_py.open_table(path).scan().to_table()
    split = only_split(path)
    base_reads.clear()
    added = pa.Table.from_batches(list(added_rows(open_storage(path), split)), split.output_schema)
    assert (base_reads == []) is sure
    newer = rows.filter(pa.compute.equal(rows["v"], 1))
    assert sorted(added["id"].to_pylist()) == sorted(newer["id"].to_pylist())
    assert (newer.num_rows == len(after)) or not sure


def test_counts_of_merges(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = [{"id": n, "o": 1, "v": n} for n in range(COUNT)]
    hudi_py.write(path, rows, record_key="id", ordering_by="o", table_type="mor")
    hudi_py.write(path, [{"id": n, "o": 2, "v": -n} for n in range(15, COUNT + 5)])
    hudi_py.write(path, [{"id": n, "o": 3, "v": 0} for n in (1, 22, 99)], "delete")
    table = hudi_py.open_table(path)
    scan = table.scan()
    assert scan.count() == scan.to_table().num_rows == COUNT + 3
    storage, spilling = open_storage(path), LogMemory(limit=1)
    assert sum(count_split(storage, with_memory(split, spilling)) for split in scan.splits()) == COUNT + 3
    assert table.scan(["v"], filter="v < 0").count() == 9
    assert table.scan(limit=4).count() == 4
    first = table.history()["completion_time"][0].as_py()
    assert table.scan(query_type="incremental", begin=first).count() == 9
    optimized = table.scan(query_type="read_optimized")
    assert optimized.count() == optimized.to_table().num_rows


def test_a_limited_count_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def counting(*arguments: Any) -> int:
        counted.append(arguments)
        return count_split(*arguments)

    counted: list[Any] = []
    path = str(tmp_path / "t")
    rows = [{"id": n, "p": n // 2, "v": n} for n in range(80)]
    hudi_py.write(path, rows, record_key="id", partition_by="p", table_type="mor")
    monkeypatch.setattr("hudi_py.read.scan.count_split", counting)
    table = hudi_py.open_table(path)
    assert [table.scan(limit=limit).count() for limit in (0, 1, 40, 79, 1000)] == [0, 1, 40, 79, 80]
    counted.clear()
    assert table.scan(limit=3).count() == 3
    assert len(counted) == REQUESTS
    hudi_py.write(path, [{"id": n, "p": n // 2, "v": -n} for n in range(0, 80, 2)])
    counted.clear()
    assert table.scan(limit=3).count() == 3
    assert len(counted) == default_threads()
