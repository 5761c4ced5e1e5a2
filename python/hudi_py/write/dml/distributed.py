"""A statement on an engine with several processes: its text, the source that tasks stage, and its run in one process.

The text is JSON, so that it can travel as an option: a kind, and the arguments of the method of `Table` of that kind.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import spark as spark_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS
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
from hudi_py.storage import Storage, open_storage, with_durability
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.paths import SOURCES
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.write.api import create_empty_table, existing_table
from hudi_py.write.context import TaskId
from hudi_py.write.dml.builder import MergeBuilder
from hudi_py.write.dml.merge import Merge
from hudi_py.write.dml.merge_plan import Clause, MergePlan
from hudi_py.write.dml.run import check_statement, run_statement
from hudi_py.write.dml.statements import Delete, Statement, Update
from hudi_py.write.result import WriteResult
from hudi_py.write.rows.input import normalise_batch, normalise_schema
from hudi_py.write.rows.keygen import key_generator
from hudi_py.write.staging import Stage, StagedFile, staged_rows
from hudi_py.write.table.alter import alter_table

__all__ = [
    "MergeBuilder",
    "MergePlan",
    "StagedFile",
    "StatementCall",
    "TableConfig",
    "WriteResult",
    "alter_text",
    "commit_statement",
    "delete_text",
    "forget_source",
    "merge_text",
    "partition_path",
    "plan_statement",
    "stage_source",
    "table_text",
    "update_text",
]

_CHANGES: Final[Mapping[str, Any]] = {
    "drop": DropColumn,
    "rename": RenameColumn,
    "add": AddColumn,
    "type": ChangeType,
    "comment": SetComment,
    "nullable": SetNullable,
    "move": MoveColumn,
}
_SOURCE_LIFE_MS: Final = 24 * 3600 * 1000


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


def partition_path(config: TableConfig, values: pa.RecordBatch) -> str:
    """The path of the partition with the values of the one row of `values`."""
    return str(key_generator(config).partition_paths(values)[0].as_py())


@dataclass(frozen=True, slots=True)
class StatementCall:
    """A statement as each process receives it. Pickles."""

    path: str
    options: Options
    """Those of the write, without the options of the storage."""
    text: str
    token: str
    """Unique to the call; names the files of its source and its report."""
    source: pa.Schema
    """Normalised columns of the rows that tasks get: of the source of a merge, or of a new table; or the types that an
    alteration names."""
    metadata: MetadataWriter
    after: tuple[AfterCommit, ...] = ()
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def storage(self) -> Storage:
        storage = open_storage(self.path, dict(self.storage_options) or None)
        return with_durability(storage, self.options.get(write_config.DURABLE))

    @property
    def kind(self) -> str:
        return str(json.loads(self.text)["kind"])

    @property
    def has_source(self) -> bool:
        return self.kind == "merge"

    def check_volume(self, num_bytes: int) -> None:
        """Raises ConfigError if the source is larger than one process should hold."""
        limit = self.options.get(write_config.STAGING_MAX_BYTES)
        if num_bytes > limit:
            raise ConfigError(
                f"Cannot merge into {self.path}: its source takes more than {limit} bytes ({num_bytes} so far), the "
                f"limit of {write_config.STAGING_MAX_BYTES.key}, as one process merges it; raise it, or merge in "
                "several steps"
            )


def plan_statement(
    path: str, options: Options, schema: pa.Schema, metadata: MetadataWriter, after: tuple[AfterCommit, ...]
) -> StatementCall:
    """The statement that the options describe, checked against the table. Changes nothing.

    Args:
        schema: the columns of the rows that tasks will get.

    Raises:
        HudiError: as `run_statement`, if the statement does not fit the table or its source.
    """
    check_many_processes(options)
    text = options.get(spark_config.STATEMENT) or ""
    token = options.get(spark_config.SERVICE_TOKEN) or ""
    bare = options.without_credentials()
    storage_options = tuple(options.storage.items())
    call = StatementCall(path, bare, text, token, pa.schema([]), metadata, after, storage_options)
    if call.kind in ("merge", "create", "alter"):
        columns = pa.schema([each for each in schema if each.name not in META_FIELDS])
        call = replace(call, source=normalise_schema(columns))
    if call.kind in ("create", "drop", "alter"):
        return call
    storage = call.storage()
    check_statement(storage, _statement(call, ()), bare, metadata, storage_options=dict(storage_options) or None)
    return call


def stage_source(call: StatementCall, task: TaskId, batches: Iterable[pa.RecordBatch]) -> StagedFile | None:
    """Stages the rows of one task attempt.

    Raises:
        SchemaMismatchError, ConfigError: a value that no table holds, or more rows than the option allows.
    """
    if not call.has_source:
        return None
    stage = Stage(call.storage(), f"{SOURCES}/{call.token}-{task}.arrow", call.check_volume)
    try:
        for batch in batches:
            stage.add(normalise_batch(batch.select(call.source.names), call.source))
        return stage.close()
    except BaseException:  # nothing staged may remain, even after an interrupt
        stage.abandon()
        raise


def commit_statement(call: StatementCall, staged: Sequence[StagedFile]) -> WriteResult | None:
    """Runs the statement, whatever its tasks staged, and removes its source. Creating and dropping a table has no
    result.

    Raises:
        HudiError: as `run_statement` or `create_empty_table`.
    """
    call.check_volume(sum(file.num_bytes for file in staged))
    storage = call.storage()
    if call.kind == "create":
        create_empty_table(storage, call.source, call.options)
        return None
    if call.kind == "drop":
        if existing_table(storage) is not None:  # nothing else is deleted
            storage.delete_tree("")
        return None
    if call.kind == "alter":
        found = _column_changes(call)
        options = dict(call.storage_options) or None
        return alter_table(storage, found, call.options, metadata=call.metadata, storage_options=options)
    try:
        return run_statement(
            storage,
            _statement(call, staged),
            call.options,
            metadata=call.metadata,
            after=call.after,
            storage_options=dict(call.storage_options) or None,
        )
    finally:
        forget_source(call)


def forget_source(call: StatementCall) -> None:
    """Removes what the tasks of a statement staged, and sources older than a day."""
    if not call.has_source:
        return
    storage = call.storage()
    for info in storage.list(SOURCES):
        if info.name.startswith(f"{call.token}-") or now_ms() - info.modified_ms > _SOURCE_LIFE_MS:
            storage.delete(info.path)


def _statement(call: StatementCall, staged: Sequence[StagedFile]) -> Statement:
    given = json.loads(call.text)
    if given["kind"] == "update":
        return Update(_decoded(given["set"]) or {}, given["where"])
    if given["kind"] == "delete":
        return Delete(given["where"])
    clauses = tuple(
        Clause(each["when"], each["action"], each["condition"], _decoded(each["values"])) for each in given["clauses"]
    )
    plan = MergePlan(tuple(given["on"]), clauses, given["source_alias"], given["target_alias"])
    return Merge(plan, pa.Table.from_batches(list(staged_rows(call.storage(), staged)), call.source))


def _column_changes(call: StatementCall) -> list[ColumnChange]:
    found = []
    for each in json.loads(call.text)["changes"]:
        members = {key: value for key, value in each.items() if key != "change"}
        if "type" in members:
            members["type"] = call.source.field(members["type"]).type
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
