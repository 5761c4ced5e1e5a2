"""Applies the clauses of a merge: updates, moves or deletes rows of the table, and gives new rows their keys, keeping
one row for each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError, DuplicateKeyError
from hudi_py.formats.arrays import combined, true_where
from hudi_py.merge.ordering import ordering_codes
from hudi_py.schema import RECORD_KEY
from hudi_py.schema.paths import column_of, values_at
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.matching import partitions_of_source
from hudi_py.write.dml.merge_plan import BoundClause, BoundMerge, choose
from hudi_py.write.dml.merge_source import MergeSource, Numbers
from hudi_py.write.dml.slices import hold_located
from hudi_py.write.dml.statements import RowCounts, keys_as_rows, updated_rows
from hudi_py.write.rows import PartitionedRows, one_row_per_key

_ROW = "_hudi_py_row"


@dataclass(slots=True)
class Changes:
    """Collects the table's rows that clauses change."""

    context: WriteContext
    bound: BoundMerge
    held: PartitionedRows
    counts: RowCounts = field(default_factory=RowCounts)

    def take(
        self,
        places: tuple[pa.Array, pa.StringArray, pa.StringArray],
        rows: pa.RecordBatch,
        numbers: Numbers,
        clauses: tuple[tuple[BoundClause, ...], Numbers],
    ) -> None:
        """Adds the rows that clauses change.

        Args:
            places: keys, file groups and partitions of the rows of the table.
            numbers: numbers of these rows; several rows of the source may delete one.
        """
        for number, clause in enumerate(clauses[0]):
            numbers_of_rows = np.flatnonzero(clauses[1] == number)
            if clause.action == "delete":
                numbers_of_rows = numbers_of_rows[np.unique(numbers[numbers_of_rows], return_index=True)[1]]
            if not len(numbers_of_rows):
                continue
            keys, file_ids, partitions = (array.take(pa.array(numbers[numbers_of_rows])) for array in places)
            if clause.action == "delete":
                gone = keys_as_rows(self.context, keys)
                hold_located(self.held, gone, file_ids, partitions, leaving=True)
                self.counts = self.counts.plus(deleted=len(numbers_of_rows))
            else:
                columns = self.updated(clause, rows.take(pa.array(numbers_of_rows)))
                changed = updated_rows(self.context, keys, columns)
                self.counts = self.counts.plus(updated=len(numbers_of_rows))
                if self.moves and self.sets_partition(clause):
                    old = pa.RecordBatch.from_struct_array(rows[self.bound.plan.target_alias]).take(
                        pa.array(numbers_of_rows)
                    )
                    self.move(changed, file_ids, partitions, old)
                else:
                    hold_located(self.held, changed, file_ids, partitions)

    def updated(self, clause: BoundClause, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """Computes the columns that are read or set, after an update."""
        target = rows[self.bound.plan.target_alias]
        columns = dict(zip(self.bound.target_columns, target.flatten(), strict=True))
        partition = self.context.settings.keygen.partition_fields
        for assignment in clause.assignments:
            if self.stays and assignment.field.name in partition:
                continue
            values = assignment.evaluate(rows)
            self.check_place(assignment.field, columns[assignment.field.name], values)
            columns[assignment.field.name] = values
        return columns

    @property
    def moves(self) -> bool:
        """Whether a row moves when an update sets its partition columns to those of another partition."""
        settings = self.context.settings
        return settings.index.moves_rows and not settings.merge.folds

    @property
    def stays(self) -> bool:
        """Whether a row keeps its partition, whatever value a clause sets: with a global index that does not move rows
        (`hoodie.record.index.update.partition.path=false` and the like)."""
        return self.context.settings.index.is_global and not self.context.settings.index.moves_rows

    def sets_partition(self, clause: BoundClause) -> bool:
        """Returns whether an update sets a column that the partition path contains."""
        settings = self.context.settings
        own = {column_of(name, settings.schema.arrow) for name in settings.keygen.partition_fields}
        return any(assignment.field.name in own for assignment in clause.assignments)

    def move(
        self, changed: pa.RecordBatch, file_ids: pa.StringArray, partitions: pa.StringArray, old: pa.RecordBatch
    ) -> None:
        """Adds updated rows that go to the partitions which the update sets: a new row there, while the key is deleted
        in the old partition. A row that loses against the stored one stays as it is.

        Args:
            old: the rows before the update.
        """
        merge, keygen = self.context.settings.merge, self.context.settings.keygen
        table = changed.select(self.context.settings.schema.arrow.names)
        paths = keygen.partition_paths(table)
        goes = ~true_where(pc.equal(paths, partitions))
        if merge.by_event_time and goes.any():
            versions = [[combined(values_at(side, name)) for name in merge.ordering_fields] for side in (old, table)]
            before, after = ordering_codes(versions, [len(goes), len(goes)])
            goes &= after >= before
        at, rest = pa.array(np.flatnonzero(goes)), pa.array(np.flatnonzero(~goes))
        hold_located(self.held, changed.take(rest), file_ids.take(rest), partitions.take(rest))
        gone = keys_as_rows(self.context, changed.column(0).take(at))
        hold_located(self.held, gone, file_ids.take(at), partitions.take(at), leaving=True)
        hold_located(self.held, changed.take(at), pa.nulls(len(at), pa.string()), paths.take(at), leaving=None)

    def check_place(self, column: pa.Field, old: pa.Array, new: pa.Array) -> None:
        """Refuses new values in columns, or fields of structs, that form keys and partitions."""
        keygen = self.context.settings.keygen
        partition = () if self.moves else keygen.partition_fields
        for fields, role in ((keygen.key_fields, "record key"), (partition, "partition")):
            for name in fields:
                if column_of(name, self.context.settings.schema.arrow) != column.name:
                    continue
                before, after = (values_at(pa.record_batch([side], names=[column.name]), name) for side in (old, new))
                if not _all_equal(before, after):
                    raise ConfigError(
                        f"Cannot merge into the table '{self.context.transaction.config.name}': the clause for matched "
                        f"rows sets the {role} column '{name}' to another value, and a row cannot change its key or "
                        "partition; leave the column out, or add it to ON"
                    )


def _all_equal(left: pa.Array, right: pa.Array) -> bool:
    both = pc.or_(pc.equal(left, right).fill_null(False), pc.and_(left.is_null(), right.is_null()))
    return bool(pc.all(both, min_count=0).as_py())


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows that a merge inserts, with their keys."""

    context: WriteContext
    source: MergeSource
    rows: pa.RecordBatch
    partitions: pa.StringArray
    numbers: Numbers
    """The rows of the source from which they are made."""

    @classmethod
    def of(cls, context: WriteContext, source: MergeSource, alone: Numbers) -> tuple[NewRows, Numbers]:
        """Applies the clauses for rows not matched to rows of the source, in its order.

        Args:
            alone: rows of the source that match nothing.

        Returns:
            The new rows, and the rows of the source that no clause takes.
        """
        clauses = source.bound.not_matched
        rows = source.inputs(alone)
        chosen = choose(clauses, rows)
        parts = []
        for number, clause in enumerate(clauses):
            at = np.flatnonzero(chosen == number)
            if len(at):
                parts.append((alone[at], _make_rows(context, clause, rows.take(pa.array(at)))))
        return cls(context, source, *_with_keys(context, parts)), alone[chosen < 0]

    def take(self, at: Numbers) -> NewRows:
        """Returns some of the rows, by their numbers."""
        rows, partitions = self.rows.take(pa.array(at)), self.partitions.take(pa.array(at))
        return replace(self, rows=rows, partitions=partitions, numbers=self.numbers[at])

    def check(self) -> None:
        """Refuses rows whose key the table may already have, because ON has looked for other keys, or not in their
        partition."""
        indices = pa.array(self.numbers)
        others = [(self.rows.column(0), self.source.keys.take(indices), "record key")]
        if self.source.partitions is not None:
            others.append((self.partitions, self.source.partitions.take(indices), "partition"))
        for values, searched, what in others:
            differs = np.flatnonzero(~true_where(pc.equal(values, searched)))
            if len(differs):
                first = int(differs[0])
                raise ConfigError(
                    f"Cannot merge into the table '{self.context.transaction.config.name}': the clause for rows not "
                    f"matched inserts the {what} '{values[first].as_py()}' where ON compares "
                    f"'{searched[first].as_py()}'; insert what ON compares"
                )

    def newest(self, others: Numbers) -> npt.NDArray[np.bool_]:
        """Returns which new rows are the newest of the source for their key, by ordering value. A row of the source
        counts even if no clause takes it, see `Merging.one_for_each`.

        Args:
            others: rows of the source that match nothing, which no clause takes.
        """
        kept = np.ones(len(self.numbers), np.bool_)
        both = np.r_[self.numbers, others]
        keys = self.source.keys.take(pa.array(both))
        if not self.source.bound.ordering or len(keys.unique()) == len(keys):
            return kept
        if not self.context.settings.index.is_global:
            own: pa.Array = pa.nulls(len(others), pa.string())
            fields = self.source.bound.own_partitions
            if fields or not self.context.settings.keygen.partition_fields:
                inputs, keygen = self.source.inputs(others), self.context.settings.keygen
                own = partitions_of_source(fields, inputs, keygen) if fields else pa.repeat(pa.scalar(""), len(others))
            keys = _join_partition_and_key(pa.concat_arrays([self.partitions, own]), keys)
        codes = keys.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        ranks = self.source.ranks[both]
        best = np.full(len(both) + 1, -1, np.int64)
        np.maximum.at(best, codes, ranks)
        kept &= (best[codes] == ranks)[: len(self.numbers)] | (codes[: len(self.numbers)] < 0)
        return kept

    def one_per_key(self) -> Numbers:
        """Returns the numbers of the rows to keep: among rows with the same key, the newest by ordering value, as in
        Apache Hudi.

        Raises:
            DuplicateKeyError: the table has no ordering fields.
        """
        context, rows = self.context, self.rows
        places = self.partitions if not context.settings.index.is_global else ""
        whole = _join_partition_and_key(places, rows.column(0))
        counts = whole.value_counts()
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        every = np.arange(rows.num_rows)
        if not len(twice):
            return every
        merge = context.settings.merge
        several = true_where(pc.is_in(whole, value_set=twice))
        if not (merge.by_event_time and merge.ordering_fields):
            key = rows.column(0)[int(np.flatnonzero(several)[0])].as_py()
            raise DuplicateKeyError(
                f"Cannot merge into the table '{context.transaction.config.name}': several rows of the source would "
                f"insert the key '{key}', and the table has no ordering field that chooses one; keep one row of the "
                "source for each key",
                key=key,
            )
        indices = pa.array(np.flatnonzero(several))
        some = (
            pa.Table.from_batches([rows])
            .take(indices)
            .set_column(0, RECORD_KEY, whole.take(indices))
            .append_column(_ROW, indices)
        )
        won = combined(one_row_per_key(some.combine_chunks(), merge)[_ROW]).to_numpy()
        return np.sort(np.r_[every[~several], won])


def _with_keys(
    context: WriteContext, parts: Sequence[tuple[Numbers, pa.RecordBatch]]
) -> tuple[pa.RecordBatch, pa.StringArray, Numbers]:
    """Returns new rows with their keys, their partitions, and the rows of the source from which they are made, in its
    order."""
    if not parts:
        nothing = pa.RecordBatch.from_pylist([], context.row_schema)
        return nothing, pa.array([], pa.string()), np.zeros(0, np.int64)
    numbers = np.concatenate([numbers for numbers, _ in parts])
    order = np.argsort(numbers, kind="stable")
    table = pa.Table.from_batches([batch for _, batch in parts]).take(pa.array(order))
    keyed = context.keyed(table.combine_chunks().to_batches()[0])
    return keyed.rows, keyed.partitions, numbers[order]


def _make_rows(context: WriteContext, clause: BoundClause, rows: pa.RecordBatch) -> pa.RecordBatch:
    table = context.settings.schema.arrow
    given = {assignment.field.name: assignment for assignment in clause.assignments}
    columns = [
        given[column.name].evaluate(rows) if column.name in given else pa.nulls(rows.num_rows, column.type)
        for column in table
    ]
    return pa.RecordBatch.from_arrays(columns, schema=table)


def _join_partition_and_key(partitions: pa.Array | str, keys: pa.Array) -> pa.Array:
    """Joins partition and key to one text."""
    return pc.binary_join_element_wise(partitions, keys, "\0")
