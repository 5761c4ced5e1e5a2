"""Random writes to a table against a dict; and the machine notices faults."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from hudi_py.testing.machine import Changed, HudiPy, NewTable, Writes, check_writes
from tests.support.choice import cases


@pytest.mark.parametrize(
    ("version", "table_type"),
    cases(product((6, 8, 9), ("cow", "mor")), "writes", 2, quick=[(6, "mor"), (9, "cow")]),
)
def test_writes_read_back(version: int, table_type: str) -> None:
    check_writes(NewTable(table_type, version), examples=4, steps=8)


class _Forgetful(HudiPy):
    """Leaves out the last row."""

    def read(self, path: str) -> pa.Table:
        rows = super().read(path)
        return rows.slice(0, max(rows.num_rows - 1, 0))


class _Boastful(HudiPy):
    """Counts a row too many."""

    def write(self, path: str, rows: pa.Table, operation: str, table: NewTable, *, small_files: bool) -> Changed:
        done = super().write(path, rows, operation, table, small_files=small_files)
        return Changed(inserted=(done.inserted or 0) + 1)


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
