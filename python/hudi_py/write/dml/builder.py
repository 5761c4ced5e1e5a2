"""The builder of a merge, as `Table.merge` returns it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hudi_py.write.dml.merge_plan import Clause, MergePlan
from hudi_py.write.result import WriteResult


class _Outcome:
    """What the builders of one merge share. It warns when the last of them goes without having run."""

    executed = False

    def __del__(self) -> None:
        if not self.executed:
            warnings.warn("Table.merge() changed nothing: its builder was never run; call execute()", stacklevel=2)


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """A merge to be: each method returns it with another clause, `execute` runs it.

    Of the clauses of one kind (matched, not matched, not matched by source) the first whose condition is true applies
    to a row; other rows are not changed. Conditions and values are text in a subset of Spark SQL over the columns
    `t.name` of the table and `s.name` of the source; a value that is not text is a constant.
    """

    plan: MergePlan
    run: Callable[[MergePlan], WriteResult]
    _outcome: _Outcome = field(default_factory=_Outcome, repr=False, compare=False)

    def when_matched_update(self, set: Mapping[str, object], condition: str | None = None) -> MergeBuilder:
        """Sets columns of rows that the source matches. Their key cannot change, and their partition only with an index
        over all partitions."""
        return self._with(Clause("matched", "update", condition, dict(set)))

    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Sets all columns of rows that the source matches to those of the source."""
        return self._with(Clause("matched", "update", condition))

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Deletes rows that the source matches."""
        return self._with(Clause("matched", "delete", condition))

    def when_not_matched_insert(self, values: Mapping[str, object], condition: str | None = None) -> MergeBuilder:
        """Inserts rows of the source that match nothing; columns without a value are null."""
        return self._with(Clause("not matched", "insert", condition, dict(values)))

    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Inserts rows of the source that match nothing, with all columns of the table from the source."""
        return self._with(Clause("not matched", "insert", condition))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, object], condition: str | None = None
    ) -> MergeBuilder:
        """Sets columns of rows that no row of the source matches. Reads the whole table."""
        return self._with(Clause("not matched by source", "update", condition, dict(set)))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Deletes rows that no row of the source matches. Reads the whole table."""
        return self._with(Clause("not matched by source", "delete", condition))

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

    def _with(self, clause: Clause) -> MergeBuilder:
        return replace(self, plan=replace(self.plan, clauses=(*self.plan.clauses, clause)))
