"""Changes how many buckets the partitions of a table with a simple bucket index have, by rules stored with the table.

Sources: `PartitionBucketIndexManager`, `DatasetBucketRescaleCommitActionExecutor`, Apache Hudi 1.2.0. Partitions whose
number of buckets changes are written again, as one replacecommit, under whose instant the rules are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_py.config import Option, Options, Scope
from hudi_py.config import indexes as index_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, ConflictError, UnsupportedTableError
from hudi_py.formats.bucket_rules import BucketRules
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath
from hudi_py.model.words import counted
from hudi_py.read import make_scan
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.support import text_partition_columns
from hudi_py.schema import META_FIELDS
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.report import ServiceReport
from hudi_py.timeline.bucket_rules import (
    StoredRules,
    all_rules,
    buckets_by_rule,
    checked_rules,
    store_rules,
    stored_rules,
)
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.conflicts.policy import BUCKET_RESCALE
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.operation import Operation
from hudi_py.write.operations.buckets import insert_new
from hudi_py.write.operations.overwrite import check_no_pending_compaction, replaced_groups
from hudi_py.write.settings import WriteSettings, write_settings

_SERVICE = "rescale_buckets"


@dataclass(frozen=True, slots=True, repr=False)
class BucketReport(ServiceReport):
    """The result of `rescale_buckets`."""

    partitions: tuple[tuple[str, int], ...] = ()
    """Paths of the partitions whose number of buckets changes, with the new number."""
    rules: tuple[tuple[str, str, int], ...] = ()
    """All rules of the table before the call: the instant of the commit that made them (zeros: the first), their
    expressions, and the number of buckets of partitions without a rule."""

    def _summary(self) -> Iterator[str]:
        if self.instant is not None or self.partitions:
            some = ", ".join(f"'{path}' to {count}" for path, count in self.partitions[:3])
            more = ", ..." if len(self.partitions) > 3 else ""
            yield counted(len(self.partitions), "partition") + " changed" + (f" ({some}{more})" if some else "")
        elif self.rules:
            yield f"the rules are '{self.rules[-1][1]}', otherwise {counted(self.rules[-1][2], 'bucket')}"


def rescale_buckets(
    context: ServiceContext,
    instant: str | None = None,
    *,
    expressions: str = "",
    buckets: int | None = None,
    add: bool = False,
    dry_run: bool = False,
) -> BucketReport:
    """Gives a table other rules for its numbers of buckets.

    Args:
        instant: must be None.
        expressions: the new rules, see `hoodie.bucket.index.partition.expressions`; empty: only reports those stored.
        buckets: of partitions without a rule; None: as before. A table without stored rules must have it, as the number
            of buckets that all its partitions have now, unless the options say how many they have.
        add: whether the new rules come before those that are stored.
        dry_run: only reports which partitions would change.

    Raises:
        ConfigError: the rules are not valid, or the table has none stored and `buckets` is missing.
        UnsupportedTableError: the table does not have a simple bucket index, or its rows do not hold their partition.
        ConflictError: another write has completed meanwhile, or a pending table service has files of a partition.
    """
    storage, config, seen = context.storage, context.config(), context.timeline()
    known = tuple((each.instant, each.rules.expressions, each.rules.default) for each in all_rules(storage, seen))
    if not expressions:
        return BucketReport(_SERVICE, None, reason="no rules are given", rules=known)
    stored = stored_rules(storage, seen)
    rules = _new_rules(stored, expressions, buckets, add, f"the table '{config.name}'")
    view = context.session.view(seen)
    options = _indexed(context.options, config.name, buckets)
    settings = _settings(context, seen, view, options)
    before = settings.index.buckets
    assert before is not None
    changed = [
        (path, count)
        for path in sorted(view.partitions())
        if (count := buckets_by_rule(rules, path)) != before.buckets_in(path)
    ]
    report = BucketReport(_SERVICE, None, partitions=tuple(map(_plain, changed)), rules=known)
    if dry_run:
        return replace(report, reason="this was a dry run")
    if text_partition_columns(config):
        raise UnsupportedTableError(
            f"Cannot change the buckets of the table '{config.name}': its key generator makes partition paths of "
            "times, so that rows do not hold their partition; change them with Apache Hudi"
        )
    by_rules = replace(before, count=rules.default, rules=rules, rules_to_store=False)
    settings = replace(settings, index=replace(settings.index, buckets=by_rules), overwritten=())
    paths = [path for path, _ in changed]
    with WriteTransaction.begin(context.session, action=Action.REPLACE_COMMIT, operation=BUCKET_RESCALE) as transaction:
        if transaction.timeline.pin() != seen.pin():
            raise ConflictError(
                f"Cannot change the buckets of {storage.uri}: another write has completed in between; try again"
            )
        write = WriteContext(transaction, settings, progress=context.progress)
        check_no_pending_compaction(write, paths)
        replaced = replaced_groups(write, paths, "change the buckets of")
        stats = insert_new(write, _rows(context, seen, paths)).stats if paths else []
        store_rules(storage, rules, transaction.instant)
        context.progress.phase("committing")
        commit = transaction.commit(
            stats, schema_json=settings.stored_avro_json, replaced=replaced or None, ids=settings.schema.ids
        )
    return replace(report, instant=commit.instant, completion_time=commit.completion_time)


def _plain(changed: tuple[PartitionPath, int]) -> tuple[str, int]:
    return str(changed[0]), changed[1]


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


def _indexed(options: Options, table: str, buckets: int | None) -> Options:
    """With the simple bucket index, which the options may leave out."""
    wanted: dict[Option[Any], str] = {write_config.INDEX_TYPE: "BUCKET"}
    if options.get(index_config.BUCKET_ENGINE) != "SIMPLE":
        raise UnsupportedTableError(
            f"Cannot change the buckets of the table '{table}' by rules with {index_config.BUCKET_ENGINE.key} = "
            f"'{options.get(index_config.BUCKET_ENGINE)}'; supported: SIMPLE"
        )
    if buckets is not None and not options.given(index_config.BUCKETS):
        wanted[index_config.BUCKETS] = str(buckets)
    return options.replace(wanted)


def _settings(context: ServiceContext, seen: Timeline, view: FileSystemView, options: Options) -> WriteSettings:
    """Those of an overwrite. Checks that the table has the buckets that its rules or the options describe."""
    storage, config = context.storage, context.config()
    schema = resolve_table_schema(storage, config, seen)
    if schema is None:
        raise ConfigError(f"Cannot change the buckets of the table '{config.name}': no commit has a schema yet")
    columns = pa.schema([field for field in schema.arrow if field.name not in META_FIELDS])
    return write_settings(storage, config, seen, view, columns, Operation.INSERT_OVERWRITE, options)


def _rows(context: ServiceContext, seen: Timeline, paths: Iterable[PartitionPath]) -> Iterator[pa.RecordBatch]:
    """The rows of partitions, without meta columns."""
    arguments = ScanArguments(partitions=[str(path) for path in paths], meta=False)
    request = ScanRequest.of(Options.resolve({}, Scope.READ), arguments)
    return iter(make_scan(context.storage, context.config(), seen, request).to_batches())
