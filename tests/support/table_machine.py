"""Random operations, services, indexes and schema changes on a table of a form, against a dict; every kind of query is
compared with it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import duckdb
import polars
import pyarrow as pa
from hypothesis import HealthCheck, Phase, seed, settings
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
from hudi_py.interop.duckdb import query as duckdb_query
from hudi_py.interop.polars import scan_hudi
from tests.support.choice import SEED

Key = tuple[str, int]
Row = dict[str, Any]
"""Values by the name that the column had when it was made, and the instant of the row's newest write as `at`."""
KEYS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)), min_size=1, max_size=6, unique=True)
OWN = {"text": pa.string(), "n": pa.int32()}
KINDS = {"int": pa.int32(), "long": pa.int64(), "double": pa.float64(), "text": pa.string()}
QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.py.write.durable": "false"}
QUIET = {
    **QUICK,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
INLINE = {
    **QUICK,
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}
WHOLE_HISTORY = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"}
BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "3",
}
INDEXES: dict[str, Mapping[str, str]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM", "hoodie.metadata.index.bloom.filter.enable": "true"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "RECORD": {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"},
    "BUCKET": BUCKETS,
    "HASHES": {
        **BUCKETS,
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.max.num.buckets": "6",
        "hoodie.bucket.index.min.num.buckets": "1",
        "hoodie.parquet.max.file.size": "100",
    },
}
CREATED = {
    "record_index": {"using": "record_index"},
    "by_text": {"column": "text"},
    "by_n": {"column": "n"},
    "upper_text": {"column": "text", "using": "column_stats", "index_options": {"expr": "upper"}},
    "lower_text": {"column": "text", "using": "bloom_filters", "index_options": {"expr": "lower"}},
}
COMMIT_TIME, EVENT_TIME = "COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"
DOORS = ("write", "upsert", "merge")
LACKING = {
    "meta": {"hoodie.populate.meta.fields": "false"},
    "partitions": {"hoodie.datasource.write.drop.partition.columns": "true"},
}
REFUSED = (hudi_py.ConfigError, hudi_py.UnsupportedTableError, hudi_py.ConflictError)
"""A conflict: a pending plan has files that the operation would replace."""


@dataclass(frozen=True)
class Form:
    """What a table is made with."""

    kind: str = "mor"
    version: int = 9
    index: str = "SIMPLE"
    base: str = "PARQUET"
    log: str = "avro"
    positions: bool = True
    changes: str = ""
    """How changes are logged (`hoodie.table.cdc.supplemental.logging.mode`); empty: not at all."""
    by_id: bool = False
    """Whether columns have ids, so that they can be dropped and renamed."""
    lacks: str = ""
    """The columns that files lack: `meta` or `partitions`; empty: none."""
    mode: str = ""
    """The merge mode, with rows that come late and keys that base files have twice; empty: the default, and neither."""
    nested: bool = False
    """Whether partitions are folders in a folder."""

    def value_of(self, part: str) -> str:
        """The partition column's value, which is the path of the partition."""
        return {"a": "x/1", "b": "x/2"}[part] if self.nested else part

    @property
    def options(self) -> dict[str, str]:
        found = dict(INDEXES[self.index])
        if self.base != "PARQUET":  # whose footers cannot have bloom filters
            found["hoodie.table.base.file.format"] = self.base
            found.pop("hoodie.metadata.index.bloom.filter.enable", None)
        if self.kind == "mor":
            found["hoodie.logfile.data.block.format"] = self.log
            found["hoodie.write.record.positions"] = str(self.positions).lower()
        if self.changes:
            found["hoodie.table.cdc.enabled"] = "true"
            found["hoodie.table.cdc.supplemental.logging.mode"] = self.changes
        if self.by_id:
            found["hoodie.schema.on.read.enable"] = "true"
        found.update(LACKING.get(self.lacks, {}))
        if self.mode:
            found["hoodie.write.record.merge.mode"] = self.mode
        return found


@dataclass
class State:
    """The table after a write."""

    result: Any
    rows: dict[Key, Row]
    columns: dict[str, tuple[str, str]]
    changed: list[tuple[str, Key, Row | None, Row | None]] = field(default_factory=list)
    """What the write did: `i`, `u` or `d`, and the row before and after."""
    partial: bool = False
    """Whether it may have logged some columns only."""
    late: bool = False
    """Whether all its rows came late, and it changed none."""

    @property
    def instant(self) -> str:
        return str(self.result.instant)

    def shown(self, rows: Mapping[Key, Row] | None = None) -> dict[Key, Row]:
        """Rows as a query with these columns returns them."""
        names = {"ts": "ts", "text": "text", "n": "n", **{own: name for own, (name, _) in self.columns.items()}}
        given = self.rows if rows is None else rows
        return {key: {name: row.get(own) for own, name in names.items()} for key, row in given.items()}


def key_of(row: Mapping[str, Any]) -> Key:
    return row["id"][0], int(row["id"][1:])


class TableMachine(RuleBasedStateMachine):
    """`past` has the states after the writes that the active timeline may have; the last one is the present."""

    form = Form()
    refused: ClassVar[Counter[str]] = Counter()
    """First lines of the errors by which an operation was refused."""
    done: ClassVar[Counter[str]] = Counter()
    """Operations and comparisons by name."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = f"{self.folder}/t"
        self.past: list[State] = []
        self.saved: dict[str, State] = {}
        self.step = 10
        self.fresh = 1000
        self.checks = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def table(self) -> hudi_py.Table:
        return hudi_py.open_table(self.path, {**self.form.options, **QUIET})

    @property
    def now(self) -> State:
        return self.past[-1]

    # -- writes

    def _tried(self, name: str, call: Callable[[], Any]) -> Any:
        """What the call returns; None where it is refused, which must change nothing."""
        try:
            found = call()
        except REFUSED as error:
            self.refused[f"{name}: {str(error).splitlines()[0]}"] += 1
            return None
        self.done[name] += 1
        return found

    def _data(
        self, keys: Iterable[Key], text: str | None, without: Sequence[str] = (), late: int = 0
    ) -> tuple[pa.Table, dict[Key, Row]]:
        extra = self.past[-1].columns if self.past else {}
        types = {**OWN, **{own: KINDS[kind] for own, (_, kind) in extra.items()}}
        types = {own: kind for own, kind in types.items() if own not in without}
        rows: dict[Key, Row] = {}
        for at, key in enumerate(keys):
            row: Row = {"ts": self.step - late}
            for own, kind in types.items():
                number = (self.step * 7 + at) % 11
                value = None if number == 10 else number
                if pa.types.is_string(kind) and value is not None:
                    value = f"{number}" if own != "text" else f"{text}{number}"
                row[own] = float(value) if pa.types.is_floating(kind) and value is not None else value
            rows[key] = row
        names = {own: extra[own][0] if own in extra else own for own in types}
        schema = pa.schema([("part", pa.string()), ("id", pa.string()), ("ts", pa.int64())])
        for own, kind in types.items():
            schema = schema.append(pa.field(names[own], kind))
        listed = [
            {
                "part": self.form.value_of(key[0]),
                "id": f"{key[0]}{key[1]}",
                "ts": row["ts"],
                **{names[own]: row[own] for own in types},
            }
            for key, row in rows.items()
        ]
        return pa.Table.from_pylist(listed, schema), rows

    def _write(self, operation: str, data: pa.Table, options: Mapping[str, str]) -> Any:
        return hudi_py.write(
            self.path,
            data,
            operation,
            {**self.form.options, **options},
            record_key="id",
            partition_by="part",
            ordering_by="ts",
            table_type=self.form.kind,
            table_version=self.form.version,
        )

    def _record(self, result: Any, new: Mapping[Key, Row], gone: Iterable[Key] = (), *, replaces: bool = False) -> None:
        """A write is done: `gone` are no rows any more, and `new` are; `replaces`: by other file groups."""
        assert result.instant is not None
        before = self.past[-1].rows if self.past else {}
        lost = [key for key in gone if key in before]
        changed: list[tuple[str, Key, Row | None, Row | None]]
        changed = [("d", key, before[key], None) for key in lost if replaces or key not in new]
        rows = {key: row for key, row in before.items() if key not in set(lost)}
        for key, row in new.items():
            own = {**row, "at": str(result.instant)}
            changed.append(("u", key, rows[key], own) if key in rows else ("i", key, None, own))
            rows[key] = own
        self.past.append(State(result, rows, self.past[-1].columns if self.past else {}, changed))

    @initialize(keys=KEYS)
    def first(self, keys: list[Key]) -> None:
        self.done["table"] += 1
        data, rows = self._data(keys, "first")
        self._record(self._write("upsert", data, QUIET), rows)

    @rule(
        keys=KEYS,
        inline=st.booleans(),
        small=st.booleans(),
        text=st.text(st.characters(codec="utf-8"), max_size=2),
        twice=st.booleans(),
        door=st.sampled_from(DOORS),
    )
    def upsert(
        self, keys: list[Key], inline: bool, small: bool, text: str, twice: bool = False, door: str = "write"
    ) -> None:
        """`twice`: the input has a row of an earlier time for each key, too."""
        self.step += 1
        data, rows = self._data(keys, text)
        options = (INLINE if inline else QUIET) | ({} if small else {"hoodie.parquet.small.file.limit": "0"})
        if twice and door != "merge":
            older, _ = self._data(keys, "older", late=1)
            data = pa.concat_tables([older, data] if self.form.mode == COMMIT_TIME else [data, older])
        if door == "write":
            result = self._write("upsert", data, options)
        else:
            table = hudi_py.open_table(self.path, {**self.form.options, **options})
            if door == "upsert":
                result = table.upsert(data)
            else:
                merge = table.merge(data, on="t.part = s.part AND t.id = s.id")
                result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
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

    @rule(keys=KEYS, inline=st.booleans())
    def delete(self, keys: list[Key], inline: bool) -> None:
        self.step += 1
        data, _ = self._data(keys, "x")
        self._record(self._write("delete", data, INLINE if inline else QUIET), {}, keys)
        self.done["delete"] += 1

    @rule(count=st.integers(1, 4), operation=st.sampled_from(["insert", "bulk_insert"]))
    def add(self, count: int, operation: str) -> None:
        self.step += 1
        keys = [("a" if number % 2 else "b", self.fresh + number) for number in range(count)]
        self.fresh += count
        data, rows = self._data(keys, "new")
        result = self._tried(operation, lambda: self._write(operation, data, QUIET))
        if result is not None:
            self._record(result, rows)

    @rule(keys=KEYS, whole=st.booleans())
    def overwrite(self, keys: list[Key], whole: bool) -> None:
        self.step += 1
        data, rows = self._data(keys, "over")
        operation = "insert_overwrite_table" if whole else "insert_overwrite"
        touched = {part for part, _ in keys}
        gone = [key for key in self.now.rows if whole or key[0] in touched]
        result = self._tried(operation, lambda: self._write(operation, data, QUIET))
        if result is not None:
            self._record(result, rows, gone, replaces=True)

    @rule(part=st.sampled_from(["a", "b"]))
    def delete_partition(self, part: str) -> None:
        gone = [key for key in self.now.rows if key[0] == part]
        path = self.form.value_of(part)
        if gone:
            result = self._tried("delete_partition", lambda: self.table.delete_partition(path, options=QUIET))
            if result is not None:
                self._record(result, {}, gone, replaces=True)

    @rule(keys=KEYS, column=st.sampled_from(["text", "n"]))
    def set_some_columns(self, keys: list[Key], column: str) -> None:
        self.step += 1
        left_out = [*(own for own in OWN if own != column), *self.now.columns]
        data, rows = self._data(keys, "part", left_out)
        result = self._tried("partial update", lambda: self.table.upsert(data, partial=True, options=QUIET))
        if result is not None:
            self._record(result, {key: {**self.now.rows.get(key, {}), **row} for key, row in rows.items()})
            self.now.partial = self.form.kind == "mor"

    @rule(most=st.integers(0, 9))
    def update(self, most: int) -> None:
        self.step += 1
        chosen = {key: row for key, row in self.now.rows.items() if row.get("n") is not None and row["n"] < most}
        values = {"text": "concat('u', part)", "ts": f"{self.step}"}
        result = self._tried("update", lambda: self.table.update(values, f"n < {most}", options=QUIET))
        if result is not None and result.instant is not None:
            new = {
                key: {**row, "text": f"u{self.form.value_of(key[0])}", "ts": self.step} for key, row in chosen.items()
            }
            self._record(result, new)
        elif result is not None:
            assert not chosen

    @rule(number=st.integers(0, 9))
    def delete_where(self, number: int) -> None:
        gone = [key for key, row in self.now.rows.items() if row.get("n") == number]
        result = self._tried("delete where", lambda: self.table.delete_where(f"n = {number}", options=QUIET))
        if result is not None and result.instant is not None:
            self._record(result, {}, gone)
        elif result is not None:
            assert not gone

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
            lambda: self.table.create_index(name, **arguments, if_not_exists=True, options=options),
        )

    @rule(name=st.sampled_from(sorted(CREATED)), anew=st.booleans())
    def drop_or_refresh_index(self, name: str, anew: bool) -> None:
        table = self.table
        if name not in table.indexes()["name"].to_pylist():
            return
        if anew:
            table.refresh_index(name, options=QUIET)
            self.done["refresh index"] += 1
        elif name != "record_index" or self.form.index != "RECORD":
            self._tried("drop index", lambda: table.drop_index(name, options=QUIET))

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
    @rule()
    def compact(self) -> None:
        self._tried("compact", lambda: self.table.compact(options=QUIET))

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

    @rule(policy=st.sampled_from(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]), kept=st.integers(1, 3))
    def clean(self, policy: str, kept: int) -> None:
        options = {
            **QUIET,
            "hoodie.cleaner.policy": policy,
            "hoodie.cleaner.commits.retained": str(kept),
            "hoodie.cleaner.fileversions.retained": str(kept),
        }
        self._tried("clean", lambda: self.table.clean(options=options))

    @rule(kept=st.integers(2, 4))
    def archive(self, kept: int) -> None:
        options = {**QUIET, "hoodie.keep.min.commits": str(kept), "hoodie.keep.max.commits": str(kept + 1)}
        options["hoodie.cleaner.commits.retained"] = "1"
        self._tried("archive", lambda: self.table.archive(options=options))

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
    @rule()
    def restore(self) -> None:
        instant = max(self.saved)
        if self._tried("restore", lambda: self.table.restore(instant, options=QUIET)) is not None:
            self.past = [state for state in self.past if state.instant <= instant]
            assert self.now is self.saved[instant]

    @rule(count=st.integers(1, 3))
    def roll_back(self, count: int) -> None:
        """The newest writes, and what came after the oldest of them."""
        if len(self.past) <= count:
            return
        try:
            report = self.table.rollback(self.past[-count].instant, with_newer=count > 1, options=QUIET)
        except hudi_py.HudiError as error:  # it has a savepoint, a plan counts on it, or what it replaced was cleaned
            self.refused[f"roll back: {str(error).splitlines()[0]}"] += 1
            return
        if report.instant is not None:
            del self.past[-count:]
            self.done["roll back"] += 1

    @precondition(lambda self: self.form.kind == "mor")
    @rule()
    def roll_back_a_compaction(self) -> None:
        table = self.table.instants().to_pylist()
        done = [row["instant"] for row in table if row["action"] == "commit" and row["state"] == "COMPLETED"]
        if done:
            with contextlib.suppress(hudi_py.HudiError):  # a write came after it, or what it replaced was cleaned
                self.table.rollback(done[-1], options=QUIET)
                self.done["roll back a compaction"] += 1

    # -- what must hold

    def _shown(self, table: pa.Table) -> list[tuple[Key, Row]]:
        """Rows without key and meta columns, sorted."""
        found = []
        for row in table.to_pylist():
            key = key_of(row)
            assert row["part"] == self.form.value_of(key[0])
            values = {name: value for name, value in row.items() if not name.startswith("_hoodie")}
            found.append((key, {name: value for name, value in values.items() if name not in ("part", "id")}))
        return sorted(found, key=repr)

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
            self.the_metadata_table,
        )
        self.checks += 1
        for at in (self.checks, self.checks + 3):  # two after each step, the dear last one in every seventh
            query = queries[at % 7]
            if query != self.the_metadata_table or at == self.checks:
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


def check_tables(
    form: Form, *, examples: int, steps: int, count: Callable[[str, object], None] = lambda name, value: None
) -> None:
    """Runs the machine on so many tables of a form, with so many steps each at most; with each HUDI_PY_SEED, and for
    each form, on other ones. `count` is told how many there were."""
    done, refused = Counter[str](), Counter[str]()
    kind = type("Machine", (TableMachine,), {"form": form, "done": done, "refused": refused})
    machine = seed(zlib.crc32(f"{SEED} {form}".encode()))(kind)
    given = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if os.environ.get("HUDI_PY_SHRINK") else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    try:
        run_state_machine_as_test(machine, settings=given)
    finally:
        queries = ("some_rows", "without_metadata", "the_past", "changes", "a_range", "other_readers")
        count("counted: tables of random histories", done["table"])
        count("counted: steps of random histories", done["step"])
        count("counted: comparisons of queries with a plain model", sum(done[name] for name in queries) + done["step"])
        count("counted: verified metadata tables of random histories", done["the_metadata_table"])
        count("counted: steps of random histories that were refused", refused.total())
