"""Statements as text, so that they can travel as an option: JSON with a kind, and the arguments of the method of
`Table` of that kind."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal

import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.formats.hudi_types import declared
from hudi_py.schema.changes import (
    AddColumn,
    ChangeType,
    ColumnChange,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetNullable,
)
from hudi_py.write.dml.merge import Merge
from hudi_py.write.dml.merge_plan import Clause, MergePlan
from hudi_py.write.dml.statements import Delete, Update

_CHANGES: Final[Mapping[str, Any]] = {
    "drop": DropColumn,
    "rename": RenameColumn,
    "add": AddColumn,
    "type": ChangeType,
    "comment": SetComment,
    "nullable": SetNullable,
    "move": MoveColumn,
}


def update_text(set: Mapping[str, object], condition: str | None) -> str:
    """`Table.update` as text. Raises ConfigError if a constant cannot travel."""
    return json.dumps({"kind": "update", "set": _encoded(set), "where": condition})


def delete_text(condition: str) -> str:
    """`Table.delete_where` as text."""
    return json.dumps({"kind": "delete", "where": condition})


def merge_text(plan: MergePlan) -> str:
    """A merge as text, without its source. Raises ConfigError if a constant cannot travel."""
    clauses = []
    for clause in plan.clauses:
        values = None if clause.values is None else _encoded(clause.values)
        clauses.append({**asdict(clause), "values": values})
    return json.dumps({"kind": "merge", **asdict(plan), "clauses": clauses})


def alter_text(changes: Sequence[Mapping[str, object]]) -> str:
    """`Table.alter` as text.

    Args:
        changes: in order, each with `change` (`drop`, `rename`, `add`, `type`, `comment`, `nullable` or `move`) and the
            members of the change of that kind (`hudi_py.schema.changes`). `type` names a column of the source.
    """
    return json.dumps({"kind": "alter", "changes": list(changes)})


def table_text(kind: Literal["create", "drop"]) -> str:
    """The creation of a table with the columns of the rows that tasks get, or the deletion of its files, as text."""
    return json.dumps({"kind": kind})


def rename_text(name: str, path: str) -> str:
    """Another name of a table, and where its files go, as text. `path`: where they are now, if they stay."""
    return json.dumps({"kind": "rename", "name": name, "path": path})


def partitions_text(paths: Sequence[str], *, if_not_exists: bool = False) -> str:
    """The making of partitions without rows as text. `if_not_exists`: whether those that are there are no error."""
    return json.dumps({"kind": "partitions", "paths": list(paths), "if_not_exists": if_not_exists})


def new_partitions(text: str) -> tuple[list[str], bool]:
    """The inverse of `partitions_text`."""
    given = json.loads(text)
    return list(given["paths"]), bool(given["if_not_exists"])


def new_place(text: str) -> tuple[str, str]:
    """The inverse of `rename_text`."""
    given = json.loads(text)
    return given["name"], given["path"]


def forget_text() -> str:
    """The end of a merge that tasks could not finish, as text."""
    return json.dumps({"kind": "forget"})


def kind_of(text: str) -> str:
    """`update`, `delete`, `merge`, `forget`, `alter`, `create`, `drop`, `rename` or `partitions`."""
    return str(json.loads(text)["kind"])


def statement_of(text: str, source: pa.Table) -> Update | Delete | Merge:
    """The inverse of `update_text`, `delete_text` and `merge_text`. `source`: the rows of a merge."""
    given = json.loads(text)
    if given["kind"] == "update":
        return Update(_decoded(given["set"]) or {}, given["where"])
    if given["kind"] == "delete":
        return Delete(given["where"])
    clauses = tuple(
        Clause(each["when"], each["action"], each["condition"], _decoded(each["values"])) for each in given["clauses"]
    )
    return Merge(MergePlan(tuple(given["on"]), clauses, given["source_alias"], given["target_alias"]), source)


def column_changes(text: str, types: pa.Schema) -> list[ColumnChange]:
    """The inverse of `alter_text`. `types`: the columns whose types it names."""
    found = []
    for each in json.loads(text)["changes"]:
        members = {key: value for key, value in each.items() if key != "change"}
        if "type" in members:
            field = types.field(members["type"])
            members["type"] = field.type
            if each["change"] == "add":
                members["custom"] = declared(field)
            elif declared(field) is not None:
                raise ConfigError(
                    f"Cannot change the type of '{each['path']}' to {declared(field)}, which a column keeps from its "
                    "beginning; add a column of that type"
                )
        found.append(_CHANGES[each["change"]](**members))
    return found


def _encoded(values: Mapping[str, object]) -> dict[str, Any]:
    """Values of assignments for JSON: constants that it lacks are Arrow's."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or isinstance(value, (str, bool, int)):
            made[name] = value
            continue
        try:
            column = pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else pa.array([value])
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise ConfigError(
                f"The constant {value!r} is of type {type(value).__name__}; supported are None, bool, int, float, "
                "Decimal, bytes, date, datetime and Arrow scalars; text is an expression, in which constants are in "
                "quotes"
            ) from error
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", "UTC" if column.type.tz else None))
        sink = pa.BufferOutputStream()
        batch = pa.record_batch([column], names=["value"])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        made[name] = {"arrow": base64.b64encode(sink.getvalue().to_pybytes()).decode()}
    return made


def _decoded(values: Mapping[str, Any] | None) -> dict[str, object] | None:
    if values is None:
        return None
    made: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            with pa.ipc.open_stream(base64.b64decode(value["arrow"])) as reader:
                made[name] = reader.read_all()["value"][0]
        else:
            made[name] = value
    return made
