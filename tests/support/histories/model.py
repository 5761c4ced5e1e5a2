"""What a table of a random history must hold: a dict of its rows after each write."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from hypothesis.stateful import RuleBasedStateMachine

import hudi_py
from tests.support.histories.doors import Doors
from tests.support.histories.forms import QUIET, Form

Key = tuple[str, int]
Row = dict[str, Any]
"""Values by the name that the column had when it was made, and the instant of the row's newest write as `at`."""
OWN = {"text": pa.string(), "n": pa.int32()}
KINDS = {"int": pa.int32(), "long": pa.int64(), "double": pa.float64(), "text": pa.string()}
REFUSED = (hudi_py.ConfigError, hudi_py.UnsupportedTableError, hudi_py.ConflictError)
"""A conflict: a pending plan has files that the operation would replace."""


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


class Model(RuleBasedStateMachine):
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
        self.copies = 0

    @property
    def doors(self) -> Doors:
        return Doors(self.path, self.form)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def table(self) -> hudi_py.Table:
        return hudi_py.open_table(self.path, {**self.form.options, **QUIET})

    @property
    def now(self) -> State:
        return self.past[-1]

    def _tried(self, name: str, call: Callable[[], Any]) -> Any:
        """What the call returns; None where it is refused, which must change nothing."""
        try:
            result = call()
        except REFUSED as error:
            self.refused[f"{name}: {str(error).splitlines()[0]}"] += 1
            return None
        self.done[name] += 1
        return result

    def _served(self, door: str, command: str, *arguments: str, **named: Any) -> Any:
        return self._tried(f"{command} by {door}", lambda: self.doors.service(door, command, *arguments, **named))

    def _data(
        self, keys: Iterable[Key], text: str | None, without: Sequence[str] = (), late: int = 0
    ) -> tuple[pa.Table, dict[Key, Row]]:
        extra = self.past[-1].columns if self.past else {}
        types = {**OWN, **{own: KINDS[kind] for own, (_, kind) in extra.items()}}
        types = {own: kind for own, kind in types.items() if own not in without}
        rows: dict[Key, Row] = {}
        for place, key in enumerate(keys):
            row: Row = {"ts": self.step - late}
            for own, kind in types.items():
                number = (self.step * 7 + place) % 11
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

    def _write(self, operation: str, data: pa.Table, options: Mapping[str, str], door: str = "write") -> Any:
        return self.doors.write(door, operation, data, options)

    def _record(self, result: Any, new: Mapping[Key, Row], gone: Iterable[Key] = (), *, replaces: bool = False) -> None:
        """A write is done: `gone` are no rows any more, and `new` are; `replaces`: by other file groups. Without an
        instant it changed nothing."""
        if result.instant is None:
            assert not new
            assert not {*gone} & self.now.rows.keys()
            return
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
