"""MERGE: rows of a source meet those of the table that have their keys, and each clause changes its rows.

As in SQL, the first clause of its kind that applies to a row wins. Apache Hudi 1.2.0 differs in some statements, see
docs/differences.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, DuplicateKeyError
from hudi_py.formats.arrays import combined, true_where
from hudi_py.formats.lookup import TextSet
from hudi_py.merge.ordering import default_mask, ordering_codes
from hudi_py.model.properties import TableConfig
from hudi_py.read.request import ScanRequest
from hudi_py.read.split import Split
from hudi_py.schema import RECORD_KEY
from hudi_py.schema.paths import column_of, values_at
from hudi_py.write.combinations import writes_partial_logs
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.matching import as_structs, partitions_of_source
from hudi_py.write.dml.merge_plan import BoundClause, BoundMerge, MergePlan, bind_merge, choose
from hudi_py.write.dml.slices import hold_located, places_of, scan_request
from hudi_py.write.dml.statements import Counts, keys_as_rows, updated_rows
from hudi_py.write.operation import Operation
from hudi_py.write.rows import PartitionedRows, one_row_per_key
from hudi_py.write.settings import WriteSettings

_log = logging.getLogger(__name__)
_Numbers = npt.NDArray[np.int64]
_ROW = "_hudi_py_row"
_MOST_PAIRS = 1 << 20
"""Of rows of table and source that a condition sees at a time, but for those of one row."""


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
        return BoundMergeOf(bound, Source.of(bound, self.source, settings), options)


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

    bound: BoundMerge
    source: Source
    options: Options

    def narrowed(self, context: WriteContext) -> WriteContext:
        return context.updating(self.bound.updated_columns)

    def request(self, context: WriteContext) -> ScanRequest | None:
        paths, matching = self.source.partitions, self.bound.matching
        if paths is None:
            paths = matching.partitions(self.source.distinct)
        asked = None if paths is None else paths.drop_null().unique().to_pylist()
        keys = matching.asked(self.source.distinct)
        return merge_request(self.bound, self.options, context, keys=keys, partitions=asked)

    def collect(
        self, context: WriteContext, slices: Iterable[tuple[Split, pa.RecordBatch]], held: PartitionedRows
    ) -> Counts:
        merging = Merging(context, self.bound, self.source, held)
        for split, batch in slices:
            merging.add(batch, *places_of(split, batch.num_rows))
        merging.insert()
        return merging.counts


def merge_request(
    bound: BoundMerge,
    options: Options,
    context: WriteContext,
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
    if partitions is not None and not context.settings.index.is_global:
        wanted = set(partitions)
        asked = [path for path in context.transaction.view.partitions() if path in wanted]
        if not asked:
            return None
    if keys is not None and not keys:
        return None
    return scan_request(options, columns=columns, keys=keys, partitions=asked)


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of the source with the texts by which they match rows of the table (`Matching`). A row whose text is
    null matches nothing."""

    rows: pa.StructArray
    keys: pa.StringArray
    """The text of each row."""
    distinct: pa.StringArray
    by_key: _Numbers
    """Numbers of the rows with a text, ordered by it."""
    starts: _Numbers
    """Where the rows of each of `distinct` begin in `by_key`; one more."""
    partitions: pa.StringArray | None
    """The partition path of each row, if ON compares all partition columns; null if one of them is."""

    @classmethod
    def of(cls, bound: BoundMerge, source: pa.Table, settings: WriteSettings) -> Source:
        whole = source.combine_chunks()
        columns = [combined(column) for column in whole.columns]
        rows = pa.StructArray.from_arrays(columns, fields=list(whole.schema))
        inputs = pa.record_batch([rows], names=[bound.plan.source_alias])
        keys = bound.matching.of_source(inputs, settings.keygen)
        encoded = keys.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes, np.arange(len(encoded.dictionary) + 1), sorter=order)
        partitions = partitions_of_source(bound.partitions, inputs, settings.keygen) if bound.partitions else None
        return cls(rows, keys, encoded.dictionary, order, starts, partitions)


@dataclass(frozen=True, slots=True)
class _Late:
    """Rows of the table with keys of the source, of which ON may say that they do not match."""

    batch: pa.RecordBatch
    file_ids: pa.StringArray
    partitions: pa.StringArray
    ours: _Numbers
    """Of each pair the number of the row in `batch`, ascending."""
    theirs: _Numbers
    """The row of the source."""
    holds: npt.NDArray[np.bool_]
    """What ON says."""


@dataclass(slots=True)
class Merging:
    """A merge as it reads the table."""

    context: WriteContext
    bound: BoundMerge
    source: Source
    held: PartitionedRows
    counts: Counts = field(default_factory=Counts)
    distinct: TextSet = field(init=False)
    """The source's texts."""
    matched: npt.NDArray[np.bool_] = field(init=False)
    """Which rows of the source a row of the table matches."""
    late: list[_Late] = field(default_factory=list)
    """Rows of the table that ON keeps from rows of the source with their keys; only if the latter may be inserted."""
    _ordering: tuple[pa.Array, ...] | None = None
    _ranks: _Numbers | None = None

    def __post_init__(self) -> None:
        self.distinct = TextSet(self.source.distinct)
        self.matched = np.zeros(len(self.source.keys), np.bool_)

    @property
    def name(self) -> str:
        """The table's."""
        return self.context.transaction.config.name

    @property
    def generates_keys(self) -> bool:
        return self.context.settings.keygen.generates_keys

    def add(self, batch: pa.RecordBatch, file_ids: pa.StringArray, partitions: pa.StringArray) -> None:
        """Takes rows of the table, with their file groups and partitions. All rows with one of the source's texts come
        in any number of batches."""
        texts = self.bound.matching.of_target(batch, partitions, self.bound.plan.target_alias)
        codes = self.distinct.find(texts)
        pairs = np.cumsum(np.where(codes >= 0, self.source.starts[codes + 1] - self.source.starts[codes], 0))
        ends = np.flatnonzero(np.diff(pairs // _MOST_PAIRS)) + 1  # few rows match many: conditions see some at a time
        for start, end in pairwise([0, *ends.tolist(), batch.num_rows]):
            rows = slice(start, end)
            self._add(batch[rows], file_ids[rows], partitions[rows], codes[rows])

    def _add(
        self, batch: pa.RecordBatch, file_ids: pa.StringArray, partitions: pa.StringArray, codes: _Numbers
    ) -> None:
        """Takes rows, with the number of their text in `distinct`; -1: none."""
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
                batch, file_ids, partitions = (each.take(pa.array(rest)) for each in (batch, file_ids, partitions))
            else:
                ours, theirs = ours[holds], theirs[holds]
        self.apply(batch, file_ids, partitions, ours, theirs)

    def apply(
        self,
        batch: pa.RecordBatch,
        file_ids: pa.StringArray,
        partitions: pa.StringArray,
        ours: _Numbers,
        theirs: _Numbers,
    ) -> None:
        """Applies the clauses to rows of the table, by pairs of the numbers of rows that match."""
        keys = combined(batch[RECORD_KEY])
        self.matched[theirs] = True
        if self.bound.matched and len(ours):
            ours, theirs = self.one_for_each(ours, theirs)
            rows = self.joined(batch, ours, theirs)
            chosen = choose(self.bound.matched, rows)
            self.check_cardinality(keys, ours, chosen)
            chosen[self.spared(rows, theirs, chosen)] = -1
            self.change((keys, file_ids, partitions), rows, ours, (self.bound.matched, chosen))
        if self.bound.by_source:
            alone = np.setdiff1d(np.arange(batch.num_rows), ours)
            rows = self.joined(batch, alone, None)
            chosen = choose(self.bound.by_source, rows)
            self.change((keys, file_ids, partitions), rows, alone, (self.bound.by_source, chosen))

    @property
    def ordering(self) -> tuple[pa.Array, ...]:
        """The ordering values of the rows of the source, a column for each field; none if it does not have them.

        Raises:
            SchemaMismatchError: a value does not fit the table's column.
        """
        if self._ordering is None:
            inputs = pa.record_batch([self.source.rows], names=[self.bound.plan.source_alias])
            self._ordering = tuple(each.evaluate(inputs) for each in self.bound.ordering)
        return self._ordering

    def one_for_each(self, ours: _Numbers, theirs: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Of several rows of the source that match one row the newest by ordering value, the last of equal ones: Apache
        Hudi combines a source before clauses apply (`HoodieWriteHelper.deduplicateRecords`, 1.2.0)."""
        if not self.bound.ordering or (ours[1:] != ours[:-1]).all():
            return ours, theirs
        order = np.lexsort((self.ranks[theirs], ours))
        last = np.r_[ours[order][1:] != ours[order][:-1], True]
        kept = np.sort(order[last])
        return ours[kept], theirs[kept]

    @property
    def ranks(self) -> _Numbers:
        """For each row of the source its place among all by ordering value."""
        if self._ranks is None:
            count = len(self.source.keys)
            (codes,) = ordering_codes([self.ordering], [count])
            self._ranks = np.empty(count, np.int64)
            self._ranks[np.argsort(codes, kind="stable")] = np.arange(count)
        return self._ranks

    def spared(self, rows: pa.RecordBatch, theirs: _Numbers, chosen: _Numbers) -> npt.NDArray[np.bool_]:
        """Rows of merge-on-read tables that are not deleted as the row of the source has a lower ordering value: Apache
        Hudi logs deletes with it (1.2.0), unless it is the default. Copy on write, deletes always count."""
        context, ordering = self.context, self.context.settings.merge.ordering_fields
        deletes = np.isin(chosen, [at for at, clause in enumerate(self.bound.matched) if clause.action == "delete"])
        if not (
            context.transaction.config.is_mor
            and context.settings.merge.by_event_time
            and ordering == tuple(each.field.name for each in self.bound.ordering)
            and deletes.any()
        ):
            return np.zeros(len(chosen), np.bool_)
        target = pa.RecordBatch.from_struct_array(rows[self.bound.plan.target_alias])
        old = [combined(values_at(target, name)) for name in ordering]
        new = [each.take(pa.array(theirs)) for each in self.ordering]
        before, after = ordering_codes([old, new], [len(theirs), len(theirs)])
        return np.asarray(deletes & (after < before) & ~default_mask(new, len(theirs)), np.bool_)

    def joined(self, batch: pa.RecordBatch, ours: _Numbers, theirs: _Numbers | None) -> pa.RecordBatch:
        """Rows of the table, and of the source, as structs."""
        names = self.bound.target_columns
        made = {
            self.bound.plan.target_alias: as_structs(batch.select([RECORD_KEY, *names]).take(pa.array(ours)), names)
        }
        if theirs is not None:
            made[self.bound.plan.source_alias] = self.source.rows.take(pa.array(theirs))
        return pa.RecordBatch.from_pydict(made)

    def check_cardinality(self, keys: pa.Array, ours: _Numbers, chosen: _Numbers) -> None:
        """Refuses several rows of the source that change one row, unless all of them delete it."""
        deletes = np.array([clause.action == "delete" for clause in self.bound.matched])
        changing = ours[chosen >= 0]
        counts = np.bincount(changing, minlength=len(keys))
        kept = np.bincount(ours[(chosen >= 0) & ~deletes[chosen]], minlength=len(keys))
        twice = np.flatnonzero((counts > 1) & (kept > 0))
        if len(twice):
            key = keys[int(twice[0])].as_py()
            raise DuplicateKeyError(
                f"Cannot merge into the table '{self.name}': several rows of the source match "
                f"the row with the key '{key}' and would change it; keep one row of the source for each key, or "
                "restrict the clauses by conditions",
                key=key,
            )

    def change(
        self,
        places: tuple[pa.Array, pa.StringArray, pa.StringArray],
        rows: pa.RecordBatch,
        numbers: _Numbers,
        clauses: tuple[tuple[BoundClause, ...], _Numbers],
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
                        f"Cannot merge into the table '{self.name}': the clause for matched rows "
                        f"sets the {role} column '{name}' to another value, and a row cannot change its key or "
                        "partition; leave the column out, or add it to ON"
                    )

    def insert(self) -> None:
        """Takes the rows of the source that match nothing."""
        if not self.bound.not_matched:
            return
        alone = np.flatnonzero(~self.matched)
        alias = self.bound.plan.source_alias
        rows = pa.record_batch([self.source.rows.take(pa.array(alone))], names=[alias])
        chosen = choose(self.bound.not_matched, rows)
        parts = []
        for number, clause in enumerate(self.bound.not_matched):
            at = np.flatnonzero(chosen == number)
            if len(at):
                parts.append((alone[at], self.new_rows(clause, rows.take(pa.array(at)))))
        new, partitions, numbers = self.keyed(parts)
        if not self.generates_keys:
            self.check_new(new.column(0), partitions, numbers)
            kept = ~np.isin(numbers, self.settle(partitions, numbers))
            kept &= self.newest(partitions, numbers, alone[chosen < 0])
            at = pa.array(np.flatnonzero(kept))
            new, partitions = new.take(at), partitions.take(at)
            at = self.one_per_key(new, partitions)
            new, partitions = new.take(at), partitions.take(at)
        hold_located(self.held, new, pa.nulls(new.num_rows, pa.string()), partitions)
        self.counts = self.counts.plus(inserted=new.num_rows)

    def keyed(
        self, parts: Sequence[tuple[_Numbers, pa.RecordBatch]]
    ) -> tuple[pa.RecordBatch, pa.StringArray, _Numbers]:
        """New rows with their keys, their partitions, and the rows of the source that they come from, in its order."""
        if not parts:
            nothing = pa.RecordBatch.from_pylist([], self.context.row_schema)
            return nothing, pa.array([], pa.string()), np.zeros(0, np.int64)
        numbers = np.concatenate([numbers for numbers, _ in parts])
        order = np.argsort(numbers, kind="stable")
        table = pa.Table.from_batches([batch for _, batch in parts]).take(pa.array(order))
        keyed = self.context.keyed(table.combine_chunks().to_batches()[0])
        return keyed.rows, keyed.partitions, numbers[order]

    def settle(self, partitions: pa.StringArray, numbers: _Numbers) -> _Numbers:
        """Applies the clauses to rows whose keys are those of the source, but for which ON asks for more: such a row of
        the source matches if it would be inserted, for there is its key. Apache Hudi's ON is the key alone (1.2.0).

        Args:
            partitions, numbers: of new rows, by the row of the source.

        Returns:
            The rows of the source that match.
        """
        places = np.full(len(self.matched), -1, np.int64)
        places[numbers] = np.arange(len(numbers))
        found = [np.zeros(0, np.int64)]
        for each in self.late:
            at = places[each.theirs]
            there = at >= 0
            if not self.context.settings.index.is_global:
                asked = partitions.take(pa.array(np.maximum(at, 0), mask=~there))
                there &= true_where(pc.equal(asked, each.partitions.take(pa.array(each.ours))))
            found.append(each.theirs[there])
            takes = each.holds | there
            self.apply(each.batch, each.file_ids, each.partitions, each.ours[takes], each.theirs[takes])
        self.late.clear()
        return np.concatenate(found)

    def newest(self, partitions: pa.StringArray, numbers: _Numbers, others: _Numbers) -> npt.NDArray[np.bool_]:
        """Which new rows are the newest of the source for their key, by ordering value: a row counts even if no clause
        takes it, see `one_for_each`.

        Args:
            partitions, numbers: of new rows, by the row of the source.
            others: rows of the source that match nothing, which no clause takes.
        """
        kept = np.ones(len(numbers), np.bool_)
        both = np.r_[numbers, others]
        keys = self.source.keys.take(pa.array(both))
        if not self.bound.ordering or len(keys.unique()) == len(keys):
            return kept
        if not self.context.settings.index.is_global:
            own: pa.Array = pa.nulls(len(others), pa.string())
            fields = self.bound.own_partitions
            if fields or not self.context.settings.keygen.partition_fields:
                rows = self.source.rows.take(pa.array(others))
                inputs = pa.record_batch([rows], names=[self.bound.plan.source_alias])
                keygen = self.context.settings.keygen
                own = partitions_of_source(fields, inputs, keygen) if fields else pa.repeat(pa.scalar(""), len(others))
            keys = _pairs(pa.concat_arrays([partitions, own]), keys)
        codes = keys.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        ranks = self.ranks[both]
        best = np.full(len(both) + 1, -1, np.int64)
        np.maximum.at(best, codes, ranks)
        kept &= (best[codes] == ranks)[: len(numbers)] | (codes[: len(numbers)] < 0)
        return kept

    def new_rows(self, clause: BoundClause, rows: pa.RecordBatch) -> pa.RecordBatch:
        table = self.context.settings.schema.arrow
        given = {each.field.name: each for each in clause.assignments}
        columns = [
            given[column.name].evaluate(rows) if column.name in given else pa.nulls(rows.num_rows, column.type)
            for column in table
        ]
        return pa.RecordBatch.from_arrays(columns, schema=table)

    def check_new(self, keys: pa.Array, partitions: pa.Array, numbers: _Numbers) -> None:
        """Refuses rows whose key the table may have: ON has looked for other keys, or not in their partition."""
        at = pa.array(numbers)
        others = [(keys, self.source.keys.take(at), "record key")]
        if self.source.partitions is not None:
            others.append((partitions, self.source.partitions.take(at), "partition"))
        for values, searched, what in others:
            differs = np.flatnonzero(~true_where(pc.equal(values, searched)))
            if len(differs):
                first = int(differs[0])
                raise ConfigError(
                    f"Cannot merge into the table '{self.name}': the clause for rows not matched inserts the {what} "
                    f"'{values[first].as_py()}' where ON compares '{searched[first].as_py()}'; insert what ON compares"
                )

    def one_per_key(self, rows: pa.RecordBatch, partitions: pa.Array) -> pa.Array:
        """The numbers of the new rows that stay: of those with one key the newest by ordering value, as in Apache Hudi.

        Raises:
            DuplicateKeyError: the table has no ordering fields.
        """
        context = self.context
        places = partitions if not context.settings.index.is_global else ""
        whole = _pairs(places, rows.column(0))
        counts = whole.value_counts()
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        every = np.arange(rows.num_rows)
        if not len(twice):
            return pa.array(every)
        merge = context.settings.merge
        several = true_where(pc.is_in(whole, value_set=twice))
        if not (merge.by_event_time and merge.ordering_fields):
            key = rows.column(0)[int(np.flatnonzero(several)[0])].as_py()
            raise DuplicateKeyError(
                f"Cannot merge into the table '{self.name}': several rows of the source would "
                f"insert the key '{key}', and the table has no ordering field that chooses one; keep one row of the "
                "source for each key",
                key=key,
            )
        at = pa.array(np.flatnonzero(several))
        some = pa.Table.from_batches([rows]).take(at).set_column(0, RECORD_KEY, whole.take(at)).append_column(_ROW, at)
        won = combined(one_row_per_key(some.combine_chunks(), merge)[_ROW]).to_numpy()
        return pa.array(np.sort(np.r_[every[~several], won]))


def _pairs(partitions: pa.Array | str, keys: pa.Array) -> pa.Array:
    """Texts of a partition and a key."""
    return pc.binary_join_element_wise(partitions, keys, "\0")


def _same(left: pa.Array, right: pa.Array) -> bool:
    both = pc.or_(pc.equal(left, right).fill_null(False), pc.and_(left.is_null(), right.is_null()))
    return bool(pc.all(both, min_count=0).as_py())
