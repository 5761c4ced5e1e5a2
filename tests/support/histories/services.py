"""Changes of columns, indexes and buckets, and the services of tables, in random histories."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import hudi_py
from tests.support.histories.doors import SERVICES
from tests.support.histories.forms import QUIET
from tests.support.histories.model import KINDS, State
from tests.support.histories.queries import Queries

CREATED = {
    "record_index": {"using": "record_index"},
    "by_text": {"column": "text"},
    "by_n": {"column": "n"},
    "upper_text": {"column": "text", "using": "column_stats", "index_options": {"expr": "upper"}},
    "lower_text": {"column": "text", "using": "bloom_filters", "index_options": {"expr": "lower"}},
}
POLICIES = st.sampled_from(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])


class Services(Queries):
    """Rules that change what a table is like, and how its files lie, but no row."""

    # -- columns and indexes

    def _altered(self, columns: dict[str, tuple[str, str]], **arguments: Any) -> None:
        result = self._tried("alter", lambda: self.table.alter(**arguments, options={**self.form.options, **QUIET}))
        if result is not None:
            assert result.instant is not None
            self.past.append(State(result, self.now.rows, columns))

    @rule(kind=st.sampled_from(sorted(KINDS)), by_writing=st.booleans())
    def add_column(self, kind: str, by_writing: bool) -> None:
        if len(self.now.columns) > 3:
            return
        self.step += 1
        name = f"e{self.step}"
        columns = {**self.now.columns, name: (name, kind)}
        if not by_writing:
            self._altered(columns, add={name: KINDS[kind]})
            return
        key = ("a", self.step % 10)
        data, rows = self._data([key], "wide")
        data = data.append_column(name, pa.nulls(1, KINDS[kind]))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", f".*{name}")
            self._record(self._write("upsert", data, QUIET), rows)
        self.now.columns = columns

    @precondition(lambda self: self.now.columns)
    @rule(data=st.data())
    def widen_column(self, data: st.DataObject) -> None:
        own = data.draw(st.sampled_from(sorted(self.now.columns)))
        name, kind = self.now.columns[own]
        if kind == "int":
            self._altered({**self.now.columns, own: (name, "long")}, type={name: pa.int64()})

    @precondition(lambda self: self.form.by_id and self.now.columns)
    @rule(data=st.data(), drop=st.booleans())
    def drop_or_rename_column(self, data: st.DataObject, drop: bool) -> None:
        own = data.draw(st.sampled_from(sorted(self.now.columns)))
        columns = dict(self.now.columns)
        name, kind = columns.pop(own)
        if drop:
            self._altered(columns, drop=[name])
        else:
            self.step += 1
            self._altered({**self.now.columns, own: (f"r{self.step}", kind)}, rename={name: f"r{self.step}"})

    @rule(name=st.sampled_from(sorted(CREATED)))
    def create_index(self, name: str) -> None:
        arguments: dict[str, Any] = dict(CREATED[name])
        more = {"hoodie.metadata.global.record.level.index.enable": "true"} if name.startswith("by_") else {}
        options = {**QUIET, **more}
        self._tried(
            f"create index {name}",
            lambda: self.table.index(name, **arguments, if_not_exists=True, options=options),
        )

    @rule(name=st.sampled_from(sorted(CREATED)), anew=st.booleans())
    def drop_or_refresh_index(self, name: str, anew: bool) -> None:
        table = self.table
        if name not in table.indexes.list()["name"].to_pylist():
            return
        if anew:
            table.indexes.refresh(name, options=QUIET)
            self.done["refresh index"] += 1
        elif name != "record_index" or self.form.index != "RECORD":
            self._tried("drop index", lambda: table.indexes.drop(name, options=QUIET))

    @precondition(lambda self: self.form.index in ("BUCKET", "HASHES"))
    @rule(turn=st.integers(0, 5))
    def change_buckets(self, turn: int) -> None:
        table = self.table
        sizes = {"split": "0" if turn % 2 else "1000", "merge": "0" if turn % 2 else "1000"}
        options = {f"hoodie.bucket.index.{key}.threshold": size for key, size in sizes.items()}
        if self.form.index == "HASHES":
            self._tried("resize buckets", lambda: table.resize_buckets(options=options))
            return
        rules = f"{self.form.value_of('a')},{turn % 4 + 1}"
        report = self._tried("rescale buckets", lambda: table.rescale_buckets(rules, buckets=turn % 2 + 2))
        if report is not None and report.instant is not None:  # rows that are written again are new to a range
            parts = [path for path, _ in report.partitions]
            moved = {key: row for key, row in self.now.rows.items() if self.form.value_of(key[0]) in parts}
            self._record(report, moved)
            self.now.changed.clear()  # and to queries of changes they are not

    # -- services

    @precondition(lambda self: self.form.kind == "mor")
    @rule(door=st.sampled_from(SERVICES))
    def compact(self, door: str = "table") -> None:
        self._served(door, "compact", options=QUIET, run=lambda table: table.compact())

    @precondition(lambda self: self.form.kind == "mor")
    @rule()
    def plan_compaction(self) -> None:
        if not self.table.compaction.pending():
            self._tried("plan compaction", lambda: self.table.compaction.schedule() or True)

    @precondition(lambda self: self.form.kind == "mor" and self.form.version >= 8)
    @rule(plan=st.booleans())
    def compact_logs(self, plan: bool) -> None:
        options = {**QUIET, "hoodie.log.compaction.blocks.threshold": "2"}
        if not plan:
            self._tried("compact logs", lambda: self.table.log_compaction.run(options=QUIET) or True)
        elif not self.table.log_compaction.pending():
            self._tried("plan log compaction", lambda: self.table.log_compaction.schedule(options=options) or True)

    @precondition(lambda self: self.form.index not in ("BUCKET", "HASHES"))
    @rule(layout=st.sampled_from(["linear", "zorder", "hilbert"]), columns=st.sampled_from(["", "n", "text,n"]))
    def cluster(self, layout: str, columns: str) -> None:
        options = {**QUIET, "hoodie.clustering.plan.strategy.max.bytes.per.group": "900000"}
        self._tried("cluster", lambda: self.table.cluster(columns, layout=layout, options=options))

    @rule(
        policy=st.sampled_from(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]),
        kept=st.integers(1, 3),
        door=st.sampled_from(SERVICES),
    )
    def clean(self, policy: str, kept: int, door: str = "table") -> None:
        options = {
            **QUIET,
            "hoodie.cleaner.policy": policy,
            "hoodie.cleaner.commits.retained": str(kept),
            "hoodie.cleaner.fileversions.retained": str(kept),
        }
        self._served(door, "clean", "--yes", options=options, run=lambda table: table.clean())

    @rule(kept=st.integers(2, 4), door=st.sampled_from(SERVICES))
    def archive(self, kept: int, door: str = "table") -> None:
        options = {**QUIET, "hoodie.keep.min.commits": str(kept), "hoodie.keep.max.commits": str(kept + 1)}
        options["hoodie.cleaner.commits.retained"] = "1"
        self._served(door, "archive", options=options, run=lambda table: table.archive())

    @rule()
    def savepoint(self) -> None:
        newest = self.now
        if newest.instant in self.table.instants()["instant"].to_pylist():
            with contextlib.suppress(hudi_py.HistoryCleanedError):  # a write that came after it was rolled back
                self.table.savepoint(newest.instant)
                self.saved[newest.instant] = newest

    @precondition(lambda self: bool(self.saved))
    @rule(data=st.data())
    def delete_savepoint(self, data: st.DataObject) -> None:
        instant = data.draw(st.sampled_from(sorted(self.saved)))
        assert self.table.delete_savepoint(instant).instant == instant
        del self.saved[instant]

    @precondition(lambda self: bool(self.saved))
    @rule(door=st.sampled_from(SERVICES))
    def restore(self, door: str = "table") -> None:
        instant = max(self.saved)
        done = self._served(door, "restore", instant, "--yes", options=QUIET, run=lambda table: table.restore(instant))
        if done is not None:
            self.past = [state for state in self.past if state.instant <= instant]
            assert self.now is self.saved[instant]

    @rule(to=st.sampled_from([6, 8, 9]), door=st.sampled_from(SERVICES))
    def change_version(self, to: int, door: str = "table") -> None:
        before = self.form.version
        if to == before:
            return
        command = "upgrade" if to > before else "downgrade"
        done = self._served(
            door,
            command,
            "--to",
            str(to),
            "--yes",
            options=QUIET,
            run=lambda table: table.upgrade(to) if to > before else table.downgrade(to),
        )
        if done is not None:
            self.form = replace(self.form, version=to)

    @rule(door=st.sampled_from(SERVICES))
    def change_type(self, door: str = "table") -> None:
        kind = "cow" if self.form.kind == "mor" else "mor"
        done = self._served(
            door, "change-type", kind, "--yes", options=QUIET, run=lambda table: table.change_type(kind)
        )
        if done is not None:
            self.form = replace(self.form, kind=kind)

    @rule(data=st.data(), door=st.sampled_from(SERVICES))
    def go_on_in_a_copy(self, data: st.DataObject, door: str = "table") -> None:
        """Exports the present or an earlier state, and continues there. A copy has no earlier versions."""
        state = data.draw(st.sampled_from(self.past))
        newest = state is self.now
        self.copies += 1
        target = f"{self.folder}/copy{self.copies}"
        if not newest:
            try:
                self._read(as_of=state.instant)
            except hudi_py.HistoryCleanedError:
                with pytest.raises(hudi_py.HudiError):
                    self.table.export(target, as_of=state.instant)
                return
        done = self._served(
            door,
            "export",
            target,
            *([] if newest else ["--as-of", state.instant]),
            options=QUIET,
            run=lambda table: table.export(target, as_of=None if newest else state.instant),
        )
        if done is not None:
            self.path, self.past, self.saved = target, [state], {}

    @rule(count=st.integers(1, 3), door=st.sampled_from(SERVICES))
    def roll_back(self, count: int, door: str = "table") -> None:
        """The newest writes, and what came after the oldest of them."""
        if len(self.past) <= count:
            return
        instant, newer = self.past[-count].instant, count > 1
        arguments = [instant, "--yes", *(["--with-newer"] if newer else [])]
        try:
            report = self.doors.service(
                door,
                "rollback",
                *arguments,
                options=QUIET,
                run=lambda table: table.rollback(instant, with_newer=newer).to_dict(),
            )
        except hudi_py.HudiError as error:  # it has a savepoint, a plan counts on it, or what it replaced was cleaned
            self.refused[f"roll back: {str(error).splitlines()[0]}"] += 1
            return
        if report["instant"] is not None:
            del self.past[-count:]
            self.done[f"rollback by {door}"] += 1

    @precondition(lambda self: self.form.kind == "mor")
    @rule()
    def roll_back_a_compaction(self) -> None:
        table = self.table.instants().to_pylist()
        done = [row["instant"] for row in table if row["action"] == "commit" and row["state"] == "COMPLETED"]
        if done:
            with contextlib.suppress(hudi_py.HudiError):  # a write came after it, or what it replaced was cleaned
                self.table.rollback(done[-1], options=QUIET)
                self.done["roll back a compaction"] += 1
