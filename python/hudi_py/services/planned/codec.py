"""Stores the plans of an action, and divides them into units that can be executed independently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from hudi_py.errors import ConfigError, CorruptFileError, HistoryCleanedError
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import FileId, PartitionPath, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.services.context import ServiceContext
from hudi_py.storage import Storage
from hudi_py.timeline.pending_plans import PendingPlans, check_partition, read_plan
from hudi_py.timeline.plans import CompactionOperation
from hudi_py.timeline.state import BootstrapSources
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import InstantFiles, requested_path
from hudi_py.view.bootstrap import METADATA_INSTANT, base_file_in, load_bootstrap_sources

PlanT = TypeVar("PlanT")
UnitT = TypeVar("UnitT")


@dataclass(frozen=True, slots=True)
class PlanCodec(Generic[PlanT, UnitT]):
    """How the plans of one action are stored and divided."""

    action: Action
    decode: Callable[[bytes, str], PlanT | None]
    """Decodes a plan from the content of a requested file and its name, for errors; None: the plan belongs to another
    service."""
    encode: Callable[[PlanT], bytes]
    units: Callable[[PlanT], tuple[UnitT, ...]]
    """Returns the units of work of a plan, in order."""
    with_units: Callable[[PlanT, tuple[UnitT, ...]], PlanT]
    """Returns the plan with other units."""
    files: Callable[[UnitT], Iterable[tuple[str, str]]]
    """Returns partition path and name of the files that a unit reads."""
    rows: Callable[[PlanT], tuple[Mapping[str, Any], ...]]
    """Returns a plan as `Preview` shows it."""

    def request(self, storage: Storage, timeline: Timeline, instant: InstantTime, plan: PlanT) -> None:
        """Stores a new plan. Raises the errors of `InstantFiles.request`."""
        InstantFiles(storage, timeline.layout, instant, self.action).request(self.encode(plan))

    def existing(self, storage: Storage, timeline: Timeline, instant: InstantTime) -> PlanT:
        """Returns a plan, pending or completed.

        Raises:
            ConfigError: there is no such plan.
        """
        data, context = read_plan(storage, timeline.layout, instant, self.action)
        plan = self.decode(data, context) if data else None
        if plan is None:
            pending = PendingPlans(storage, timeline).of(self.action)
            raise ConfigError(
                f"Cannot run the {self.action.value} {instant} of {storage.uri}: there is no such plan; pending: "
                + (", ".join(other.time for other in pending) or "none"),
                instant=instant,
            )
        return plan

    def rewrite(self, storage: Storage, timeline: Timeline, instant: InstantTime, plan: PlanT) -> None:
        """Replaces a pending plan."""
        storage.put(requested_path(timeline.layout, instant, self.action), self.encode(plan))


_DEAD_PLAN: Final = "so the plan can no longer be executed; unschedule it, or restore an earlier savepoint"


def missing_file(storage: Storage, do: str, partition: str, error: FileNotFoundError) -> HistoryCleanedError:
    """Builds the error for a plan with a missing file. `do`: what was attempted."""
    return HistoryCleanedError(
        f"Cannot {do} in partition '{partition}' of {storage.uri}: a file of the plan is missing ({error}), "
        + _DEAD_PLAN
    )


def slice_of(
    context: ServiceContext, operation: CompactionOperation, sizes: Mapping[str, int], do: str = "compact"
) -> FileSlice:
    """Returns the files of an operation with their sizes, from `sizes` by path, or else from the storage. `do`: for
    errors.

    For a bootstrapped base file, the source in the bootstrap index counts, whatever the plan says.

    Raises:
        CorruptFileError: a name in the plan is not that of a file of the group, or its partition is none.
        HistoryCleanedError: a file is missing.
    """
    storage, partition = context.storage, PartitionPath(operation.partition_path)
    check_partition(partition, f"{do} {storage.uri} by its plan")
    base: BaseFile | None = None
    if operation.base_file is not None:
        base_name = parse_base_file_name(operation.base_file)
        if base_name is None or base_name.file_id != operation.file_id:
            raise _misnamed_error(storage, operation, operation.base_file, do)
        size = _size_of(storage, join_path(partition, operation.base_file), sizes, do)
        sources: BootstrapSources = {}
        if base_name.instant == METADATA_INSTANT:
            sources = load_bootstrap_sources(storage, context.session.config, context.session.bootstrap)
        base = base_file_in(sources, partition, base_name, size)
    logs = []
    for name in operation.log_files:
        log = parse_log_file_name(name)
        if log is None or log.file_id != operation.file_id:
            raise _misnamed_error(storage, operation, name, do)
        logs.append(LogFile(partition, log, _size_of(storage, join_path(partition, name), sizes, do)))
    logs.sort(key=lambda log: log.name.sort_key)
    return FileSlice(partition, FileId(operation.file_id), operation.base_instant, base, tuple(logs))


def _size_of(storage: Storage, path: str, sizes: Mapping[str, int], do: str) -> int:
    known = sizes.get(path)
    if known is not None:
        return known
    info = storage.stat(path)
    if info is None:
        raise HistoryCleanedError(
            f"Cannot {do} {storage.uri}: the file {path} of the plan is missing, {_DEAD_PLAN}",
            path=path,
        )
    return info.size


def _misnamed_error(storage: Storage, operation: CompactionOperation, name: str, do: str) -> CorruptFileError:
    return CorruptFileError(
        f"Cannot {do} file group {operation.file_id} in partition '{operation.partition_path}' of {storage.uri}: "
        f"the plan names '{name}', which is not the name of a file of this group"
    )
