"""Random writes to a table against a dict; and the machine notices faults."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import ClassVar

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.testing.machine import HudiPy, NewTable, ReportedCounts, Writes, check_writes
from tests.support.choice import cases


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "table_type"),
    cases(product((6, 8, 9), ("cow", "mor")), "writes", 2, quick=[(6, "mor"), (9, "cow")]),
)
def test_writes_read_back(version: int, table_type: str) -> None:
    check_writes(NewTable(table_type, version), examples=4, steps=8)


class _Buckets(HudiPy):
    """Writes with a bucket index, and changes the buckets after every third write."""

    options: ClassVar[dict[str, str]] = {
        "hoodie.time.generator.max_expected_clock_skew_ms": "1",
        "hoodie.py.write.durable": "false",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "3",
    }

    def __init__(self) -> None:
        self._writes = Counter[str]()

    def write(self, path: str, rows: pa.Table, operation: str, table: NewTable, *, small_files: bool) -> ReportedCounts:
        made = {"record_key": "id", "partition_by": "part", "ordering_by": "ts", "table_type": table.table_type}
        hudi_py.write(path, rows, operation, self.options, **made, table_version=table.version)
        self._writes[path] += 1
        if self._writes[path] % 3 == 0:
            self.change(hudi_py.open_table(path, self.options), self._writes[path] // 3)
        return ReportedCounts()  # a bucket is not asked which keys it has

    def change(self, table: hudi_py.Table, turn: int) -> None:
        if turn % 3 == 2 and table.table_type == "MERGE_ON_READ":
            table.compact()
        table.rescale_buckets(f"a,{turn % 4 + 1}", buckets=turn % 2 + 2)


class _HashBuckets(_Buckets):
    options: ClassVar[dict[str, str]] = {
        **_Buckets.options,
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.max.num.buckets": "6",
        "hoodie.bucket.index.min.num.buckets": "1",
        "hoodie.parquet.max.file.size": "100",
    }

    def change(self, table: hudi_py.Table, turn: int) -> None:
        if turn % 3 == 2:
            table.compact()
        splits = turn % 2
        sizes = {"split": "0" if splits else "1000", "merge": "0" if splits else "1000"}
        table.resize_buckets(options={f"hoodie.bucket.index.{key}.threshold": size for key, size in sizes.items()})


class _Clustered(_Buckets):
    options: ClassVar[dict[str, str]] = {
        "hoodie.time.generator.max_expected_clock_skew_ms": "1",
        "hoodie.py.write.durable": "false",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.parquet.small.file.limit": "0",
    }

    def change(self, table: hudi_py.Table, turn: int) -> None:
        if turn % 3 == 2 and table.table_type == "MERGE_ON_READ":
            table.compact()
        table.cluster("part,ts" if turn % 2 else (), layout="hilbert" if turn % 4 == 1 else "linear")


FORMS: tuple[tuple[type[_Buckets], str], ...] = (
    (_Buckets, "cow"),
    (_Buckets, "mor"),
    (_HashBuckets, "mor"),
    (_Clustered, "cow"),
    (_Clustered, "mor"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "form"), cases(product((6, 8, 9), range(len(FORMS))), "bucket writes", 1))
def test_writes_and_changes_of_files_read_back(version: int, form: int) -> None:
    writer, kind = FORMS[form]
    check_writes(NewTable(kind, version), writers=(writer(),), examples=4, steps=8)


class _Forgetful(HudiPy):
    """Leaves out the last row."""

    def read(self, path: str) -> pa.Table:
        rows = super().read(path)
        return rows.slice(0, max(rows.num_rows - 1, 0))


class _Boastful(HudiPy):
    """Counts a row too many."""

    def write(self, path: str, rows: pa.Table, operation: str, table: NewTable, *, small_files: bool) -> ReportedCounts:
        done = super().write(path, rows, operation, table, small_files=small_files)
        return ReportedCounts(inserted=(done.inserted or 0) + 1)


def test_a_reader_that_loses_a_row_is_noticed() -> None:
    class Machine(Writes):
        readers = (HudiPy(), _Forgetful())

    found = Machine()
    found.first([("a", 1)])
    with pytest.raises(AssertionError, match="0 rows, expected 1"):
        found.reads_as_written()
    found.teardown()


def test_a_writer_that_counts_wrongly_is_noticed() -> None:
    class Machine(Writes):
        writers = (HudiPy(), _Boastful())

    found = Machine()
    found.first([("a", 1)])
    with pytest.raises(AssertionError, match="'inserted': 2.*expected .*'inserted': 1"):
        found.upsert([("a", 1), ("b", 2)], True, "second")
    found.teardown()
