"""Runs a merge while it reads the table: pairs rows of table and source, and applies the clauses to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import DuplicateKeyError
from hudi_py.formats.arrays import combined, true_where
from hudi_py.formats.lookup import TextSet
from hudi_py.merge.ordering import default_mask, ordering_codes
from hudi_py.schema import RECORD_KEY
from hudi_py.schema.paths import values_at
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.matching import as_structs
from hudi_py.write.dml.merge_changes import Changes, NewRows
from hudi_py.write.dml.merge_plan import BoundMerge, choose
from hudi_py.write.dml.merge_source import MergeSource, Numbers
from hudi_py.write.dml.slices import hold_located
from hudi_py.write.dml.statements import RowCounts
from hudi_py.write.rows import PartitionedRows

_MAX_PAIRS = 1 << 20
"""Maximum number of pairs of table and source rows that a condition is evaluated on at once; all pairs of one row stay
together."""


@dataclass(frozen=True, slots=True)
class _Late:
    """Rows of the table with keys of the source that may not match by the rest of ON."""

    batch: pa.RecordBatch
    file_ids: pa.StringArray
    partitions: pa.StringArray
    ours: Numbers
    """The row in `batch` of each pair, ascending."""
    theirs: Numbers
    """The row of the source in each pair."""
    holds: npt.NDArray[np.bool_]
    """The result of ON for each pair."""


@dataclass(slots=True)
class Merging:
    """A merge while it reads the table."""

    context: WriteContext
    source: MergeSource
    held: PartitionedRows
    distinct: TextSet = field(init=False)
    """The source's texts."""
    matched: npt.NDArray[np.bool_] = field(init=False)
    """Which rows of the source a row of the table matches."""
    late: list[_Late] = field(default_factory=list)
    """Rows of the table that ON keeps from rows of the source with their keys; only if the latter may be inserted."""
    _changes: Changes = field(init=False)
    _inserted: int = 0

    def __post_init__(self) -> None:
        self.distinct = TextSet(self.source.distinct)
        self.matched = np.zeros(len(self.source.keys), np.bool_)
        self._changes = Changes(self.context, self.source.bound, self.held)

    @property
    def bound(self) -> BoundMerge:
        return self.source.bound

    @property
    def counts(self) -> RowCounts:
        return self._changes.counts.plus(inserted=self._inserted)

    @property
    def generates_keys(self) -> bool:
        return self.context.settings.keygen.generates_keys

    def add(self, batch: pa.RecordBatch, file_ids: pa.StringArray, partitions: pa.StringArray) -> None:
        """Adds rows of the table, with their file groups and partitions. The rows with one of the source's texts may
        come in any number of batches."""
        texts = self.bound.matching.of_target(batch, partitions, self.bound.plan.target_alias)
        codes = self.distinct.find(texts)
        pairs = np.cumsum(np.where(codes >= 0, self.source.starts[codes + 1] - self.source.starts[codes], 0))
        ends = (
            np.flatnonzero(np.diff(pairs // _MAX_PAIRS)) + 1
        )  # few rows match many: evaluate conditions for some at a time
        for start, end in pairwise([0, *ends.tolist(), batch.num_rows]):
            rows = slice(start, end)
            self._add(batch[rows], file_ids[rows], partitions[rows], codes[rows])

    def _add(self, batch: pa.RecordBatch, file_ids: pa.StringArray, partitions: pa.StringArray, codes: Numbers) -> None:
        """Adds rows, with the number of their text in `distinct`; -1: none."""
        some = np.flatnonzero(codes >= 0)
        starts = self.source.starts[codes[some]]
        counts = self.source.starts[codes[some] + 1] - starts
        ours = np.repeat(some, counts)
        within = np.arange(len(ours)) - np.repeat(np.cumsum(counts) - counts, counts)
        theirs = self.source.by_key[np.repeat(starts, counts) + within]
        if self.bound.rest is not None and len(ours):
            holds = true_where(self.bound.rest.evaluate(self.joined(batch, ours, theirs)))
            if self.bound.not_matched and not self.generates_keys and not holds.all():
                late = np.unique(ours[~holds])
                at, waits = pa.array(late), np.isin(ours, late)
                places = batch.take(at), file_ids.take(at), partitions.take(at)
                self.late.append(_Late(*places, np.searchsorted(late, ours[waits]), theirs[waits], holds[waits]))
                self.matched[theirs[waits & holds]] = True
                rest = np.setdiff1d(np.arange(batch.num_rows), late)
                ours, theirs = np.searchsorted(rest, ours[~waits]), theirs[~waits]
                batch, file_ids, partitions = (column.take(pa.array(rest)) for column in (batch, file_ids, partitions))
            else:
                ours, theirs = ours[holds], theirs[holds]
        self.apply(batch, file_ids, partitions, ours, theirs)

    def apply(
        self,
        batch: pa.RecordBatch,
        file_ids: pa.StringArray,
        partitions: pa.StringArray,
        ours: Numbers,
        theirs: Numbers,
    ) -> None:
        """Applies the clauses to rows of the table, given by pairs of the numbers of rows that match."""
        keys = combined(batch[RECORD_KEY])
        self.matched[theirs] = True
        if self.bound.matched and len(ours):
            ours, theirs = self.one_for_each(ours, theirs)
            rows = self.joined(batch, ours, theirs)
            chosen = choose(self.bound.matched, rows)
            self.check_cardinality(keys, ours, chosen)
            chosen[self.spared(rows, theirs, chosen)] = -1
            self._changes.take((keys, file_ids, partitions), rows, ours, (self.bound.matched, chosen))
        if self.bound.by_source:
            alone = np.setdiff1d(np.arange(batch.num_rows), ours)
            rows = self.joined(batch, alone, None)
            chosen = choose(self.bound.by_source, rows)
            self._changes.take((keys, file_ids, partitions), rows, alone, (self.bound.by_source, chosen))

    def one_for_each(self, ours: Numbers, theirs: Numbers) -> tuple[Numbers, Numbers]:
        """Keeps one source row for each table row: the newest by ordering value, the last of equal ones. Apache Hudi
        combines the source before clauses apply (`HoodieWriteHelper.deduplicateRecords`, 1.2.0)."""
        if not self.bound.ordering or (ours[1:] != ours[:-1]).all():
            return ours, theirs
        order = np.lexsort((self.source.ranks[theirs], ours))
        last = np.r_[ours[order][1:] != ours[order][:-1], True]
        kept = np.sort(order[last])
        return ours[kept], theirs[kept]

    def spared(self, rows: pa.RecordBatch, theirs: Numbers, chosen: Numbers) -> npt.NDArray[np.bool_]:
        """Returns which rows are not deleted because the row of the source has a lower ordering value: Apache Hudi logs
        deletes with it in merge-on-read tables (1.2.0), unless it is the default. In copy-on-write tables, deletes
        always count."""
        context, ordering = self.context, self.context.settings.merge.ordering_fields
        deletes = np.isin(
            chosen, [number for number, clause in enumerate(self.bound.matched) if clause.action == "delete"]
        )
        if not (
            context.transaction.config.is_mor
            and context.settings.merge.by_event_time
            and ordering == tuple(column.field.name for column in self.bound.ordering)
            and deletes.any()
        ):
            return np.zeros(len(chosen), np.bool_)
        target = pa.RecordBatch.from_struct_array(rows[self.bound.plan.target_alias])
        old = [combined(values_at(target, name)) for name in ordering]
        new = [column.take(pa.array(theirs)) for column in self.source.ordering]
        before, after = ordering_codes([old, new], [len(theirs), len(theirs)])
        return np.asarray(deletes & (after < before) & ~default_mask(new, len(theirs)), np.bool_)

    def joined(self, batch: pa.RecordBatch, ours: Numbers, theirs: Numbers | None) -> pa.RecordBatch:
        """Returns the rows of the table, and of the source, as structs."""
        names = self.bound.target_columns
        made = {
            self.bound.plan.target_alias: as_structs(batch.select([RECORD_KEY, *names]).take(pa.array(ours)), names)
        }
        if theirs is not None:
            made[self.bound.plan.source_alias] = self.source.rows.take(pa.array(theirs))
        return pa.RecordBatch.from_pydict(made)

    def check_cardinality(self, keys: pa.Array, ours: Numbers, chosen: Numbers) -> None:
        """Refuses several rows of the source that change one row, unless all of them delete it."""
        deletes = np.array([clause.action == "delete" for clause in self.bound.matched])
        changing = ours[chosen >= 0]
        counts = np.bincount(changing, minlength=len(keys))
        kept = np.bincount(ours[(chosen >= 0) & ~deletes[chosen]], minlength=len(keys))
        twice = np.flatnonzero((counts > 1) & (kept > 0))
        if len(twice):
            key = keys[int(twice[0])].as_py()
            raise DuplicateKeyError(
                f"Cannot merge into the table '{self.context.transaction.config.name}': several rows of the source "
                f"match the row with the key '{key}' and would change it; keep one row of the source for each key, or "
                "restrict the clauses by conditions",
                key=key,
            )

    def insert(self) -> None:
        """Adds the rows of the source that match nothing."""
        if not self.bound.not_matched:
            return
        new, others = NewRows.of(self.context, self.source, np.flatnonzero(~self.matched))
        if not self.generates_keys:
            new.check()
            kept = ~np.isin(new.numbers, self.settle(new.partitions, new.numbers))
            kept &= new.newest(others)
            new = new.take(np.flatnonzero(kept))
            new = new.take(new.one_per_key())
        hold_located(self.held, new.rows, pa.nulls(new.rows.num_rows, pa.string()), new.partitions)
        self._inserted += new.rows.num_rows

    def settle(self, partitions: pa.StringArray, numbers: Numbers) -> Numbers:
        """Applies the clauses to rows whose keys are those of the source, but that do not match by the rest of ON. If
        such a row of the source would be inserted, it matches, because its key exists. In Apache Hudi, ON is the key
        alone (1.2.0).

        Args:
            partitions, numbers: of new rows, by the row of the source.

        Returns:
            The rows of the source that match.
        """
        places = np.full(len(self.matched), -1, np.int64)
        places[numbers] = np.arange(len(numbers))
        matched = [np.zeros(0, np.int64)]
        for late in self.late:
            at = places[late.theirs]
            there = at >= 0
            if not self.context.settings.index.is_global:
                asked = partitions.take(pa.array(np.maximum(at, 0), mask=~there))
                there &= true_where(pc.equal(asked, late.partitions.take(pa.array(late.ours))))
            matched.append(late.theirs[there])
            takes = late.holds | there
            self.apply(late.batch, late.file_ids, late.partitions, late.ours[takes], late.theirs[takes])
        self.late.clear()
        return np.concatenate(matched)
