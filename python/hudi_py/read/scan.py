"""A scan: rows of a table at one state, as Arrow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import incremental
from hudi_py.errors import ConfigError, missing_library
from hudi_py.expressions.filter import all_of
from hudi_py.markup import Content, Html, folded, named, view
from hudi_py.model.words import counted, show_bytes
from hudi_py.read.changes.plan import ChangeRange, change_range, plan_changes
from hudi_py.read.planning.explain import explain_plan, log_plan
from hudi_py.read.planning.pin import PlanPin
from hudi_py.read.planning.plan import ScanPlan, divide, plan_scan
from hudi_py.read.ranges import CommitRange, note_on_range, note_on_time, plan_incremental, resolve_range, time_of
from hudi_py.read.request import ScanRequest
from hudi_py.read.slices.task import count_split, is_counted_by_footer, ordered, read_split_on
from hudi_py.read.snapshot import Snapshot, open_snapshot
from hudi_py.read.split import Split
from hudi_py.schema import META_FIELDS
from hudi_py.storage.threads import REQUESTS, default_threads, in_threads
from hudi_py.timeline.state import TableState

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

_MAX_COLUMNS: Final = 100


class Scan:
    """Rows of a table, read on demand. A scan is pinned to one state of the table: reading it again gives the same
    rows.

    Anything that accepts the Arrow C stream interface accepts a scan.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        span: ChangeRange | CommitRange | None,
        request: ScanRequest,
        plan: ScanPlan,
    ) -> None:
        """Use `make_scan`. `span`: the commits whose rows are read; None: all rows of the snapshot."""
        self._snapshot = snapshot
        self._span = span
        self._request = request
        self._plan = plan
        self._query_type = request.query_type
        self._limit = request.limit
        if span is not None:
            self._state = span.text
        else:
            self._state = f"as of {snapshot.as_of}" if snapshot.as_of else f"pinned at {snapshot.pin.time or '-'}"

    @property
    def snapshot(self) -> Snapshot:
        """Returns the state of the table that the scan reads."""
        return self._snapshot

    @property
    def pin(self) -> str:
        """Returns the newest state of the table at planning time, as text. Pass it as `hoodie.py.write.seen` to a write
        of rows computed from this scan: the write then conflicts if others have changed the rows since."""
        return PlanPin(self._snapshot.pin, ()).encode()

    @property
    def request(self) -> ScanRequest:
        """Returns the resolved request."""
        return self._request

    @property
    def state(self) -> str:
        """Describes the query type, and the state or range of the table that is read."""
        return f"{self._query_type}, {self._state}"

    @property
    def schema(self) -> pa.Schema:
        """Returns the Arrow schema of the rows."""
        return self._plan.spec.output_schema

    def narrow(self, columns: Iterable[str] | None = None, needed: str | None = None) -> Scan:
        """Plans a scan of the same state with other columns, for a caller that filters rows itself.

        Args:
            columns: columns to read, in the order of the result; None: those of this scan.
            needed: a filter as text (see `Table.scan`); rows for which it is not true may be left out.
        """
        request = self._request
        if columns is not None:
            request = replace(request, columns=tuple(columns))
        if request.limit is None and not isinstance(request.filter, pc.Expression):
            request = replace(request, filter=all_of([request.filter, needed]))
        return _planned_scan(self._snapshot, self._span, request, time.monotonic())

    def splits(self, target_bytes: int | None = None) -> list[Split]:
        """Returns the parts of the scan, in the order of its rows. `read_split` reads one, in any process.

        A limit applies to each split, so that reading all of them may give more rows.

        Args:
            target_bytes: larger slices without logs are divided at row groups; None: never.
        """
        splits = list(self.plan().splits)
        return splits if target_bytes is None else divide(self._snapshot.storage, splits, target_bytes)

    def plan(self) -> ScanPlan:
        """Returns the file slices to read, fixed when the scan was created."""
        return self._plan

    def to_batches(self, *, threads: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows in batches, in a deterministic order; reads several slices at once, a few batches of each
        ahead.

        Args:
            threads: slices to read at once; None: the number of processors, at most 4.
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
        """Reads all rows as one table."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def count(self) -> int:
        """Counts the rows; slices without logs are counted from their footers if there is no filter."""
        storage, splits, limit = self._snapshot.storage, self.plan().splits, self._limit
        footers = [split for split in splits if is_counted_by_footer(split)]
        others = [split for split in splits if not is_counted_by_footer(split)]
        total = 0
        for group, threads in ((footers, REQUESTS), (others, default_threads())):
            # a few slices at a time, so that those beyond the limit are not read
            step = max(len(group), 1) if limit is None else threads
            for start in range(0, len(group), step):
                if limit is not None and total >= limit:
                    return limit
                some = group[start : start + step]
                total += sum(in_threads(lambda split: count_split(storage, split), some, threads))
        return total if limit is None else min(total, limit)

    def explain(self) -> str:
        """Describes what will be read and what was pruned."""
        return explain_plan(self._plan, query_type=self._query_type, state=self._state, limit=self._limit)

    def to_pandas(self, *, dtype_backend: str | None = None) -> pandas.DataFrame:
        """Reads all rows as a pandas DataFrame; needs pandas.

        Args:
            dtype_backend: as in pandas: `numpy_nullable` or `pyarrow` for types that keep nulls; None: NumPy's, in
                which a null makes integers floating-point numbers and booleans objects.

        Raises:
            ConfigError: another `dtype_backend`.
            ModuleNotFoundError: pandas is not installed.
        """
        if dtype_backend not in (None, "numpy_nullable", "pyarrow"):
            raise ConfigError(
                f"dtype_backend={dtype_backend!r} is not known; supported: None, 'numpy_nullable' and 'pyarrow'"
            )
        try:
            import pandas  # noqa: F401 - before anything is read
        except ImportError as error:
            raise missing_library(error, "return rows as a pandas DataFrame", "pandas") from None
        rows = self.to_table()
        frame: pandas.DataFrame = rows.to_pandas(types_mapper=_pandas_types(dtype_backend))
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Reads all rows as a polars DataFrame; needs polars."""
        try:
            import polars
        except ImportError as error:
            raise missing_library(error, "return rows as a polars DataFrame", "polars") from None
        frame = polars.from_arrow(self.to_table())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_duckdb(self, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Reads all rows as a DuckDB relation, on the default connection or `con`; needs duckdb."""
        try:
            import duckdb
        except ImportError as error:
            raise missing_library(error, "return rows as a DuckDB relation", "duckdb") from None
        return (con or duckdb.default_connection()).from_arrow(self.to_table())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Exports the rows through the Arrow C stream interface, read on demand."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        condition = self._plan.spec.filter.text if self._plan.spec.filter else None
        return f"Scan({self._snapshot.storage.uri!r}, columns={list(self._plan.spec.columns)}, filter={condition!r})"

    def _repr_html_(self) -> str:
        """Shows what will be read, for notebooks; other displays show text. Reads nothing."""
        return scan_view(self._plan, query_type=self._query_type, state=self._state, limit=self._limit)


def make_scan(state: TableState, request: ScanRequest) -> Scan:
    """Plans a request on a state of the table. Raises what `Table.scan` raises.

    It is planned at once: a later plan could silently miss a file that was cleaned in between.
    """
    began = time.monotonic()
    as_of = None if request.as_of is None else time_of(request.as_of, state, by_completion=False)
    snapshot = open_snapshot(state, as_of)
    if request.query_type == "cdc":
        return _planned_scan(snapshot, change_range(snapshot, request), request, began)
    span = None
    if request.query_type == "incremental":
        span = resolve_range(snapshot, request)
        if request.options.get(incremental.SCHEMA_AT_END) and span.commits:
            snapshot = open_snapshot(state, schema_as_of=span.commits[-1].time)
    return _planned_scan(snapshot.with_deletes(request.emit_deletes), span, request, began)


def _planned_scan(
    snapshot: Snapshot, span: ChangeRange | CommitRange | None, request: ScanRequest, began: float
) -> Scan:
    scan = Scan(snapshot, span, request, _plan_request(snapshot, span, request))
    log_plan(scan.plan(), scan.state, time.monotonic() - began)
    return scan


def _plan_request(snapshot: Snapshot, span: ChangeRange | CommitRange | None, request: ScanRequest) -> ScanPlan:
    if span is None:
        plan = plan_scan(snapshot, request)
        return replace(plan, note=note_on_time(snapshot, has_files=bool(plan.splits)))
    if isinstance(span, ChangeRange):
        by_completion = False
        plan = plan_changes(snapshot, span.commits, request, reachable_only=span.reachable_only)
    else:
        by_completion = span.by_completion
        fallback = request.options.get(incremental.FALLBACK)
        fallback = snapshot.config.has_completion_times if fallback is None else fallback
        plan = plan_incremental(snapshot, span, request, fallback=fallback and not span.reachable_only)
    if span.commits:
        return plan
    return replace(plan, note=note_on_range(snapshot, request, span.text, by_completion=by_completion))


def _pandas_types(backend: str | None) -> Callable[[pa.DataType], Any] | None:
    """Returns the pandas type of each Arrow type; None means NumPy's."""
    if backend is None:
        return None
    import pandas

    if backend == "pyarrow":
        return pandas.ArrowDtype
    names = {
        "bool": "boolean",
        "int8": "Int8",
        "int16": "Int16",
        "int32": "Int32",
        "int64": "Int64",
        "float": "Float32",
        "double": "Float64",
        "string": "string",
    }
    return lambda kind: pandas.api.types.pandas_dtype(names[str(kind)]) if str(kind) in names else None


def scan_view(plan: ScanPlan, *, query_type: str, state: str, limit: int | None) -> Html:
    """Shows what a scan will read; reads nothing. For the arguments see `planning.explain.explain_plan`."""
    spec = plan.spec
    merged = sum(split.merged for split in plan.splits)
    logs = f", {merged:,} of them merged with logs" if merged else ""
    facts: list[tuple[str, Content]] = [
        ("Path", named(spec.uri)),
        ("State", state),
        ("Filter", named(spec.filter.text) if spec.filter else None),
        ("Limit", None if limit is None else f"{limit:,}"),
        ("Partitions", f"{plan.partitions_after:,} of {plan.partitions_before:,}"),
        ("File slices", f"{len(plan.splits):,}{logs}, {show_bytes(plan.size)}"),
    ]
    steps: list[list[Content]] = [
        [step.step, f"{step.before:,} to {step.after:,} {step.what}", step.why] for step in plan.pruning
    ]
    pruned = folded("What was left out", ("by", "from", ""), steps) if steps else None
    return view("Scan", query_type.replace("_", " "), facts, columns_view(spec.output_schema), pruned)


def columns_view(schema: pa.Schema | None) -> Content:
    """Shows columns of users and their types."""
    fields = [field for field in schema or () if field.name not in META_FIELDS]
    rows: list[list[Content]] = [[named(field.name), named(field.type)] for field in fields[:_MAX_COLUMNS]]
    if len(fields) > len(rows):
        rows.append([f"and {len(fields) - len(rows):,} more", ""])
    return folded(counted(len(fields), "column"), ("column", "type"), rows) if rows else None
