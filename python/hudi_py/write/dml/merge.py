"""MERGE: rows of a source meet those of the table that have their keys, and each clause changes its rows.

As in SQL, the first clause of its kind that applies to a row wins. Apache Hudi 1.2.0 differs in some statements, see
docs/differences.md. `merge_plan` binds a merge to the columns of its table and source, `merge_source` to the rows of
the source, and `merging` runs it: `merge_changes` has the rows of the table that it changes, `merge_inserts` new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.read.request import ScanRequest
from hudi_py.read.split import Split
from hudi_py.schema import RECORD_KEY
from hudi_py.view import FileSystemView
from hudi_py.write.combinations import writes_partial_logs
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.merge_plan import BoundMerge, MergePlan, bind_merge
from hudi_py.write.dml.merge_source import MergeSource
from hudi_py.write.dml.merging import Merging
from hudi_py.write.dml.slices import places_of, scan_request
from hudi_py.write.dml.statements import RowCounts
from hudi_py.write.rows import PartitionedRows
from hudi_py.write.settings import WriteSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Merge:
    """`MERGE INTO`. Holds the source in memory."""

    plan: MergePlan
    source: pa.Table

    title = "merge"
    operation = Operation.UPSERT
    java_name = "UPSERT"

    def bind(self, config: TableConfig, settings: WriteSettings, options: Options) -> BoundMergeOf:
        bound = bind_columns(self.plan, self.source.schema, config, settings, options)
        if bound.completed:
            _log.warning(
                "merging into the table '%s' by %s of the source, too, which ON does not compare: rows are merged by "
                "whole record keys, as by Apache Hudi",
                config.name,
                ", ".join(bound.completed),
            )
        return BoundMergeOf(MergeSource.of(bound, self.source, settings), options)


def bind_columns(
    plan: MergePlan, source: pa.Schema, config: TableConfig, settings: WriteSettings, options: Options
) -> BoundMerge:
    """A merge over the columns of its table and source. Raises as `bind_merge`."""
    partial = (
        options.get(write_config.MERGE_INTO_PARTIAL_UPDATES)
        and writes_partial_logs(config)
        and not settings.merge.folds
        and not settings.index.is_global
        and settings.schema.history is None
    )
    return bind_merge(plan, source, config, settings, partial=partial)


@dataclass(frozen=True, slots=True)
class BoundMergeOf:
    """A merge of the rows of a source."""

    source: MergeSource
    options: Options

    @property
    def bound(self) -> BoundMerge:
        """By its columns."""
        return self.source.bound

    def narrowed(self, context: WriteContext) -> WriteContext:
        return context.updating(self.bound.updated_columns)

    def request(self, settings: WriteSettings, view: FileSystemView) -> ScanRequest | None:
        paths, matching = self.source.partitions, self.bound.matching
        if paths is None:
            paths = matching.partitions(self.source.distinct)
        asked = None if paths is None else paths.drop_null().unique().to_pylist()
        keys = matching.asked(self.source.distinct)
        return merge_request(self.bound, self.options, settings, view, keys=keys, partitions=asked)

    def collect(
        self, context: WriteContext, slices: Iterable[tuple[Split, pa.RecordBatch]], held: PartitionedRows
    ) -> RowCounts:
        merging = Merging(context, self.source, held)
        for split, batch in slices:
            merging.add(batch, *places_of(split, batch.num_rows))
        merging.insert()
        return merging.counts


def merge_request(
    bound: BoundMerge,
    options: Options,
    settings: WriteSettings,
    view: FileSystemView,
    *,
    keys: Sequence[str] | None,
    partitions: Iterable[str] | None,
) -> ScanRequest | None:
    """The rows of the table that a merge needs; None: none.

    Args:
        keys: of the source; None: too many to choose files by.
        partitions: those that the rows of the source are for; None: unknown.
    """
    columns = [RECORD_KEY, *bound.target_columns]
    if bound.by_source:
        return scan_request(options, columns=columns)
    asked = None
    if partitions is not None and not settings.index.is_global:
        wanted = set(partitions)
        asked = [path for path in view.partitions() if path in wanted]
        if not asked:
            return None
    if keys is not None and not keys:
        return None
    return scan_request(options, columns=columns, keys=keys, partitions=asked)
