"""What the clauses of a merge make of rows of the table: updated, moved to another partition, or deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.formats.arrays import combined, true_where
from hudi_py.merge.ordering import ordering_codes
from hudi_py.schema.paths import column_of, values_at
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.merge_plan import BoundClause, BoundMerge
from hudi_py.write.dml.merge_source import Numbers
from hudi_py.write.dml.slices import hold_located
from hudi_py.write.dml.statements import RowCounts, keys_as_rows, updated_rows
from hudi_py.write.rows import PartitionedRows


@dataclass(slots=True)
class Changes:
    """Takes the rows of the table that clauses change."""

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
        """Takes the rows that clauses change.

        Args:
            places: keys, file groups and partitions of the rows of the table.
            numbers: of these rows; several rows of the source may delete one.
        """
        for number, clause in enumerate(clauses[0]):
            at = np.flatnonzero(clauses[1] == number)
            if clause.action == "delete":
                at = at[np.unique(numbers[at], return_index=True)[1]]
            if not len(at):
                continue
            keys, file_ids, partitions = (each.take(pa.array(numbers[at])) for each in places)
            if clause.action == "delete":
                gone = keys_as_rows(self.context, keys)
                hold_located(self.held, gone, file_ids, partitions, leaving=True)
                self.counts = self.counts.plus(deleted=len(at))
            else:
                columns = self.updated(clause, rows.take(pa.array(at)))
                changed = updated_rows(self.context, keys, columns)
                self.counts = self.counts.plus(updated=len(at))
                if self.moves and self.sets_partition(clause):
                    old = pa.RecordBatch.from_struct_array(rows[self.bound.plan.target_alias]).take(pa.array(at))
                    self.move(changed, file_ids, partitions, old)
                else:
                    hold_located(self.held, changed, file_ids, partitions)

    def updated(self, clause: BoundClause, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """The columns that are read or set, after an update."""
        target = rows[self.bound.plan.target_alias]
        columns = dict(zip(self.bound.target_columns, target.flatten(), strict=True))
        partition = self.context.settings.keygen.partition_fields
        for each in clause.assignments:
            if self.stays and each.field.name in partition:
                continue
            values = each.evaluate(rows)
            self.check_place(each.field, columns[each.field.name], values)
            columns[each.field.name] = values
        return columns

    @property
    def moves(self) -> bool:
        """Whether a row whose partition is set to another one goes there."""
        settings = self.context.settings
        return settings.index.moves_rows and not settings.merge.folds

    @property
    def stays(self) -> bool:
        """Whether a row keeps its partition, whatever a clause sets it to: with a global index that does not move rows
        (`hoodie.record.index.update.partition.path=false` and the like)."""
        return self.context.settings.index.is_global and not self.context.settings.index.moves_rows

    def sets_partition(self, clause: BoundClause) -> bool:
        """Whether an update sets a column that makes up the partition."""
        settings = self.context.settings
        own = {column_of(each, settings.schema.arrow) for each in settings.keygen.partition_fields}
        return any(each.field.name in own for each in clause.assignments)

    def move(
        self, changed: pa.RecordBatch, file_ids: pa.StringArray, partitions: pa.StringArray, old: pa.RecordBatch
    ) -> None:
        """Takes updated rows, which go to the partitions that they are updated to: a new row there, and its key is
        deleted where it was. A row that loses against the stored one stays as it is.

        Args:
            old: the rows before the update.
        """
        merge, keygen = self.context.settings.merge, self.context.settings.keygen
        table = changed.select(self.context.settings.schema.arrow.names)
        paths = keygen.partition_paths(table)
        goes = ~true_where(pc.equal(paths, partitions))
        if merge.by_event_time and goes.any():
            versions = [[combined(values_at(each, name)) for name in merge.ordering_fields] for each in (old, table)]
            before, after = ordering_codes(versions, [len(goes), len(goes)])
            goes &= after >= before
        at, rest = pa.array(np.flatnonzero(goes)), pa.array(np.flatnonzero(~goes))
        hold_located(self.held, changed.take(rest), file_ids.take(rest), partitions.take(rest))
        gone = keys_as_rows(self.context, changed.column(0).take(at))
        hold_located(self.held, gone, file_ids.take(at), partitions.take(at), leaving=True)
        hold_located(self.held, changed.take(at), pa.nulls(len(at), pa.string()), paths.take(at), leaving=None)

    def check_place(self, column: pa.Field, old: pa.Array, new: pa.Array) -> None:
        """Refuses other values in a column, or in fields of structs, that make up keys and partitions."""
        keygen = self.context.settings.keygen
        partition = () if self.moves else keygen.partition_fields
        for fields, role in ((keygen.key_fields, "record key"), (partition, "partition")):
            for name in fields:
                if column_of(name, self.context.settings.schema.arrow) != column.name:
                    continue
                before, after = (values_at(pa.record_batch([each], names=[column.name]), name) for each in (old, new))
                if not _same(before, after):
                    raise ConfigError(
                        f"Cannot merge into the table '{self.context.transaction.config.name}': the clause for matched "
                        f"rows sets the {role} column '{name}' to another value, and a row cannot change its key or "
                        "partition; leave the column out, or add it to ON"
                    )


def _same(left: pa.Array, right: pa.Array) -> bool:
    both = pc.or_(pc.equal(left, right).fill_null(False), pc.and_(left.is_null(), right.is_null()))
    return bool(pc.all(both, min_count=0).as_py())
