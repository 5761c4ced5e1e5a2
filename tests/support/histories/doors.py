"""The doors of a table: Python, statements in one process and in tasks, and the command line. All are one room: the
same change gives the same rows by each of them, or the same error."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import hudi_py
from hudi_py.write.dml.merge import MergeBuilder
from hudi_py.write.dml.statements import Delete, Update
from hudi_py.write.result import WriteResult
from tests.support.histories.forms import Form
from tests.support.program import answer
from tests.support.spread import merging, spread

WRITES = ("write", "command")
"""Doors of operations on rows."""
STATEMENTS = ("table", "statement", "tasks", "command")
"""Doors of UPDATE and DELETE: a method of `Table`; its text, as Spark sends it, run by one process or by tasks."""
UPSERTS = ("write", "table", "merge", "statement", "tasks", "command")
DELETES = UPSERTS
SERVICES = ("table", "command")
_ON = "t.part = s.part AND t.id = s.id"
_LOCAL = {"statement": {"hoodie.py.local.max.bytes": str(1 << 30)}, "tasks": {}}


@dataclass(frozen=True)
class Doors:
    """Changes of a table by the door that is named first."""

    path: str
    form: Form

    def write(self, door: str, operation: str, data: pa.Table, options: Mapping[str, str]) -> Any:
        given = {**self.form.options, **options}
        new: dict[str, str] = {"record_key": "id", "partition_by": "part", "ordering_by": "ts"}
        if door == "write":
            return hudi_py.write(
                self.path,
                data,
                operation,
                given,
                table_type=self.form.kind,
                table_version=self.form.version,
                **new,
            )
        named = [text for name, value in new.items() for text in (f"--{name.replace('_', '-')}", value)]
        named += ["--type", self.form.kind, "--table-version", str(self.form.version)]
        with _file_of(data) as file:
            return _result(answer("write", self.path, file, "--operation", operation, *named, options=given))

    def upsert(self, door: str, data: pa.Table, options: Mapping[str, str]) -> Any:
        if door in WRITES:
            return self.write(door, "upsert", data, options)
        if door == "table":
            return self._table(options).upsert(data)
        return self._merge(door, data, options).when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, door: str, data: pa.Table, options: Mapping[str, str]) -> Any:
        """Of the keys of the rows."""
        if door == "write":
            return self.write(door, "delete", data, options)
        if door == "table":
            return self._table(options).delete(data)
        if door == "command":
            keys = ",".join(data.column("id").to_pylist())
            return self._command("delete", "--keys", keys, "--yes", options=options)
        return self._merge(door, data, options).when_matched_delete().execute()

    def update(self, door: str, values: Mapping[str, str], condition: str, options: Mapping[str, str]) -> Any:
        if door == "table":
            return self._table(options).update(values, condition)
        if door == "command":
            assignments = [text for name, value in values.items() for text in ("--set", f"{name}={value}")]
            return self._command("update", *assignments, "--where", condition, options=options)
        return spread(self.path, Update(values, condition), self._of(door, options))

    def delete_where(self, door: str, condition: str, options: Mapping[str, str]) -> Any:
        if door == "table":
            return self._table(options).delete_where(condition)
        if door == "command":
            return self._command("delete", "--where", condition, "--yes", options=options)
        return spread(self.path, Delete(condition), self._of(door, options))

    def delete_partition(self, door: str, path: str, options: Mapping[str, str]) -> Any:
        if door == "table":
            return self._table(options).delete_partition(path)
        return self._command("delete", "--partition", path, "--yes", options=options)

    def service(
        self,
        door: str,
        command: str,
        *arguments: str,
        options: Mapping[str, str],
        run: Callable[[hudi_py.Table], Any],
    ) -> Any:
        """`run`: what the command does, by `Table`."""
        if door == "table":
            return run(self._table(options))
        return answer(*command.split(), self.path, *arguments, options={**self.form.options, **options}) or {}

    def _table(self, options: Mapping[str, str]) -> hudi_py.Table:
        return hudi_py.open_table(self.path, {**self.form.options, **options})

    def _merge(self, door: str, data: pa.Table, options: Mapping[str, str]) -> MergeBuilder:
        if door == "merge":
            return self._table(options).merge(data, on=_ON)
        return merging(data, _ON, self.path, self._of(door, options))

    def _of(self, door: str, options: Mapping[str, str]) -> dict[str, str]:
        return {**self.form.options, **options, **_LOCAL[door]}

    def _command(self, name: str, *arguments: str, options: Mapping[str, str]) -> WriteResult:
        return _result(answer(name, self.path, *arguments, options={**self.form.options, **options}))


def _result(told: Any) -> WriteResult:
    """What a command of a write tells, as `Table` returns it."""
    return WriteResult.from_dict(told)


@contextmanager
def _file_of(data: pa.Table) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.parquet")
        pq.write_table(data, file)
        yield file
