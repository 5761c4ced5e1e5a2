"""Checks random writes to a table against a dict: after every write, a snapshot read must return the dict's
contents."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hudi_py.table import open_table, write

KEYS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 12)), min_size=1, max_size=8)
SCHEMA = pa.schema(
    [
        ("part", pa.string()),
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
"""The schema of all rows: the record key is `id`, the partition path `part`, the ordering field `ts`."""


@dataclass(frozen=True, slots=True)
class ReportedCounts:
    """How many rows a write changed, as counted by its writer; None if it does not count."""

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None

    def check(self, **expected: int) -> None:
        """Fails unless the known counts equal the expected ones."""
        counted = {name: getattr(self, name) for name in expected}
        assert all(counted[name] in (None, count) for name, count in expected.items()), (
            f"{counted}, expected {expected}"
        )


@dataclass(frozen=True, slots=True)
class NewTable:
    """The properties of a table, which its first write creates."""

    table_type: str = "cow"
    """`cow` or `mor`."""
    version: int = 9


class Writer(Protocol):
    """Writes to tables."""

    def write(self, path: str, rows: pa.Table, operation: str, table: NewTable, *, small_files: bool) -> ReportedCounts:
        """Writes one commit; creates the table if there is none.

        Args:
            rows: in `SCHEMA`.
            operation: `upsert`, `insert`, `bulk_insert`, `delete` or `insert_overwrite_table`.
            small_files: whether new rows may fill up small files.
        """
        ...


class Reader(Protocol):
    """Reads tables."""

    def read(self, path: str) -> pa.Table:
        """Returns the current rows, with the columns `part`, `id`, `ts` and `text` at least."""
        ...


class HudiPy:
    """hudi-py as writer and reader."""

    def write(self, path: str, rows: pa.Table, operation: str, table: NewTable, *, small_files: bool) -> ReportedCounts:
        options = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
        if not small_files:
            options["hoodie.parquet.small.file.limit"] = "0"
        result = write(
            path,
            rows,
            operation,
            options,
            record_key="id",
            partition_by="part",
            ordering_by="ts",
            table_type=table.table_type,
            table_version=table.version,
        )
        if table.table_type == "mor" and operation in ("upsert", "delete"):
            return ReportedCounts()  # logs count their contents
        return ReportedCounts(result.num_inserted, result.num_updated, result.num_deleted)

    def read(self, path: str) -> pa.Table:
        return open_table(path).scan(["part", "id", "ts", "text"]).to_table()


class Writes(RuleBasedStateMachine):
    """`rows` is the table: (partition, id) to (ts, text). Ordering values grow with each step, so that a re-insert
    after a delete is newer than the row deleted."""

    writers: Sequence[Writer] = (HudiPy(),)
    """They take turns."""
    readers: Sequence[Reader] = (HudiPy(),)
    """Each reads the table after each write."""
    table = NewTable()

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = f"{self.folder}/t"
        self.rows: dict[tuple[str, int], tuple[int, str]] = {}
        self.clean: set[tuple[str, int]] = set()
        """Keys that were never deleted: only for these is a late row certainly ignored."""
        self.step = 10
        self.fresh = 1000
        self.commits = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def _write(self, operation: str, rows: list[dict[str, Any]], small: bool) -> ReportedCounts:
        writer = self.writers[self.commits % len(self.writers)]
        self.commits += 1
        return writer.write(self.path, pa.Table.from_pylist(rows, SCHEMA), operation, self.table, small_files=small)

    def _row(self, key: tuple[str, int], ts: int, text: str, deleted: bool = False) -> dict[str, Any]:
        return {"part": key[0], "id": key[1], "ts": ts, "text": text, "_hoodie_is_deleted": deleted}

    @initialize(keys=KEYS)
    def first(self, keys: list[tuple[str, int]]) -> None:
        self.upsert(keys, True, "first")

    @rule(keys=KEYS, small=st.booleans(), text=st.text(max_size=4))
    def upsert(self, keys: list[tuple[str, int]], small: bool, text: str) -> None:
        self.step += 10
        # among rows of one key the greatest ordering value wins, the later one of equal values
        rows = [self._row(key, self.step + place % 3, f"{text}{place}") for place, key in enumerate(keys)]
        best: dict[tuple[str, int], tuple[int, str]] = {}
        for key, row in zip(keys, rows, strict=True):
            if key not in best or row["ts"] >= best[key][0]:
                best[key] = (row["ts"], row["text"])
        known = len(best.keys() & self.rows.keys())
        self._write("upsert", rows, small).check(updated=known, inserted=len(best) - known)
        self.clean |= best.keys() - self.rows.keys() if self.step == 20 else set()
        self.rows |= best

    @rule(keys=KEYS)
    def late(self, keys: list[tuple[str, int]]) -> None:
        keys = [key for key in dict.fromkeys(keys) if key in self.rows and key in self.clean]
        if keys:
            self._write("upsert", [self._row(key, 1, "late") for key in keys], True).check(updated=0)

    @rule(keys=KEYS, small=st.booleans())
    def mark_deleted(self, keys: list[tuple[str, int]], small: bool) -> None:
        self.step += 10
        keys = list(dict.fromkeys(keys))
        result = self._write("upsert", [self._row(key, self.step, "x", True) for key in keys], small)
        self._forget(keys, result)

    @rule(keys=KEYS)
    def delete(self, keys: list[tuple[str, int]]) -> None:
        self.step += 10
        keys = list(dict.fromkeys(keys))
        result = self._write("delete", [self._row(key, 0, "x") for key in keys], True)
        self._forget(keys, result)

    def _forget(self, keys: list[tuple[str, int]], result: ReportedCounts) -> None:
        gone = [key for key in keys if key in self.rows]
        result.check(deleted=len(gone))
        self.clean -= set(keys)
        for key in gone:
            del self.rows[key]

    @rule(count=st.integers(1, 6), operation=st.sampled_from(["insert", "bulk_insert"]), small=st.booleans())
    def add(self, count: int, operation: str, small: bool) -> None:
        self.step += 10
        keys = [("a" if number % 2 else "b", self.fresh + number) for number in range(count)]
        self.fresh += count
        self._write(operation, [self._row(key, self.step, "new") for key in keys], small).check(inserted=count)
        self.rows |= dict.fromkeys(keys, (self.step, "new"))

    @rule(keys=KEYS)
    def overwrite(self, keys: list[tuple[str, int]]) -> None:
        self.step += 10
        keys = list(dict.fromkeys(keys))
        self._write("insert_overwrite_table", [self._row(key, self.step, "over") for key in keys], True)
        self.rows = dict.fromkeys(keys, (self.step, "over"))
        self.clean = set(keys)

    @invariant()
    def reads_as_written(self) -> None:
        if not self.rows and self.step == 10:
            return
        for reader in self.readers:
            rows = reader.read(self.path).select(["part", "id", "ts", "text"]).to_pylist()
            assert len(rows) == len(self.rows), f"{len(rows)} rows, expected {len(self.rows)}"
            assert {(row["part"], row["id"]): (row["ts"], row["text"]) for row in rows} == self.rows


def check_writes(
    table: NewTable,
    *,
    writers: Sequence[Writer] = (HudiPy(),),
    readers: Sequence[Reader] = (HudiPy(),),
    examples: int = 20,
    steps: int = 20,
) -> None:
    """Lets writers take turns on a table, and compares what each reader finds after each commit with a dict.

    Args:
        examples: tables to make.
        steps: commits to each, at most.

    Raises:
        AssertionError: a reader found other rows, or a writer counted wrongly. Hypothesis prints the shortest sequence
            of writes that shows it.
    """
    machine = type("Machine", (Writes,), {"table": table, "writers": writers, "readers": readers})
    given = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(machine, settings=given)
