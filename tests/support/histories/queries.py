"""What every query of a table must show after each step of a random history."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from hypothesis.stateful import invariant

import hudi_py
from hudi_py.interop.duckdb import query as duckdb_query
from hudi_py.interop.polars import scan_hudi
from hudi_py.timeline import properties
from tests.support.damage import Query, files_of, findable, wrong_answers
from tests.support.histories.model import Key, Model, Row, key_of
from tests.support.program import run_program

WHOLE_HISTORY = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"}
SOURCES = "hoodie.py.read.bootstrap.sources"


class Queries(Model):
    """Comparisons of queries with the model."""

    def _shown(self, table: pa.Table) -> list[tuple[Key, Row]]:
        """Rows without key and meta columns, sorted."""
        shown = []
        for row in table.to_pylist():
            key = key_of(row)
            assert row["part"] == self.form.value_of(key[0])
            values = {name: value for name, value in row.items() if not name.startswith("_hoodie")}
            shown.append((key, {name: value for name, value in values.items() if name not in ("part", "id")}))
        return sorted(shown, key=repr)

    def _listed(self, names: Iterable[str] = (), **query: Any) -> list[tuple[Key, Row]]:
        chosen = list(dict.fromkeys(("part", "id", *names))) if names else None
        return self._shown(self.table.scan(chosen, **query).to_table())

    def _read(self, names: Iterable[str] = (), **query: Any) -> dict[Key, Row]:
        """Rows, or some columns of them, of a table whose keys have one row each."""
        found = self._listed(names, **query)
        rows = dict(found)
        assert len(rows) == len(found), "a key has two rows"
        return rows

    @invariant()
    def every_query_agrees(self) -> None:
        if not self.past:
            return
        self.done["step"] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a metadata table that is not to be trusted would only warn
            assert self._read() == self.now.shown()
        queries = (
            self.some_rows,
            self.without_metadata,
            self.the_past,
            self.changes,
            self.a_range,
            self.other_readers,
            self.the_program,
            self.the_metadata_table,
            self.damaged_files,
        )
        self.checks += 1
        for turn in (self.checks, self.checks + 4):  # two after each step, the dear last ones in every ninth
            query = queries[turn % 9]
            if query not in (self.the_metadata_table, self.damaged_files) or turn == self.checks:
                query()
                self.done[query.__name__] += 1

    def without_metadata(self) -> None:
        assert self._read(options={"hoodie.metadata.enable": "false"}) == self.now.shown()
        if self.form.kind == "cow":
            assert self._read(query_type="read_optimized") == self.now.shown()

    def some_rows(self) -> None:
        """Look-ups by keys, partitions and indexed columns, with the columns of the filter and without."""
        shown = self.now.shown()
        wanted = [*sorted(shown)[self.checks // 3 % 4 :: 3], ("a", 77)]
        found = self._read(keys=[f"{part}{number}" for part, number in wanted])
        assert found == {key: row for key, row in shown.items() if key in wanted}
        texts = sorted({row["text"] for row in shown.values() if row["text"] is not None})
        text = texts[self.checks // 3 % len(texts)] if texts else "none"
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        number, part = self.checks // 3 % 10, self.form.value_of("a")
        tests: dict[str, Callable[[Key, Row], bool]] = {
            f"text = '{quoted}'": lambda key, row: row["text"] == text,
            f"n = {number}": lambda key, row: row["n"] == number,
            f"n > {number} AND part = '{part}'": lambda key, row: (row["n"] or 0) > number and key[0] == "a",
            "text IS NULL": lambda key, row: row["text"] is None,
            f"id IN ('a{number}', 'b{number}')": lambda key, row: key[1] == number,
            f"lower(text) = '{quoted.lower()}'": lambda key, row: (row["text"] or "\0").lower() == text.lower(),
            f"ts >= {self.step - 2}": lambda key, row: row["ts"] >= self.step - 2,
        }
        for condition, test in [*tests.items()][self.checks // 3 % 3 :: 3]:
            expected = {key: row for key, row in shown.items() if test(key, row)}
            assert self._read(filter=condition) == expected, condition
            assert self.table.scan(filter=condition).count() == len(expected), condition

    def other_readers(self) -> None:
        """Polars and DuckDB push columns and conditions down; batches and counts are read without a table."""
        number = self.checks // 3 % 10
        shown = self.now.shown()
        expected = sorted(
            ((key, {"n": row["n"]}) for key, row in shown.items() if (row["n"] or 0) > number and key[0] == "a"),
            key=repr,
        )
        part = self.form.value_of("a")
        scan = self.table.scan(meta=False)
        wanted = (polars.col("n") > number) & (polars.col("part") == part)
        frame = scan_hudi(scan).filter(wanted).select("part", "id", "n").collect()
        assert self._shown(frame.to_arrow()) == expected
        with duckdb.connect() as connection:
            sql = f"SELECT part, id, n FROM t WHERE n > {number} AND part = '{part}'"
            found = duckdb_query(sql, {"t": scan}, connection=connection).arrow()
            assert self._shown(found if isinstance(found, pa.Table) else found.read_all()) == expected
        assert self._shown(pa.Table.from_batches(scan.to_batches(), scan.to_table().schema)) == sorted(
            shown.items(), key=repr
        )
        assert scan.count() == len(shown)

    def the_program(self) -> None:
        """Rows as the command line prints them, in one of its formats."""
        number = self.checks // 3 % 10
        chosen = [(key, row) for key, row in self.now.shown().items() if (row["n"] or 0) > number]
        given = [text for key, value in self.form.options.items() for text in ("-o", f"{key}={value}")]
        with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
            run_program("read", self.path, "--filter", f"n > {number}", "--output", file.name, *given)
            assert self._shown(pa.ipc.open_stream(file.name).read_all()) == sorted(chosen, key=repr)
        ran = run_program("read", self.path, "--columns", "part,id,n", "--json", *given)
        expected = sorted(((key, {"n": row["n"]}) for key, row in self.now.shown().items()), key=repr)
        assert self._shown(pa.Table.from_pylist(ran.lines)) == expected

    def damaged_files(self) -> None:
        """A file that is cut, emptied, removed or has a bit turned: the same rows, or an error of ours."""
        files = files_of(Path(self.path))
        names = sorted(files)
        queries: list[Query] = [{}, {"filter": f"n > {self.checks // 3 % 10}"}]
        for name in {names[self.checks * step % len(names)] for step in (3, 7)}:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(properties, "_PAUSE_SECONDS", 0)
                chosen = {name: files[name]}
                tried, failures = wrong_answers(
                    files, chosen, 1, seed=self.checks, queries=queries, options={SOURCES: f"{self.folder}/source"}
                )
            assert not [*findable(failures, files)], failures
            self.done["damages"] += tried

    def the_past(self) -> None:
        active = set(self.table.instants()["instant"].to_pylist())
        for state in (*self.past[-4:], *self.saved.values()):
            try:
                found = self._read(as_of=state.instant)
            except hudi_py.HistoryCleanedError:
                assert state.instant not in self.saved
                self.done["history cleaned"] += 1
                continue
            if state.instant in active:
                assert found == state.shown(), state.instant
            else:  # as in Apache Hudi, rows of archived commits have the present columns
                assert found in (state.shown(), self.now.shown(state.rows)), (state.instant, found, state.shown())

    def a_range(self) -> None:
        if len(self.past) < 2 or self.form.lacks == "meta":  # rows do not say when they were written
            return
        end = len(self.past) - 1 - self.checks % min(3, len(self.past) - 1)
        begin = max(0, end - 1 - self.checks % 4)
        first, last = self.past[begin], self.past[end]
        if any(state.late for state in self.past[begin + 1 : end + 1]):  # a range has them where their rows are not
            return
        written = {key: row for key, row in last.rows.items() if row["at"] > first.instant}
        try:
            found = self._read(query_type="incremental", begin=first.result, end=last.result, options=WHOLE_HISTORY)
        except hudi_py.HistoryCleanedError:
            self.done["range cleaned"] += 1
            return
        expected = self.now.shown(written)
        if any(state.partial for state in self.past[begin + 1 : end + 1]):  # a range has the columns of its own logs
            found = {key: {"ts": row["ts"]} for key, row in found.items()}
            expected = {key: {"ts": row["ts"]} for key, row in expected.items()}
        assert found == expected, (first.instant, last.instant, found, expected)

    def the_metadata_table(self) -> None:
        report = self.table.metadata.verify()
        assert report.ok, report

    def changes(self) -> None:
        if not self.form.changes or len(self.past) < 2:
            return
        begin = max(0, len(self.past) - 2 - self.checks % 3)
        try:
            found = self.table.scan(
                query_type="cdc", begin=self.past[begin].result, end=self.now.result, options=WHOLE_HISTORY
            ).to_table()
        except hudi_py.HistoryCleanedError:
            self.done["changes cleaned"] += 1
            return
        events = []
        for row in found.to_pylist():
            images = [None if row[name] is None else json.loads(row[name]) for name in ("before", "after")]
            some = images[1] or images[0]
            events.append((row["op"], key_of(some), *(image and (image["ts"], image.get("text")) for image in images)))
        expected = [
            (op, key, *(row and (row["ts"], row.get("text")) for row in (before, after)))
            for state in self.past[begin + 1 :]
            for op, key, before, after in state.changed
        ]
        assert sorted(events, key=repr) == sorted(expected, key=repr)
