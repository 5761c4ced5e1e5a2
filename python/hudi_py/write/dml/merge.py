"""MERGE matches the rows of a source with those of the table by their keys, and each clause changes its rows.

As in SQL, the first clause of its kind that applies to a row wins. Apache Hudi 1.2.0 differs in some statements, see
docs/differences.md. `merge_plan` binds a merge to the columns of its table and source, `merge_source` to the rows of
the source, and `merging` runs it: `merge_changes` has the rows of the table that it changes, `merge_inserts` new ones.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.read.request import ScanRequest
from hudi_py.read.split import Split
from hudi_py.schema import RECORD_KEY
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.merge_plan import BoundMerge, Clause, MergePlan, bind_merge
from hudi_py.write.dml.merge_source import MergeSource
from hudi_py.write.dml.merging import Merging
from hudi_py.write.dml.slices import places_of, scan_request
from hudi_py.write.dml.statements import RowCounts
from hudi_py.write.operation import writes_partial_logs
from hudi_py.write.result import WriteResult
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
        """Checks the statement against table and source. Raises the errors of `bind_merge`."""
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
    """Returns a scan of the table's rows that a merge needs; None if it needs none.

    Args:
        keys: keys of the source; None: too many to choose files by.
        partitions: partitions that the rows of the source ask for; None: unknown.
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


class _Outcome:
    """State that the builders of one merge share. Warns when the last builder is deleted without having run."""

    executed = False

    def __del__(self) -> None:
        if not self.executed:
            warnings.warn("Table.merge() changed nothing: its builder was never run; call execute()", stacklevel=2)


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """Builds a merge: each method returns the builder with another clause, and `execute` runs the merge.

    Among the clauses of one kind (matched, not matched, not matched by source), the first whose condition is true
    applies to a row; other rows are not changed. Conditions and values are text in a subset of Spark SQL over the
    columns `t.name` of the table and `s.name` of the source; a value that is not text is a constant.
    """

    plan: MergePlan
    run: Callable[[MergePlan], WriteResult]
    _outcome: _Outcome = field(default_factory=_Outcome, repr=False, compare=False)

    def when_matched_update(self, set: Mapping[str, object], condition: str | None = None) -> MergeBuilder:
        """Sets columns of rows that the source matches. Their key cannot change, and their partition only with an index
        over all partitions."""
        return self._add_clause(Clause("matched", "update", condition, dict(set)))

    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Sets all columns of rows that the source matches to those of the source."""
        return self._add_clause(Clause("matched", "update", condition))

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Deletes rows that the source matches."""
        return self._add_clause(Clause("matched", "delete", condition))

    def when_not_matched_insert(self, values: Mapping[str, object], condition: str | None = None) -> MergeBuilder:
        """Inserts rows of the source that match nothing; columns without a value are null."""
        return self._add_clause(Clause("not matched", "insert", condition, dict(values)))

    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Inserts rows of the source that match nothing, with all columns of the table from the source."""
        return self._add_clause(Clause("not matched", "insert", condition))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, object], condition: str | None = None
    ) -> MergeBuilder:
        """Sets columns of rows that no row of the source matches. Reads the whole table."""
        return self._add_clause(Clause("not matched by source", "update", condition, dict(set)))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Deletes rows that no row of the source matches. Reads the whole table."""
        return self._add_clause(Clause("not matched by source", "delete", condition))

    def execute(self) -> WriteResult:
        """Runs the merge as one commit.

        Raises:
            ConfigError, SchemaMismatchError, UnsupportedTableError: the merge does not fit table or source.
            DuplicateKeyError: several rows of the source would change or insert one row, which has no
                ordering values.
            ConflictError: another write is pending, or completed meanwhile.
            LockError: the table lock could not be acquired in time.
        """
        self._outcome.executed = True
        return self.run(self.plan)

    def _add_clause(self, clause: Clause) -> MergeBuilder:
        return replace(self, plan=replace(self.plan, clauses=(*self.plan.clauses, clause)))
