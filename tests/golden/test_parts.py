"""Slices of the golden tables merged in parts: base rows less those replaced, and the rows added, are all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.merge import LogMemory
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.slices.parts import CHUNK_ROWS, added_rows, replaced_rows
from hudi_py.read.slices.reader import SliceReader
from hudi_py.read.slices.task import count_split
from hudi_py.read.split import Split
from hudi_py.schema import COMMIT_TIME
from hudi_py.storage import Storage, open_storage
from hudi_py.testing.rows import assert_rows_equal
from tests.golden.expectations import asked, options_of, refusal
from tests.golden.tables import Expected, Extracted
from tests.support.choice import covering
from tests.support.splits import with_memory

pytestmark = pytest.mark.slow  # tests/connector/test_native_plan.py has quick ones

KINDS = ("snapshot", "time_travel", "incremental")


def queries() -> list[Any]:
    found = [query for query in asked() if query.kind in KINDS and not query.error and not refusal(query)]
    found = [query for query in found if "_mor_" in query.table]
    chosen = set(covering([(query.table, query.kind) for query in found], "merges in parts", 30))
    return [
        pytest.param(query, id=query.id, marks=() if at in chosen else pytest.mark.long)
        for at, query in enumerate(found)
    ]


def scan_of(path: str, query: Expected, columns: list[str] | None) -> hudi_py.Scan:
    chosen: dict[str, Any] = {"as_of": query.as_of}
    if query.kind == "incremental":
        chosen = {"query_type": query.kind, "begin": query.begin, "end": query.end}
    options = options_of(query)
    return hudi_py.open_table(path).scan(columns, options=options, **chosen)


def kept(storage: Storage, split: Split) -> pa.Table:
    """The base rows that are not replaced, of the commits asked for."""
    assert split.base_file is not None
    spec = split.spec
    schema = spec.read_schema()
    with BaseFileReader(storage, split.base_file, spec.history) as reader:
        table = pa.Table.from_batches(list(reader.batches(schema)), schema)
    gone = np.zeros(table.num_rows, np.bool_)
    for batch in replaced_rows(storage, split):
        assert set(batch.column("file").to_pylist()) == {str(split.base_file.name)}
        for chunk, words in zip(batch.column("chunk").to_pylist(), batch.column("bits"), strict=True):
            bits = np.unpackbits(words.values.to_numpy().view(np.uint8), bitorder="little").astype(np.bool_)
            assert bits.any()
            start = chunk * CHUNK_ROWS
            end = min(start + len(bits), len(gone))
            assert not bits[end - start :].any()
            gone[start:end] = bits[: end - start]
    return table.filter(pa.array(~gone))


def of_range(table: pa.Table, split: Split) -> pa.Table:
    times = split.spec.commit_times
    return table if times is None else table.filter(pc.is_in(table[COMMIT_TIME], pa.array(sorted(times), pa.string())))


def assert_parts_are_whole(storage: Storage, split: Split) -> None:
    schema = split.spec.read_schema()
    with SliceReader(storage, split) as reader:
        whole = of_range(pa.Table.from_batches(list(reader.rows()), schema), split)
    added = of_range(pa.Table.from_batches(list(added_rows(storage, split)), schema), split)
    assert_rows_equal(pa.concat_tables([of_range(kept(storage, split), split), added]), whole)
    assert count_split(storage, split) == whole.num_rows


@pytest.mark.filterwarnings("ignore:Rows are missing or old")
@pytest.mark.parametrize("query", queries())
def test_parts_are_the_slice(golden: Extracted, query: Expected) -> None:
    path = str(golden(query.table))
    storage = open_storage(path)
    every = scan_of(path, query, None)
    for scan in (every, scan_of(path, query, every.schema.names[-2:])):
        for split in scan.splits():
            if split.base_file is None or not split.log_files or split.spec.mode != "merge" or split.partition_values:
                continue
            assert_parts_are_whole(storage, split)
            assert_parts_are_whole(storage, with_memory(split, LogMemory(limit=1)))
