"""Changes the number of buckets in the partitions of a table with a simple bucket index, by rules stored with the
table.

Sources: `PartitionBucketIndexManager`, `DatasetBucketRescaleCommitActionExecutor`, Apache Hudi 1.2.0. Partitions whose
number of buckets changes are written again, as one replacecommit, under whose instant the rules are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_py.config import Option, Options, Scope
from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.keys.buckets import BucketRules
from hudi_py.model.commit import WriteStat
from hudi_py.model.operation import Operation
from hudi_py.model.words import counted
from hudi_py.read import make_scan
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.support import text_partition_columns
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import ServiceReport
from hudi_py.timeline.bucket_rules import (
    StoredRules,
    all_rules,
    buckets_by_rule,
    checked_rules,
    store_rules,
    stored_rules,
)
from hudi_py.transaction.conflicts.policy import BUCKET_RESCALE
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.operations import write_rows
from hudi_py.write.rewrite import GroupsToReplace, rewrite_groups
from hudi_py.write.settings import settings_as_stored

_SERVICE = "rescale_buckets"


@dataclass(frozen=True, slots=True, repr=False)
class BucketReport(ServiceReport):
    """The result of `rescale_buckets`."""

    partitions: tuple[tuple[str, int], ...] = ()
    """Paths of the partitions whose number of buckets changes, with the new number."""
    rules: tuple[tuple[str, str, int], ...] = ()
    """All rules of the table before the call: the instant of the commit that made them (zeros for the first rules),
    their expressions, and the number of buckets of partitions without a rule."""

    def _summary(self) -> Iterator[str]:
        if self.instant is not None or self.partitions:
            some = ", ".join(f"'{path}' to {count}" for path, count in self.partitions[:3])
            more = ", ..." if len(self.partitions) > 3 else ""
            yield counted(len(self.partitions), "partition") + " changed" + (f" ({some}{more})" if some else "")
        elif self.rules:
            yield f"the rules are '{self.rules[-1][1]}', otherwise {counted(self.rules[-1][2], 'bucket')}"


@dataclass(frozen=True, slots=True)
class _Rescaling(GroupsToReplace):
    rules: BucketRules
    changed: tuple[tuple[str, int], ...]
    """Paths of the partitions whose number of buckets changes, with the new number."""


def rescale_buckets(
    context: ServiceContext,
    instant: str | None = None,
    *,
    expressions: str = "",
    buckets: int | None = None,
    add: bool = False,
    dry_run: bool = False,
) -> BucketReport:
    """Replaces the rules for the numbers of buckets of a table.

    Args:
        instant: must be None.
        expressions: the new rules, see `hoodie.bucket.index.partition.expressions`; empty: only reports those stored.
        buckets: number of buckets of partitions without a rule; None: as before. Required for a table without stored
            rules, as the present number of buckets of all its partitions, unless the options contain it.
        add: whether the new rules come before those that are stored.
        dry_run: only reports which partitions would change.

    Raises:
        ConfigError: the rules are not valid, or the table has none stored and `buckets` is missing.
        UnsupportedTableError: the table does not have a simple bucket index, or its rows do not hold their partition.
        ConflictError: another write has completed meanwhile, or a pending table service has files of a partition.
    """
    session = context.session.reread()
    storage, config, seen = session.storage, session.config, session.timeline()
    known = tuple(
        (stored.instant, stored.rules.expressions, stored.rules.default) for stored in all_rules(storage, seen)
    )
    if not expressions:
        return BucketReport(_SERVICE, None, reason="no rules are given", rules=known)
    options = _with_bucket_index(context.options, config.name, buckets)

    def choose(view: FileSystemView) -> _Rescaling:
        """Checks that the table has the buckets that its rules or the options describe."""
        stored = stored_rules(storage, view.timeline)
        rules = _new_rules(stored, expressions, buckets, add, f"the table '{config.name}'")
        settings = settings_as_stored(view, Operation.INSERT_OVERWRITE, options, "change the buckets of")
        before = settings.index.buckets
        assert before is not None
        changed = [
            (path, count)
            for path in sorted(view.partitions())
            if (count := buckets_by_rule(rules, path)) != before.buckets_in(path)
        ]
        view.lister.prefetch([path for path, _ in changed])
        slices_by_path = {str(path): view.latest_slices_for_write(path) for path, _ in changed}
        groups = {path: [str(slice_.file_id) for slice_ in slices] for path, slices in slices_by_path.items() if slices}
        by_rules = replace(before, count=rules.default, rules=rules, rules_to_store=False)
        settings = replace(settings, index=replace(settings.index, buckets=by_rules))
        return _Rescaling(groups, settings, rules, tuple((str(path), count) for path, count in changed))

    def rewrite(write: WriteContext, plan: _Rescaling) -> Sequence[WriteStat]:
        stats = write_rows(write, _read_rows(write, plan.groups), Operation.INSERT_OVERWRITE) if plan.changed else []
        store_rules(storage, plan.rules, write.transaction.instant)
        return stats

    if dry_run:
        plan = choose(session.view(seen))
        return BucketReport(_SERVICE, None, reason="this was a dry run", partitions=plan.changed, rules=known)
    if text_partition_columns(config):
        raise UnsupportedTableError(
            f"Cannot change the buckets of the table '{config.name}': its key generator makes partition paths of "
            "times, so that rows do not hold their partition; change them with Apache Hudi"
        )
    commit, _, plan = rewrite_groups(
        session, choose, rewrite, operation=BUCKET_RESCALE, verb="change the buckets of", progress=context.progress
    )
    return BucketReport(_SERVICE, commit.instant, commit.completion_time, partitions=plan.changed, rules=known)


def _new_rules(stored: StoredRules | None, expressions: str, buckets: int | None, add: bool, table: str) -> BucketRules:
    if stored is None and (add or buckets is None):
        raise ConfigError(
            f"Cannot change the buckets of {table}: it has no stored rules; give its rules as a whole, and its present "
            "number of buckets as buckets=..."
        )
    if add and stored is not None:
        expressions = f"{expressions};{stored.rules.expressions}"
    default = buckets if buckets is not None else stored.rules.default if stored is not None else 0
    if default < 1:
        raise ConfigError(f"Cannot change the buckets of {table} to {default}; expected a number of at least 1")
    rules = BucketRules(expressions, default)
    checked_rules(rules)
    return rules


def _with_bucket_index(options: Options, table: str, buckets: int | None) -> Options:
    """Returns the options with the simple bucket index, which they may leave out."""
    wanted: dict[Option[Any], str] = {write_config.INDEX_TYPE: "BUCKET"}
    if options.get(indexes_config.BUCKET_ENGINE) != "SIMPLE":
        raise UnsupportedTableError(
            f"Cannot change the buckets of the table '{table}' by rules with {indexes_config.BUCKET_ENGINE.key} = "
            f"'{options.get(indexes_config.BUCKET_ENGINE)}'; supported: SIMPLE"
        )
    if buckets is not None and not options.given(indexes_config.BUCKETS):
        wanted[indexes_config.BUCKETS] = str(buckets)
    return options.replace(wanted)


def _read_rows(write: WriteContext, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of partitions, without meta columns."""
    arguments = ScanArguments(partitions=list(paths), meta=False)
    request = ScanRequest.of(Options.resolve({}, Scope.READ), arguments)
    return iter(make_scan(write.transaction.state, request).to_batches())
