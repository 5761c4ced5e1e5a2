"""Random writes to a table against a dict: whatever was written, a snapshot read gives what the dict holds."""

from __future__ import annotations

import shutil
import tempfile
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import hudi_py
from tests.support.choice import cases

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


class Writes(RuleBasedStateMachine):
    """`rows` is the table: (partition, id) to (ts, text). Ordering values grow with each step, so that a re-insert
    after a delete is newer than the row deleted."""

    version = 9
    table_type = "cow"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = f"{self.folder}/t"
        self.rows: dict[tuple[str, int], tuple[int, str]] = {}
        self.clean: set[tuple[str, int]] = set()
        """Keys never deleted: only for these is a late row surely ignored."""
        self.step = 10
        self.fresh = 1000

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def _write(self, operation: str, rows: list[dict[str, Any]], small: bool) -> hudi_py.WriteResult:
        options = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
        if not small:
            options["hoodie.parquet.small.file.limit"] = "0"
        return hudi_py.write(
            self.path,
            pa.Table.from_pylist(rows, SCHEMA),
            operation,
            options,
            record_key="id",
            partition_by="part",
            ordering_by="ts",
            table_type=self.table_type,
            table_version=self.version,
        )

    def _row(self, key: tuple[str, int], ts: int, text: str, deleted: bool = False) -> dict[str, Any]:
        return {"part": key[0], "id": key[1], "ts": ts, "text": text, "_hoodie_is_deleted": deleted}

    @initialize(keys=KEYS)
    def first(self, keys: list[tuple[str, int]]) -> None:
        self.upsert(keys, True, "first")

    @rule(keys=KEYS, small=st.booleans(), text=st.text(max_size=4))
    def upsert(self, keys: list[tuple[str, int]], small: bool, text: str) -> None:
        self.step += 10
        # of rows of one key the greatest ordering value wins, the later of equal ones
        rows = [self._row(key, self.step + place % 3, f"{text}{place}") for place, key in enumerate(keys)]
        best: dict[tuple[str, int], tuple[int, str]] = {}
        for key, row in zip(keys, rows, strict=True):
            if key not in best or row["ts"] >= best[key][0]:
                best[key] = (row["ts"], row["text"])
        result = self._write("upsert", rows, small)
        if self.table_type == "cow":
            known = len(best.keys() & self.rows.keys())
            assert (result.num_updated, result.num_inserted) == (known, len(best) - known)
        self.clean |= best.keys() - self.rows.keys() if self.step == 20 else set()
        self.rows |= best

    @rule(keys=KEYS)
    def late(self, keys: list[tuple[str, int]]) -> None:
        keys = [key for key in dict.fromkeys(keys) if key in self.rows and key in self.clean]
        if keys:
            result = self._write("upsert", [self._row(key, 1, "late") for key in keys], True)
            if self.table_type == "cow":
                assert result.num_updated == 0

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

    def _forget(self, keys: list[tuple[str, int]], result: hudi_py.WriteResult) -> None:
        gone = [key for key in keys if key in self.rows]
        if self.table_type == "cow":
            assert result.num_deleted == len(gone)
        self.clean -= set(keys)
        for key in gone:
            del self.rows[key]

    @rule(count=st.integers(1, 6), operation=st.sampled_from(["insert", "bulk_insert"]), small=st.booleans())
    def add(self, count: int, operation: str, small: bool) -> None:
        self.step += 10
        keys = [("a" if number % 2 else "b", self.fresh + number) for number in range(count)]
        self.fresh += count
        result = self._write(operation, [self._row(key, self.step, "new") for key in keys], small)
        assert result.num_inserted == count
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
        found = hudi_py.open_table(self.path).scan(["part", "id", "ts", "text"]).to_table().to_pylist()
        assert len(found) == len(self.rows)
        assert {(row["part"], row["id"]): (row["ts"], row["text"]) for row in found} == self.rows


@pytest.mark.parametrize(
    ("version", "table_type"),
    cases(product((6, 8, 9), ("cow", "mor")), "writes", 2, quick=[(6, "mor"), (9, "cow")]),
)
def test_writes_read_back(version: int, table_type: str) -> None:
    machine = type("Machine", (Writes,), {"version": version, "table_type": table_type})
    run_state_machine_as_test(machine, settings=settings(max_examples=4, stateful_step_count=8, deadline=None))
