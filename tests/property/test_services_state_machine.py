"""Random writes and table services against a dict: services change no row, and what they take away is told."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import hudi_py
from tests.support.choice import cases

pytestmark = pytest.mark.slow  # tests/property/test_write_state_machine.py is quick

KEYS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)), min_size=1, max_size=6, unique=True)
SCHEMA = pa.schema([("part", pa.string()), ("id", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
Rows = dict[tuple[str, int], tuple[int, str]]
QUIET = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
INLINE = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}


class Services(RuleBasedStateMachine):
    """`rows` is the table; `past` the rows after each write that is on the active timeline."""

    version = 9
    table_type = "mor"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = f"{self.folder}/t"
        self.rows: Rows = {}
        self.past: list[tuple[str, Rows]] = []
        self.saved: dict[str, Rows] = {}
        self.step = 10

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def table(self) -> hudi_py.Table:
        return hudi_py.open_table(self.path)

    def _write(self, operation: str, keys: list[tuple[str, int]], inline: bool) -> None:
        self.step += 1
        rows = [{"part": part, "id": f"{part}{key}", "ts": self.step, "text": f"{self.step}"} for part, key in keys]
        result = hudi_py.write(
            self.path,
            pa.Table.from_pylist(rows, SCHEMA),
            operation,
            {**(INLINE if inline else QUIET), "hoodie.metadata.record.index.enable": "true"},
            record_key="id",
            partition_by="part",
            ordering_by="ts",
            table_type=self.table_type,
            table_version=self.version,
        )
        assert result.instant is not None
        if operation == "delete":
            self.rows = {key: row for key, row in self.rows.items() if key not in keys}
        elif operation == "insert_overwrite_table":
            self.rows = dict.fromkeys(keys, (self.step, f"{self.step}"))
        else:
            self.rows = {**self.rows, **dict.fromkeys(keys, (self.step, f"{self.step}"))}
        self.past.append((result.instant, self.rows))

    @initialize(keys=KEYS)
    def first(self, keys: list[tuple[str, int]]) -> None:
        self._write("upsert", keys, False)

    @rule(keys=KEYS, inline=st.booleans())
    def upsert(self, keys: list[tuple[str, int]], inline: bool) -> None:
        self._write("upsert", keys, inline)

    @rule(keys=KEYS, inline=st.booleans())
    def delete(self, keys: list[tuple[str, int]], inline: bool) -> None:
        self._write("delete", keys, inline)

    @rule(keys=KEYS)
    def overwrite(self, keys: list[tuple[str, int]]) -> None:
        self._write("insert_overwrite_table", keys, False)

    @rule()
    def compact(self) -> None:
        self.table.compact(options=QUIET)

    @rule()
    def plan_compaction(self) -> None:
        if self.table_type == "mor" and not self.table.compaction.pending():
            self.table.compaction.schedule()

    @rule(policy=st.sampled_from(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]), kept=st.integers(1, 3))
    def clean(self, policy: str, kept: int) -> None:
        options = {
            **QUIET,
            "hoodie.cleaner.policy": policy,
            "hoodie.cleaner.commits.retained": str(kept),
            "hoodie.cleaner.fileversions.retained": str(kept),
        }
        self.table.clean(options=options)

    @rule(kept=st.integers(2, 4))
    def archive(self, kept: int) -> None:
        options = {**QUIET, "hoodie.keep.min.commits": str(kept), "hoodie.keep.max.commits": str(kept + 1)}
        options["hoodie.cleaner.commits.retained"] = "1"
        self.table.archive(options=options)

    @rule()
    def savepoint(self) -> None:
        newest, rows = self.past[-1]
        if newest in self.table.instants()["instant"].to_pylist():
            with contextlib.suppress(hudi_py.HistoryCleanedError):  # a write that came after it was rolled back
                self.table.savepoint(newest)
                self.saved[newest] = rows

    @precondition(lambda self: bool(self.saved))
    @rule(data=st.data())
    def delete_savepoint(self, data: st.DataObject) -> None:
        instant = data.draw(st.sampled_from(sorted(self.saved)))
        assert self.table.delete_savepoint(instant).instant == instant
        del self.saved[instant]

    @precondition(lambda self: bool(self.saved))
    @rule()
    def restore(self) -> None:
        instant = max(self.saved)
        self.table.restore(instant, options=QUIET)
        self.rows = self.saved[instant]
        self.past = [(time, rows) for time, rows in self.past if time <= instant]

    @rule(count=st.integers(1, 3))
    def roll_back(self, count: int) -> None:
        """The newest writes, and what came after the oldest of them."""
        if len(self.past) <= count:
            return
        try:
            report = self.table.rollback(self.past[-count][0], with_newer=count > 1, options=QUIET)
        except hudi_py.HudiError:  # it has a savepoint, a plan counts on it, or what it replaced was cleaned
            return
        if report.instant is not None:
            del self.past[-count:]
            self.rows = self.past[-1][1]

    @precondition(lambda self: self.table_type == "mor")
    @rule()
    def roll_back_a_compaction(self) -> None:
        table = self.table.instants().to_pylist()
        done = [row["instant"] for row in table if row["action"] == "commit" and row["state"] == "COMPLETED"]
        if done:
            with contextlib.suppress(hudi_py.HudiError):  # a write came after it, or what it replaced was cleaned
                self.table.rollback(done[-1], options=QUIET)

    @precondition(lambda self: self.table_type == "mor" and self.version >= 8)
    @rule()
    def plan_log_compaction(self) -> None:
        if not self.table.log_compaction.pending():
            self.table.log_compaction.schedule(options={**QUIET, "hoodie.log.compaction.blocks.threshold": "2"})

    @precondition(lambda self: self.table_type == "mor" and self.version >= 8)
    @rule()
    def run_log_compaction(self) -> None:
        self.table.log_compaction.run(options=QUIET)

    # -- what must hold

    def _read(self, **query: Any) -> Rows:
        found = self.table.scan(["part", "id", "ts", "text"], **query).to_table().to_pylist()
        rows = {(row["part"], int(row["id"][1:])): (row["ts"], row["text"]) for row in found}
        assert len(rows) == len(found)
        return rows

    @invariant()
    def reads_as_written(self) -> None:
        if not self.past:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a metadata table that is not to be trusted would only warn
            assert self._read() == self.rows
        assert self._read(options={"hoodie.metadata.enable": "false"}) == self.rows

    @invariant()
    def the_metadata_table_is_exact(self) -> None:
        if self.past:
            report = self.table.metadata.verify()
            assert report.ok, report

    @invariant()
    def the_past_is_kept_or_refused(self) -> None:
        for instant, rows in self.past[-3:]:
            try:
                found = self._read(as_of=instant)
            except hudi_py.HistoryCleanedError:
                continue
            assert found == rows or not self._whole(instant)
        for instant, rows in self.saved.items():
            assert self._read(as_of=instant) == rows

    def _whole(self, instant: str) -> bool:
        """Whether nothing that a reader at the instant needs has been cleaned since: only then it must find all."""
        table = self.table.instants(archived=True).to_pylist()
        return not any(row["action"] == "clean" and row["instant"] > instant for row in table)

    @invariant()
    def the_whole_history_gives_the_newest_rows(self) -> None:
        if self.past:
            try:
                found = self._read(query_type="incremental", begin="000")
            except hudi_py.HistoryCleanedError:
                return
            assert found.items() <= self.rows.items()


@pytest.mark.parametrize(
    ("version", "table_type"),
    cases([(6, "mor"), (9, "mor"), (9, "cow"), (6, "cow"), (8, "mor")], "services", 2, quick=[(9, "mor")]),
)
def test_services_change_no_row(version: int, table_type: str) -> None:
    machine = type("Machine", (Services,), {"version": version, "table_type": table_type})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=3,
            stateful_step_count=15,
            deadline=None,
            phases=[Phase.generate],  # shrinking takes longer than a test may
            suppress_health_check=list(HealthCheck),
        ),
    )
