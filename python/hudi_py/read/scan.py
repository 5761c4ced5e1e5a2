"""A scan: rows of a table at one state, as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.read.base_file import count_rows
from hudi_py.read.filter import Filter
from hudi_py.read.parallel import default_threads, ordered
from hudi_py.read.plan import Plan, divide, plan_scan
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import Split
from hudi_py.read.task import cleaned, read_split_on

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

_FOOTER_THREADS = 16


class Scan:
    """Rows of a table, not read yet. What it sees was fixed when it was made; each use reads anew, with one result.

    It can be handed to anything that takes the Arrow C stream interface.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        columns: tuple[str, ...],
        condition: Filter | None,
        query_type: str,
        partitions: Sequence[str] | None,
        limit: int | None,
        batch_rows: int,
        options: Mapping[str, str] | None = None,
    ) -> None:
        if limit is not None and limit < 0:
            raise ConfigError(f"A scan's limit is {limit}; it must be 0 or more")
        self._snapshot = snapshot
        self._columns = columns
        self._filter = condition
        self._query_type = query_type
        self._limit = limit
        # Now, not at the first use: a file that is cleaned in between must be missed then, not passed over
        self._plan = plan_scan(
            snapshot,
            columns=columns,
            condition=condition,
            query_type=query_type,
            partitions=partitions,
            limit=limit,
            batch_rows=batch_rows,
            options=options,
        )

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return pa.schema([self._snapshot.schema.field(name) for name in self._columns])

    def splits(self, target_bytes: int | None = None) -> list[Split]:
        """The parts of the scan, in the order of its rows. Each can be read alone, elsewhere, by `read_split`.

        Args:
            target_bytes: slices without logs which are larger are divided at row groups; None: never.

        A limit holds for each split, so that reading all of them may give more rows.
        """
        splits = list(self.plan().splits)
        return splits if target_bytes is None else divide(self._snapshot.storage, splits, target_bytes)

    def plan(self) -> Plan:
        """The file slices to read, as they were when the scan was made."""
        return self._plan

    def to_batches(self, *, threads: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in batches, in a fixed order; several slices are read at once, a few batches of each ahead.

        Args:
            threads: slices read at once; by default as many as there are processors, at most 4.
        """
        storage = self._snapshot.storage
        left = self._limit
        if left == 0:
            return
        count = default_threads() if threads is None else threads
        batches = ordered(self.splits(), lambda split: read_split_on(storage, split), count)
        for batch in batches:
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch
            if left == 0:
                break

    def to_table(self) -> pa.Table:
        """All rows as one table."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def count(self) -> int:
        """Number of rows; from footers alone for slices without logs when there is no filter."""
        plan = self.plan()
        footers = [split for split in plan.splits if not split.merged and plan.spec.filter is None]
        total = 0
        if footers:
            with ThreadPoolExecutor(_FOOTER_THREADS, "hudi-footers") as pool:
                total += sum(pool.map(self._footer_rows, footers))
        if len(footers) < len(plan.splits):
            total += sum(batch.num_rows for batch in self._without_columns().to_batches())
        return total if self._limit is None else min(total, self._limit)

    def explain(self) -> str:
        """What will be read and what was left out, for people."""
        plan = self.plan()
        merged = [split for split in plan.splits if split.merged]
        state = (
            f"as of {self._snapshot.as_of}" if self._snapshot.as_of else f"pinned at {self._snapshot.pin.time or '-'}"
        )
        lines = [
            f"Scan of {plan.spec.uri} ({self._query_type}, {state})",
            f"  columns     {len(self._columns)} of {len(self._snapshot.schema)}: {', '.join(self._columns)}",
            f"  filter      {self._filter.text if self._filter else '-'}",
            f"  limit       {'-' if self._limit is None else self._limit}",
            f"  partitions  {plan.partitions_after} of {plan.partitions_before}",
            f"  slices      {len(plan.splits)}, {len(merged)} of them merged with logs, {_bytes(plan.size)}",
        ]
        if plan.spec.merge is not None:
            ordering = ", ".join(plan.spec.merge.ordering_fields)
            lines.append(f"  merge       {plan.spec.merge.mode}{f' by {ordering}' if ordering else ''}")
        for split in plan.splits:
            kind = f"base + {len(split.log_files)} log" if split.base_file else f"{len(split.log_files)} log"
            kind = kind if split.merged else "base"
            lines.append(f"    {split.partition or '.'}/{split.file_id}  {kind}  {_bytes(split.size)}")
        return "\n".join(lines)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas data frame; needs pandas."""
        frame: pandas.DataFrame = self.to_table().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """All rows as a polars data frame; needs polars."""
        import polars

        frame = polars.from_arrow(self.to_table())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_duckdb(self, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation, on the default connection or `con`; needs duckdb."""
        import duckdb

        return (con or duckdb.default_connection()).from_arrow(self.to_table())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """The rows through the Arrow C stream interface, read as they are asked for."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        condition = self._filter.text if self._filter else None
        return f"Scan({self._snapshot.storage.uri!r}, columns={list(self._columns)}, filter={condition!r})"

    def _footer_rows(self, split: Split) -> int:
        assert split.base_file is not None
        try:
            return count_rows(self._snapshot.storage, split.base_file)
        except FileNotFoundError as error:
            raise cleaned(split, error) from error

    def _without_columns(self) -> Scan:
        """The same rows without columns: of the slices which footers do not count."""
        plan = self._plan
        spec = replace(plan.spec, columns=())
        merged = [split for split in plan.splits if split.merged or spec.filter is not None]
        bare = copy(self)
        bare._columns = ()
        bare._plan = replace(plan, spec=spec, splits=tuple(replace(split, spec=spec) for split in merged))
        return bare


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
