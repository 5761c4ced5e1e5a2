"""Writes of random histories, by every door."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from pyarrow import orc

import hudi_py
from hudi_py.services.ttl import PartitionTime
from hudi_py.timeline.times import is_special
from tests.support.histories.doors import DELETES, SERVICES, STATEMENTS, UPSERTS, WRITES
from tests.support.histories.forms import COMMIT_TIME, INLINE, QUIET
from tests.support.histories.model import OWN, REFUSED, Key
from tests.support.histories.queries import Queries

KEYS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)), min_size=1, max_size=6, unique=True)
NESTED = "Cannot write partition '.*(lies in the partition|lies in it)"


@dataclass(frozen=True)
class Done:
    """The times of a write that a service has done."""

    instant: str | None = None
    completion_time: str | None = None


class AllExpired:
    """A strategy by which all partitions have expired."""

    def expired(self, partitions: Sequence[PartitionTime]) -> Iterable[str]:
        return [partition.path for partition in partitions]


class Writes(Queries):
    """Rules that change rows."""

    @initialize(keys=KEYS, start=st.sampled_from(["write", "write", "metadata_only", "full_record"]))
    def first(self, keys: list[Key], start: str = "write") -> None:
        """`start`: a write, or a bootstrap in this mode of files that have the rows."""
        self.done["table"] += 1
        data, rows = self._data(keys, "first")
        made = None
        if start != "write":
            made = self._tried(f"bootstrap {start}", lambda: self._bootstrapped(data, start))
        self._record(made or self._write("upsert", data, QUIET), rows)

    def _bootstrapped(self, data: pa.Table, mode: str) -> Any:
        for part in data.column("part").unique().to_pylist():
            folder = Path(self.folder, "source", part)
            folder.mkdir(parents=True)
            chosen = data.filter(pc.field("part") == part)
            if self.form.base == "ORC":
                orc.write_table(chosen, str(folder / "0.orc"))
            else:
                pq.write_table(chosen, folder / "0.parquet")
        return hudi_py.bootstrap(
            self.path,
            Path(self.folder, "source"),
            mode,
            record_key="id",
            partition_by="part",
            ordering_by="ts",
            table_type=self.form.kind,
            table_version=self.form.version,
            options={**self.form.options, **QUIET},
        )

    @rule(
        keys=KEYS,
        inline=st.booleans(),
        small=st.booleans(),
        text=st.text(st.characters(codec="utf-8"), max_size=2),
        twice=st.booleans(),
        door=st.sampled_from(UPSERTS),
    )
    def upsert(
        self, keys: list[Key], inline: bool, small: bool, text: str, twice: bool = False, door: str = "write"
    ) -> None:
        """`twice`: the input has a row of an earlier time for each key, too."""
        self.step += 1
        data, rows = self._data(keys, text)
        options = (INLINE if inline else QUIET) | ({} if small else {"hoodie.parquet.small.file.limit": "0"})
        if twice and door in ("write", "table", "command"):  # a merge would have several rows for a key
            older, _ = self._data(keys, "older", late=1)
            data = pa.concat_tables([older, data] if self.form.mode == COMMIT_TIME else [data, older])
        result = self.doors.upsert(door, data, options)
        self._record(result, rows)
        self.done[f"upsert by {door}"] += 1

    @precondition(lambda self: self.form.mode)
    @rule(keys=KEYS, inline=st.booleans(), behind=st.integers(1, 9))
    def upsert_late(self, keys: list[Key], inline: bool, behind: int) -> None:
        """By the time of commits late rows count as others do; by their own they change no row that is newer."""
        self.step += 1
        by_commit = self.form.mode == COMMIT_TIME
        rows = self.now.rows
        chosen = [key for key in keys if by_commit or (key in rows and rows[key]["ts"] > self.step - behind)]
        if chosen:
            data, new = self._data(chosen, "late", late=behind)
            self._record(self._write("upsert", data, INLINE if inline else QUIET), new if by_commit else {})
            self.now.late = not by_commit
            self.done["upsert late"] += 1

    @precondition(lambda self: self.form.mode and self.form.index in ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE"))
    @rule(keys=KEYS, delete=st.booleans())
    def keys_have_several_rows(self, keys: list[Key], delete: bool) -> None:
        """A bulk insert brings keys once more, which queries show and deletes delete; then all of it is rolled back."""
        self.step += 1
        data, rows = self._data(keys, "copy")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is in several file groups")  # which a record index has no place for
            first = self._tried("copies", lambda: self._write("bulk_insert", data, QUIET))
        if first is None:
            return
        shown = self.now.shown()
        expected = [*shown.items(), *self.now.shown(rows).items()]
        wanted = [row for row in expected if row[0] in rows]
        assert self._listed() == sorted(expected, key=repr)
        ids = ", ".join(f"'{part}{number}'" for part, number in keys)
        assert self._listed(filter=f"id IN ({ids})") == sorted(wanted, key=repr)
        assert self._listed(keys=[f"{part}{number}" for part, number in keys]) == sorted(wanted, key=repr)
        if delete:
            deleted = self._tried("delete copies", lambda: self._write("delete", data, QUIET))
            left = [row for row in expected if row[0] not in rows]
            assert deleted is None or self._listed() == sorted(left, key=repr)
        self.the_metadata_table()
        self.table.rollback(first.instant, with_newer=True, options=QUIET)

    @rule(keys=KEYS, inline=st.booleans(), door=st.sampled_from(DELETES))
    def delete(self, keys: list[Key], inline: bool, door: str = "write") -> None:
        self.step += 1
        data, _ = self._data(keys, "x")
        self._record(self.doors.delete(door, data, INLINE if inline else QUIET), {}, keys)
        self.done[f"delete by {door}"] += 1

    @rule(count=st.integers(1, 4), operation=st.sampled_from(["insert", "bulk_insert"]), door=st.sampled_from(WRITES))
    def add(self, count: int, operation: str, door: str = "write") -> None:
        self.step += 1
        keys = [("a" if number % 2 else "b", self.fresh + number) for number in range(count)]
        self.fresh += count
        data, rows = self._data(keys, "new")
        result = self._tried(f"{operation} by {door}", lambda: self._write(operation, data, QUIET, door))
        if result is not None:
            self._record(result, rows)

    @rule(keys=KEYS, operation=st.sampled_from(["insert", "bulk_insert"]), door=st.sampled_from(WRITES))
    def add_again(self, keys: list[Key], operation: str, door: str = "write") -> None:
        """Keys that were deleted, or never there."""
        self.step += 1
        data, rows = self._data([key for key in keys if key not in self.now.rows], "again")
        if rows:
            result = self._tried(f"{operation} again by {door}", lambda: self._write(operation, data, QUIET, door))
            if result is not None:
                self._record(result, rows)

    @rule(keys=KEYS, whole=st.booleans(), door=st.sampled_from(WRITES))
    def overwrite(self, keys: list[Key], whole: bool, door: str = "write") -> None:
        self.step += 1
        data, rows = self._data(keys, "over")
        operation = "insert_overwrite_table" if whole else "insert_overwrite"
        touched = {part for part, _ in keys}
        gone = [key for key in self.now.rows if whole or key[0] in touched]
        result = self._tried(f"{operation} by {door}", lambda: self._write(operation, data, QUIET, door))
        if result is not None:
            self._record(result, rows, gone, replaces=True)

    @rule(part=st.sampled_from(["a", "b"]), door=st.sampled_from(SERVICES))
    def delete_partition(self, part: str, door: str = "table") -> None:
        gone = [key for key in self.now.rows if key[0] == part]
        path = self.form.value_of(part)
        if gone:
            result = self._tried(f"delete_partition by {door}", lambda: self.doors.delete_partition(door, path, QUIET))
            if result is not None:
                self._record(result, {}, gone, replaces=True)

    @rule(part=st.sampled_from(["a", "b"]), door=st.sampled_from(SERVICES))
    def expire(self, part: str, door: str = "table") -> None:
        """A partition whose time to live is over is dropped, as by a delete of the partition."""
        gone = [key for key in self.now.rows if key[0] == part]
        options = {
            **QUIET,
            "hoodie.partition.ttl.strategy.class": f"{__name__}:AllExpired",
            "hoodie.partition.ttl.strategy.partition.selected": self.form.value_of(part),
        }
        result = self._served(door, "run", "ttl", "--yes", options=options, run=lambda table: table.ttl().to_dict())
        if result is not None:
            done = Done(result["instant"], result["completion_time"])
            if done.instant is None:  # the time of a bootstrap does not say when the rows were written
                gone = [key for key in gone if not is_special(self.now.rows[key]["at"])]
            self._record(done, {}, gone, replaces=True)

    @rule(keys=KEYS)
    def erase(self, keys: list[Key]) -> None:
        """Rows are deleted, and no file has what they were before."""
        gone = [key for key in keys if key in self.now.rows]
        names = [f"{part}{number}" for part, number in keys]
        report = self._tried("erase", lambda: self.table.erase(keys=names, options=QUIET))
        if report is not None:
            assert report.complete, report
            deleted = {step.instant for step in report.steps if step.what == "delete"}
            assert bool(deleted) == bool(gone)
            times = self.table.instants().to_pylist()
            done = [Done(row["instant"], row["completion_time"]) for row in times if row["instant"] in deleted]
            self._record(done[0] if done else Done(), {}, gone)

    @rule(keys=KEYS, column=st.sampled_from(["text", "n"]))
    def set_some_columns(self, keys: list[Key], column: str) -> None:
        self.step += 1
        left_out = [*(own for own in OWN if own != column), *self.now.columns]
        data, rows = self._data(keys, "part", left_out)
        result = self._tried("partial update", lambda: self.table.upsert(data, partial=True, options=QUIET))
        if result is not None:
            self._record(result, {key: {**self.now.rows.get(key, {}), **row} for key, row in rows.items()})
            self.now.partial = self.form.kind == "mor"

    @rule(most=st.integers(0, 9), door=st.sampled_from(STATEMENTS))
    def update(self, most: int, door: str = "table") -> None:
        self.step += 1
        chosen = {key: row for key, row in self.now.rows.items() if row.get("n") is not None and row["n"] < most}
        values = {"text": "concat('u', part)", "ts": f"{self.step}"}
        result = self._tried(f"update by {door}", lambda: self.doors.update(door, values, f"n < {most}", QUIET))
        if result is not None and result.instant is not None:
            new = {
                key: {**row, "text": f"u{self.form.value_of(key[0])}", "ts": self.step} for key, row in chosen.items()
            }
            self._record(result, new)
        elif result is not None:
            assert not chosen

    @rule(number=st.integers(0, 9), door=st.sampled_from(STATEMENTS))
    def delete_where(self, number: int, door: str = "table") -> None:
        gone = [key for key, row in self.now.rows.items() if row.get("n") == number]
        result = self._tried(f"delete where by {door}", lambda: self.doors.delete_where(door, f"n = {number}", QUIET))
        if result is not None and result.instant is not None:
            self._record(result, {}, gone)
        elif result is not None:
            assert not gone

    @precondition(lambda self: self.now.rows)
    @rule(outside=st.booleans(), door=st.sampled_from(UPSERTS))
    def upsert_into_a_partition(self, outside: bool, door: str) -> None:
        """A partition whose path lies in another's, or contains it, is refused when it is written; nothing changes.

        Args:
            outside: whether it contains the other; only where partitions are folders in a folder.
        """
        data = self._nested(outside)
        with pytest.raises(REFUSED, match=NESTED):
            self.doors.upsert(door, data, QUIET)
        self.done[f"upsert into a partition by {door}"] += 1

    @precondition(lambda self: self.now.rows)
    @rule(outside=st.booleans(), door=st.sampled_from(WRITES), operation=st.sampled_from(["insert", "bulk_insert"]))
    def add_into_a_partition(self, outside: bool, door: str, operation: str) -> None:
        data = self._nested(outside)
        with pytest.raises(REFUSED, match=NESTED):
            self._write(operation, data, QUIET, door)
        self.done[f"{operation} into a partition by {door}"] += 1

    def _nested(self, outside: bool) -> pa.Table:
        self.step += 1
        part = self.form.value_of(min(self.now.rows)[0])
        path = part.partition("/")[0] if outside and self.form.nested else f"{part}/z"
        data, _ = self._data([("a", 7777)], "nested")
        return data.set_column(0, "part", pa.array([path]))
