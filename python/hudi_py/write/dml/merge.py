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
    """`MERGE INTO` from a source with these columns."""

    plan: MergePlan
    source: pa.Schema
    """Normalised, without meta columns."""

    title = "merge"
    operation = Operation.UPSERT
    java_name = "UPSERT"

    def bind(self, config: TableConfig, settings: WriteSettings) -> BoundMerge:
        """Check the statement against table and source. Raises as `bind_merge`."""
        partial = (
            settings.get(write_config.MERGE_INTO_PARTIAL_UPDATES)
            and writes_partial_logs(config)
            and not settings.merge.folds
            and not settings.index.is_global
            and settings.schema.history is None
        )
        bound = bind_merge(self.plan, self.source, config, settings, partial=partial)
        if bound.completed:
            _log.warning(
                "merging into the table '%s' by %s of the source, too, which ON does not compare: rows are merged by "
                "whole record keys, as by Apache Hudi",
                config.name,
                ", ".join(bound.completed),
            )
        return bound


@dataclass(frozen=True, slots=True)
class MergedSource:
    """A merge with the rows of its source, which are in memory."""

    source: MergeSource

    def request(self, settings: WriteSettings, view: FileSystemView) -> ScanRequest | None:
        paths, matching = self.source.partitions, self.source.bound.matching
        if paths is None:
            paths = matching.partitions(self.source.distinct)
        asked = None if paths is None else paths.drop_null().unique().to_pylist()
        keys = matching.asked(self.source.distinct)
        return merge_request(self.source.bound, settings, view, keys=keys, partitions=asked)

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
    settings: WriteSettings,
    view: FileSystemView,
    *,
    keys: Sequence[str] | None,
    partitions: Iterable[str] | None,
) -> ScanRequest | None:
    """Return the rows of the table that a merge needs; None if it needs none.

    Args:
        keys: of the source; None: too many to choose files by.
        partitions: those that the rows of the source are for; None: unknown.
    """
    columns = [RECORD_KEY, *bound.target_columns]
    if bound.by_source:
        return scan_request(settings.options, columns=columns)
    asked = None
    if partitions is not None and not settings.index.is_global:
        wanted = set(partitions)
        asked = [path for path in view.partitions() if path in wanted]
        if not asked:
            return None
    if keys is not None and not keys:
        return None
    return scan_request(settings.options, columns=columns, keys=keys, partitions=asked)
