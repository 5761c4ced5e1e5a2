"""Functions of the core that `remote` calls for the connector. The option that carries a call cannot name others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options, Scope
from hudi_py.formats.avro import arrow_schema
from hudi_py.health.procedures import REPAIRS, run_repair_procedure
from hudi_py.inspect import procedure_report
from hudi_py.interop.catalogs import sync
from hudi_py.model.layout import LOCK_AUDIT, LOCK_AUDIT_CONFIG
from hudi_py.model.limits import UNPACKED, limit, parse_json
from hudi_py.schema.changes import changes_of
from hudi_py.services import distributed as services
from hudi_py.services.distributed import BegunPlan, ServiceCall, UnitPart, Work
from hudi_py.storage import Storage, open_for_write
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.locks import AuditReport, LockAudit, table_lock
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.session import WriteTarget
from hudi_py.wiring import (
    IndexChange,
    announcing,
    metadata_writer,
    service_target,
    write_configuration,
    write_target,
)
from hudi_py.write import distributed as writes
from hudi_py.write.api import create_empty_table
from hudi_py.write.bootstrap import bootstrap_table
from hudi_py.write.distributed import DistributedWrite, TaskResult
from hudi_py.write.dml import distributed as statements
from hudi_py.write.dml.distributed import (
    Delete,
    MergeCall,
    MergePlan,
    SpreadPlan,
    SpreadResult,
    SpreadStatement,
    StagedSource,
    Update,
)
from hudi_py.write.result import WriteResult
from hudi_py.write.routed import RoutedPlan, plan_routed
from hudi_py.write.rows.input import normalise_schema
from hudi_py.write.table.alter import alter_table
from hudi_py.write.table.ddl import add_partitions, drop_table, rename_table
from pyspark_hudi.paths import checked_path
from pyspark_hudi.views import packed, read_view
from pyspark_hudi.writer import commit_or_skip, driver_pid

HELD_BY_VALUES: Final = frozenset({table_lock})
"""Functions to which values of the core refer."""
REPAIR_PROCEDURES: Final = REPAIRS
"""The procedures that repair a table, by name."""


def max_call_bytes() -> int:
    """Returns the maximum size of a call or its answer."""
    return limit(UNPACKED)


@dataclass(frozen=True)
class ServiceRequest:
    """A call of a service as its caller specifies it: the driver resolves paths and default options."""

    path: str
    options: Mapping[str, Any]
    name: str
    arguments: tuple[tuple[str, Any], ...]

    def call(self) -> ServiceCall:
        """Resolves the call. Raises ConfigError if an option or the path is wrong."""
        options = Options.resolve(self.options, Scope.WRITE)
        path = checked_path(self.path, "write")
        return ServiceCall(path, options, metadata_writer(options), self.name, self.arguments)


def run_single_step(request: ServiceRequest, instant: str | None) -> dict[str, Any]:
    call = request.call()
    with announcing(call.path, call.options):
        return services.run_single_step(call, instant)


def schedule_plan(request: ServiceRequest) -> dict[str, Any]:
    call = request.call()
    with announcing(call.path, call.options):
        return services.schedule(call)


def begin_plan(request: ServiceRequest, instant: str | None, plans: bool) -> tuple[ServiceCall, BegunPlan]:
    """Returns the call, as tasks and `commit_plan` take it, and the plan."""
    call = request.call()
    with announcing(call.path, call.options):
        return call, services.begin(call, instant, plans=plans)


def execute_plan(call: ServiceCall, work: Work, tasks: Sequence[int], numbers: Sequence[int]) -> Sequence[Any]:
    """Executes units of a plan. `numbers` selects some of `tasks`."""
    return services.execute(call, work, [tasks[number] for number in numbers])


def sample_parts(
    call: ServiceCall, work: Work, parts: Sequence[UnitPart], numbers: Sequence[int]
) -> Sequence[tuple[int, Any]]:
    return services.sample(call, work, [parts[number] for number in numbers])


def bounds_of_units(call: ServiceCall, work: Work, samples: Sequence[tuple[int, Any]]) -> dict[int, Any]:
    return services.bounds(call, work, samples)


def commit_plan(call: ServiceCall, work: Work, outcomes: Sequence[Any]) -> dict[str, Any]:
    with announcing(call.path, call.options):
        return services.commit(call, work, outcomes)


def give_up_plan(call: ServiceCall, work: Work) -> None:
    services.give_up(call, work)


# -- writes -----------------------------------------------------------------------------------------------------------


def plan_write(path: str, given: Mapping[str, Any], operation: str, schema: pa.Schema) -> RoutedPlan:
    return plan_routed(_row_target(path, given), operation, schema, owner_pid=driver_pid())


def bootstrap(path: str, given: Mapping[str, Any], chosen: Mapping[str, Any]) -> WriteResult:
    """`chosen`: options that prevail."""
    return bootstrap_by(checked_path(path, "write"), _write_options({**given, **chosen}))


def bootstrap_by(path: str, options: Options) -> WriteResult:
    """Makes a table of the files that the options name."""
    check_many_processes(options)
    return bootstrap_table(write_target(path, options))


def columns_of(schema: str) -> pa.Schema:
    """Returns the columns of an Avro schema of a record.

    Raises:
        ValueError, SchemaMismatchError: it is none.
    """
    return arrow_schema(parse_json(schema))


def commit_write(write: DistributedWrite, results: Sequence[TaskResult]) -> WriteResult:
    return commit_or_skip(write, results)


def abort_write(write: DistributedWrite) -> None:
    writes.abort_write(write)


def commit_staged(write: DistributedWrite, results: Sequence[TaskResult]) -> WriteResult:
    """Commits the rows that `stage_small` has staged."""
    try:
        return commit_or_skip(write, results)
    finally:
        writes.forget_staged(write)


def forget_staged(write: DistributedWrite) -> None:
    writes.forget_staged(write)


# -- statements about a table, its columns and its indexes -----------------------------------------------------------


def change_index(path: str, given: Mapping[str, Any], change: IndexChange) -> None:
    options = _write_options(given)
    change.run(checked_path(path, "write"), options)


def create_table(path: str, given: Mapping[str, Any], columns: pa.Schema) -> None:
    options = _write_options(given)
    create_empty_table(_storage(path, options), columns, options)


def drop_files(path: str, given: Mapping[str, Any]) -> None:
    drop_table(_target(path, given))


def rename(path: str, given: Mapping[str, Any], name: str, target: str) -> None:
    rename_table(_target(path, given), name, target)


def make_partitions(path: str, given: Mapping[str, Any], paths: Sequence[str], if_not_exists: bool) -> None:
    add_partitions(_target(path, given), paths, if_not_exists=if_not_exists)


def alter_columns(
    path: str, given: Mapping[str, Any], changes: Sequence[Mapping[str, Any]], types: pa.Schema
) -> WriteResult:
    """Changes columns. For `changes` and `types` see `changes_of`."""
    target = _target(path, given)
    made = changes_of(changes, normalise_schema(types) if types else types)
    with announcing(target.storage.uri, target.options):
        return alter_table(target, made)


def repair_procedure(path: str, given: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> bytes:
    """Runs a procedure of `hudi_py.health.procedures`. Returns its rows, as `report` does."""
    _write_options(given)  # refuses a lock that others do not see
    return packed(run_repair_procedure(checked_path(path, "write"), given, name, arguments))


def register_with(path: str, given: Mapping[str, Any], catalogs: Mapping[str, Any]) -> None:
    """Registers a table with the catalogs that the options `catalogs` name."""
    sync(checked_path(path, "read"), options={**given, **catalogs})


def audit_status(path: str, given: Mapping[str, Any]) -> tuple[bool, str, str]:
    """Returns whether the audit of the lock is enabled, and the paths of the file that says so and of the records,
    relative to the table's."""
    return _lock_audit(path, given).enabled, LOCK_AUDIT_CONFIG, LOCK_AUDIT


def set_audit(path: str, given: Mapping[str, Any], enabled: bool) -> None:
    _lock_audit(path, given).set_enabled(enabled)


def validate_audit(path: str, given: Mapping[str, Any]) -> AuditReport:
    return _lock_audit(path, given).validate()


def clean_up_audit(path: str, given: Mapping[str, Any], age_days: int, dry_run: bool) -> tuple[bool, int]:
    """Deletes old records of the lock. Returns whether there are any, and the number of old ones."""
    audit = _lock_audit(path, given)
    return audit.has_folder(), len(audit.clean_up(age_days, dry_run=dry_run))


def _lock_audit(path: str, given: Mapping[str, Any]) -> LockAudit:
    storage = _storage(path, _write_options(given))
    load_table_config(storage)  # refuses a path without a table
    return LockAudit(storage)


# -- statements about rows --------------------------------------------------------------------------------------------


def run_change(path: str, given: Mapping[str, Any], change: Update | Delete) -> WriteResult | SpreadPlan:
    return statements.run_change(_row_target(path, given), change, owner_pid=driver_pid())


def plan_merge(path: str, given: Mapping[str, Any], plan: MergePlan, source: pa.Schema) -> MergeCall:
    return statements.plan_merge(_row_target(path, given), plan, source)


def commit_merge(call: MergeCall, staged: Sequence[StagedSource]) -> WriteResult | SpreadPlan:
    return statements.commit_merge(call, staged, owner_pid=driver_pid())


def abort_merge(call: MergeCall) -> None:
    statements.abort_merge(call)


def commit_spread(plan: SpreadStatement, results: Sequence[SpreadResult]) -> WriteResult:
    return statements.commit_spread(plan, results)


def abort_spread(plan: SpreadStatement) -> None:
    statements.abort_spread(plan)


# -- reports ----------------------------------------------------------------------------------------------------------


def report(path: str, given: Mapping[str, Any]) -> bytes:
    """Returns the rows of a view, as an Arrow IPC stream."""
    return packed(read_view(checked_path(path, "read"), Options.resolve(given, Scope.READ)))


def procedure(path: str, given: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> bytes:
    """Returns the rows of a procedure of `hudi_py.inspect.procedures`, as `report` does."""
    options = Options.resolve(given, Scope.READ)
    return packed(procedure_report(checked_path(path, "read"), options, name, arguments))


def _write_options(given: Mapping[str, Any]) -> Options:
    options = write_configuration(given)
    check_many_processes(options)
    return options


def _storage(path: str, options: Options) -> Storage:
    return open_for_write(checked_path(path, "write"), options)


def _target(path: str, given: Mapping[str, Any]) -> WriteTarget:
    options = _write_options(given)
    return service_target(checked_path(path, "write"), options)


def _row_target(path: str, given: Mapping[str, Any]) -> WriteTarget:
    options = write_configuration(given)
    return write_target(checked_path(path, "write"), options)
