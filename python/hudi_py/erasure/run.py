"""Carries out an erasure by a delete, a compaction, a clean and rebuilt indexes, and offers it as methods of
`Table`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

import pyarrow.compute as pc

from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import interop as interop_config
from hudi_py.erasure.plan import Prepared, failures, find_rows, plan_erasure, prepare, published_target, value_indexes
from hudi_py.erasure.report import ErasurePlan, ErasureReport, ErasureStep
from hudi_py.errors import ConflictError, Remedy
from hudi_py.interop.iceberg.metadata import current_snapshot
from hudi_py.interop.iceberg.publication import VIEW, Settings, publish_table, unpublish_table
from hudi_py.interop.iceberg.target import BesideTable
from hudi_py.metadata_write.maintenance.rebuild import rebuild
from hudi_py.model.words import capitalised, counted
from hudi_py.read.request import key_texts
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import execute_all, pending_instants
from hudi_py.services.recovery.savepoint import delete_savepoint
from hudi_py.transaction.recovery.failed_writes import recover_failed_writes
from hudi_py.transaction.session import WriteTarget
from hudi_py.transaction.settings import ANY_STATE
from hudi_py.write.dml.run import run_statement
from hudi_py.write.dml.slices import Condition
from hudi_py.write.dml.statements import Delete

_SAVEPOINTS = Remedy("delete it (delete_savepoints=True)", cli="delete it (--delete-savepoints)")


class ErasureMethods(ABC):
    """Erasing rows from every file of a table."""

    def erase(
        self,
        filter: str | pc.Expression | None = None,
        *,
        keys: str | Iterable[object] | None = None,
        delete_savepoints: bool = False,
        reference: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> ErasureReport:
        """Erases rows for good: deletes them, removes all older versions of their file groups, rebuilds indexes and
        Iceberg metadata, then reads every file of the table again and reports what it found.

        Time travel to earlier states, and incremental and change queries from before, are impossible for these file
        groups afterwards. `docs/erasure.md` says what is erased, and what no program can find.

        Args:
            filter: rows for which it is true, of the newest state or of an older version; see `scan`. A row that does
                not satisfy it any more stays, and its older versions that did are removed.
            keys: record keys, in all partitions, instead of a filter; see `scan`.
            delete_savepoints: whether savepoints that keep files with the rows are deleted; otherwise they are in the
                way.
            reference: for the report, such as the number of a request.
            options: of writes and table services.

        Raises:
            ConflictError: a savepoint, a pending plan, a running write or something else is in the way. The message
                names all that is; nothing was changed.
            ConfigError, SchemaMismatchError: neither filter nor keys, or the filter does not fit the table.
            UnsupportedTableError: the table cannot be written, or its logs cannot be compacted.
        """
        with self._serving("erase rows of", options) as context:
            return erase(context, filter, _checked_keys(keys), delete_savepoints=delete_savepoints, reference=reference)

    def preview_erase(
        self,
        filter: str | pc.Expression | None = None,
        *,
        keys: str | Iterable[object] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ErasurePlan:
        """Returns what `erase` would do now, and what prevents it. Reads every file of the table, and changes nothing.
        For arguments and errors see there."""
        with self._serving("look for rows of", options) as context:
            return plan_erasure(context, filter, _checked_keys(keys))

    @abstractmethod
    def _serving(self, title: str, options: Mapping[str, Any] | None = None) -> AbstractContextManager[ServiceContext]:
        """Opens the context of one call."""


def erase(
    context: ServiceContext,
    condition: Condition,
    keys: frozenset[str] | None,
    *,
    delete_savepoints: bool = False,
    reference: str = "",
) -> ErasureReport:
    """Erases rows from every file of the table, then reads all files again.

    Each step is a separate action. If one fails, earlier steps stay done, and another erasure continues from there.

    Args:
        delete_savepoints: whether savepoints that keep files with the rows are deleted; otherwise they are in the way.
        reference: for the report.

    Raises:
        ConflictError: something is in the way, which the message names, and nothing was changed; or another writer
            changed the rows meanwhile.
        ConfigError, SchemaMismatchError, UnsupportedTableError: as `prepare`.
        LockError: the table lock could not be acquired in time.
    """
    began, uri = _utc_now(), context.storage.uri
    prepared = prepare(context, condition, keys)
    plan = prepared.plan
    savepoints = [] if delete_savepoints else [f"the savepoint {savepoint}" for savepoint in plan.savepoints]
    in_the_way = list(plan.in_the_way)
    if savepoints:
        in_the_way.insert(0, f"{', '.join(savepoints)} keeps files with the rows; {_SAVEPOINTS}")
    if in_the_way:
        text = f"Cannot erase rows of {uri}: {'; '.join(in_the_way)}; nothing was changed"
        raise ConflictError(text, remedies=(_SAVEPOINTS,))
    work = _Erasure(context, prepared, condition, keys)
    steps = tuple(work.steps()) if plan.needed else ()
    after = prepared.search.again().run(prepared.wanted) if steps else plan.searched
    after = failures(after, work.failed)
    left = {trace.path for trace in after.traces} | {*after.unread}
    there = {trace.path for trace in plan.searched.traces}
    gone = sorted(path for path in there - left if context.storage.stat(path) is None)
    return ErasureReport(
        uri,
        context.session.config.name,
        plan.asked,
        reference,
        began,
        _utc_now(),
        f"hudi-py {metadata.version('hudi-py')}",
        steps,
        plan.searched,
        after,
        tuple(gone),
        plan.outside,
    )


@dataclass(eq=False)
class _Erasure:
    context: ServiceContext
    prepared: Prepared
    condition: Condition
    keys: frozenset[str] | None
    failed: list[str] = field(default_factory=list)
    """Files that the clean could not delete."""

    def steps(self) -> Iterator[ErasureStep]:
        """Runs the steps in order and yields each."""
        plan = self.prepared.plan
        recover_failed_writes(self.context.session)
        seen, left = self.prepared.seen, plan.num_rows
        if not left:
            yield from self._compact()
        while left:
            yield self._delete(seen)
            yield from self._compact()
            # if a base file has several rows of a key, a write deletes only one
            seen, before = ANY_STATE, left
            left = find_rows(self.context, self.context.state(), self.condition, self.keys).count()
            if left >= before:
                break
        for savepoint in plan.savepoints:
            delete_savepoint(self.context, savepoint)
            yield ErasureStep("savepoint", savepoint, f"Deleted the savepoint {savepoint}")
        if self.prepared.groups:
            yield from self._clean()
        indexes = value_indexes(self.context.config())  # the writes may have created some
        if indexes:
            yield self._indexes(indexes)
        if plan.published:
            yield from self._publish()

    def _delete(self, seen: str) -> ErasureStep:
        """Deletes the rows. `seen` is the state in which they were found; other writers may not have changed them
        since."""
        context = self.context
        options = context.options.replace({concurrency_config.SEEN: seen})
        target = WriteTarget(context.storage, options, context.session.metadata)
        done = run_statement(target, Delete(self.condition, self.keys))
        return ErasureStep(
            "delete", done.instant, f"Deleted {counted(done.num_deleted or 0, 'row')}, commit {done.instant}"
        )

    def _compact(self) -> Iterator[ErasureStep]:
        if not (self.context.session.config.is_mor and self.prepared.groups):
            return
        service = Compaction(always=True, groups=self.prepared.groups)
        done = service.schedule_and_run(self.context)
        if done.instant is not None:
            yield ErasureStep("compaction", done.instant, capitalised(str(done)))

    def _clean(self) -> Iterator[ErasureStep]:
        context, service = self.context, Cleaning(groups=self.prepared.groups)
        for instant in pending_instants(service, context):
            done = execute_all(service, context, service.begin(context, instant))
            yield ErasureStep("clean", done.instant, capitalised(str(done)))
        done = service.schedule_and_run(context)
        if done.instant is not None:
            self.failed += done.failed
            yield ErasureStep("clean", done.instant, capitalised(str(done)))

    def _indexes(self, names: tuple[str, ...]) -> ErasureStep:
        built = rebuild(self.context, names=names)
        return ErasureStep("indexes", None, f"Built anew: {', '.join(built)}")

    def _publish(self) -> Iterator[ErasureStep]:
        """Publishes without earlier snapshots of deleted files: their manifests contain values of columns."""
        storage, target = self.context.storage, published_target(self.context)
        published = None if target is None else target.load()
        if target is None or published is None:
            return
        snapshot, location = current_snapshot(published.metadata), published.metadata["location"]
        base_files_only = snapshot is not None and snapshot["summary"].get(VIEW) == "read_optimized"
        removed = unpublish_table(storage, target)
        again = BesideTable(storage, location) if isinstance(target, BesideTable) else target
        settings = Settings(base_files_only, location, self.context.options.get(interop_config.ICEBERG_SNAPSHOTS))
        publish_table(storage, again, settings, self.context.options.values)
        yield ErasureStep("iceberg", None, f"Published to Iceberg anew; {counted(removed, 'file')} of before removed")


def _utc_now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _checked_keys(given: str | Iterable[object] | None) -> frozenset[str] | None:
    texts = key_texts(given)
    return None if texts is None else frozenset(texts)
