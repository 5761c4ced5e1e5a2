"""A scan: rows of a table at one state, as Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options, incremental
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.read.arguments import key_texts, texts
from hudi_py.read.base_file import count_rows
from hudi_py.read.changes import CHANGE_SCHEMA
from hudi_py.read.changes.plan import change_range, plan_changes
from hudi_py.read.explain import explain_plan
from hudi_py.read.filter import Filter, all_of, parse_filter
from hudi_py.read.incremental import plan_incremental
from hudi_py.read.parallel import default_threads, ordered
from hudi_py.read.plan import Plan, check_columns, divide, plan_scan
from hudi_py.read.ranges import CommitRange, Moment, resolve_range, time_of
from hudi_py.read.snapshot import Snapshot, open_snapshot
from hudi_py.read.split import ReadSpec, SliceMode, Split
from hudi_py.read.task import gone, read_split_on
from hudi_py.schema import META_FIELDS, OPERATION
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.timeline import Timeline

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

_MODES: dict[str, SliceMode] = {"merge": "merge", "skip": "skip", "unmerged": "unmerged"}


class Scan:
    """Rows of a table, not read yet. What it sees was fixed when it was made; each use reads anew, with one result.

    It can be handed to anything that takes the Arrow C stream interface.
    """

    def __init__(
        self, snapshot: Snapshot, plan: Plan, *, query_type: str, state: str, limit: int | None = None
    ) -> None:
        """Made by `make_scan`. `state` says for people which state or range of the table it is."""
        self._snapshot = snapshot
        self._plan = plan
        self._query_type = query_type
        self._state = state
        self._limit = limit

    @property
    def snapshot(self) -> Snapshot:
        """The state of the table which the scan sees."""
        return self._snapshot

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._plan.spec.output_schema

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
        footers = [split for split in plan.splits if _is_counted_by_footer(split, plan.spec)]
        total = sum(in_threads(self._footer_rows, footers))
        if len(footers) < len(plan.splits):
            total += sum(batch.num_rows for batch in self._without_columns().to_batches())
        return total if self._limit is None else min(total, self._limit)

    def explain(self) -> str:
        """What will be read and what was left out, for people."""
        return explain_plan(self._plan, query_type=self._query_type, state=self._state, limit=self._limit)

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
        condition = self._plan.spec.filter.text if self._plan.spec.filter else None
        return f"Scan({self._snapshot.storage.uri!r}, columns={list(self._plan.spec.columns)}, filter={condition!r})"

    def _footer_rows(self, split: Split) -> int:
        assert split.base_file is not None
        try:
            return count_rows(self._snapshot.storage, split.base_file)
        except FileNotFoundError as error:
            raise gone(self._snapshot.storage, split, error) from error

    def _without_columns(self) -> Scan:
        """The same rows without columns: of the slices which footers do not count."""
        plan = self._plan
        spec = replace(plan.spec, columns=())
        rest = [split for split in plan.splits if not _is_counted_by_footer(split, plan.spec)]
        bare = copy(self)
        bare._plan = replace(plan, spec=spec, splits=tuple(replace(split, spec=spec) for split in rest))
        return bare


def make_scan(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    options: Options,
    *,
    columns: str | Iterable[str] | None = None,
    filter: str | pc.Expression | None = None,
    as_of: Moment | None = None,
    query_type: str | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
    keys: Any = None,
    partitions: str | Iterable[str] | None = None,
    merge: str = "merge",
    emit_deletes: bool = False,
    limit: int | None = None,
) -> Scan:
    """The scan which options and arguments ask for, planned now.

    An argument stands for the option of the same meaning; for arguments and errors see `Table.scan`. What is planned
    later could pass over a file that is cleaned in between; a scan which holds its plan misses it.

    Args:
        config, timeline: of the table; what `timeline` lacks is not seen.
        options: options of reads.
    """
    kind = str(_one_of("query_type", query_type, options, read_config.QUERY_TYPE) or "snapshot")
    kind = read_config.QUERY_TYPE.read(kind)
    if kind == "incremental" and options.get(incremental.FORMAT) == incremental.CDC:
        kind = "cdc"
    ranged = kind in ("incremental", "cdc")
    first = _one_of("begin", begin, options, incremental.BEGIN) if ranged else begin
    last = _one_of("end", end, options, incremental.END) if ranged else end
    instant = _one_of("as_of", as_of, options, read_config.AS_OF_INSTANT)
    if instant is not None and ranged:
        raise ConfigError(
            f"as_of={instant!r} does not go with query type '{kind}': give begin and end of the range, or read a "
            "snapshot"
        )
    if not ranged and (first is not None or last is not None):
        raise ConfigError(
            f"begin={first!r} and end={last!r} do not go with query type '{kind}': they are for incremental and cdc"
        )
    if limit is not None and limit < 0:
        raise ConfigError(f"A scan's limit is {limit}; it must be 0 or more")
    mode, deletes = _mode(merge, emit_deletes, options)
    condition = _one_of("filter", filter, options, read_config.FILTER)
    if ranged:
        condition = _with_conditions(condition, options)
    names = texts("columns", columns)
    if names is None:
        names = read_config.column_names(options.get(read_config.COLUMNS))
    wanted_keys = key_texts(keys) if keys is not None else read_config.record_keys(options.get(read_config.KEYS))
    chosen_partitions = texts("partitions", partitions)
    paths = None if chosen_partitions is None else [path.strip("/") for path in chosen_partitions]
    batch_rows = options.get(read_config.BATCH_ROWS)

    if instant is not None:
        instant = time_of(instant, timeline, by_completion=False)
    snapshot = open_snapshot(storage, config, timeline, instant)
    if kind == "cdc":
        return _change_scan(
            snapshot, options, first, last, names, condition, partitions=paths, keys=wanted_keys, limit=limit
        )
    span: CommitRange | None = None
    if ranged:
        span = resolve_range(storage, config, snapshot.timeline, options, first, last)
        schema_at_end = options.get(incremental.SCHEMA_AT_END)
        if schema_at_end and span.commits:
            snapshot = open_snapshot(storage, config, timeline, schema_as_of=span.commits[-1].time)
    if deletes and OPERATION not in snapshot.schema.names:
        at = len([name for name in META_FIELDS if name in snapshot.schema.names])
        snapshot = replace(snapshot, schema=snapshot.schema.insert(at, pa.field(OPERATION, pa.string())))
    chosen = check_columns(snapshot.schema.names if names is None else names, snapshot.schema, storage.uri)
    parsed: Filter | None = parse_filter(condition, snapshot.schema)
    if span is not None:
        plan = plan_incremental(
            snapshot,
            span.commits,
            end=span.end,
            columns=chosen,
            condition=parsed,
            partitions=paths,
            path_glob=options.get(incremental.PATH_GLOB),
            limit=limit,
            batch_rows=batch_rows,
            options=options.values,
            keys=wanted_keys,
            mode=mode,
            emit_deletes=deletes,
            fallback=_falls_back(config, options) and not span.reachable_only,
            reachable_only=span.reachable_only,
        )
        return Scan(snapshot, plan, query_type=kind, state=span.text, limit=limit)
    plan = plan_scan(
        snapshot,
        columns=chosen,
        condition=parsed,
        query_type=kind,
        partitions=paths,
        limit=limit,
        batch_rows=batch_rows,
        options=options.values,
        keys=wanted_keys,
        mode=mode,
        emit_deletes=deletes,
    )
    state = f"as of {snapshot.as_of}" if snapshot.as_of else f"pinned at {snapshot.pin.time or '-'}"
    return Scan(snapshot, plan, query_type=kind, state=state, limit=limit)


def _change_scan(
    snapshot: Snapshot,
    options: Options,
    begin: Moment | None,
    end: Moment | None,
    names: Sequence[str] | None,
    condition: str | pc.Expression | None,
    *,
    partitions: Sequence[str] | None,
    keys: Collection[str] | None,
    limit: int | None,
) -> Scan:
    """The changes of a range; columns and filter are of the four columns of changes."""
    if keys is not None:
        raise ConfigError(
            f"keys={sorted(keys)[:3]} do not go with query type 'cdc'; filter its columns "
            f"{', '.join(CHANGE_SCHEMA.names)}"
        )
    span = change_range(snapshot, begin, end)
    plan = plan_changes(
        snapshot,
        span.commits,
        columns=check_columns(CHANGE_SCHEMA.names if names is None else names, CHANGE_SCHEMA, snapshot.storage.uri),
        condition=parse_filter(condition, CHANGE_SCHEMA),
        partitions=partitions,
        limit=limit,
        batch_rows=options.get(read_config.BATCH_ROWS),
        options=options.values,
        reachable_only=span.reachable_only,
    )
    return Scan(snapshot, plan, query_type="cdc", state=span.text, limit=limit)


def _one_of(name: str, value: Any, options: Options, option: Any) -> Any:
    """An argument, or the option of the same meaning; both only when they agree."""
    if value is None:
        return options.get(option) if options.given(option) else None
    if options.given(option) and options.get(option) != value:
        key = options.name_of(option)
        raise ConfigError(f"{name}={value!r} contradicts option {key}={options.get(option)!r}; give one of them")
    return value


def _mode(merge: str, emit_deletes: bool, options: Options) -> tuple[SliceMode, bool]:
    """How a slice is read, and whether deletes are rows: as the arguments say, or else the options."""
    mode = _MODES.get(merge)
    if mode is None:
        raise ConfigError(f"merge={merge!r} is not valid; expected one of {', '.join(_MODES)}")
    changelog = options.get(read_config.CHANGELOG)
    by_options: SliceMode = "skip" if options.get(read_config.MERGE_TYPE) == "skip_merge" else "merge"
    by_options = "unmerged" if changelog else by_options
    if mode == "merge":
        return by_options, emit_deletes or changelog
    if by_options not in ("merge", mode):
        key = options.name_of(read_config.CHANGELOG if changelog else read_config.MERGE_TYPE)
        raise ConfigError(f"merge={merge!r} contradicts option {key}; give one of them")
    return mode, emit_deletes or changelog


def _with_conditions(condition: Any, options: Options) -> Any:
    """The filter and the conditions of `hoodie.datasource.read.incr.filters`."""
    more = [part for part in options.get(incremental.FILTERS).split(",") if part.strip()]
    if not more:
        return condition
    if condition is not None and not isinstance(condition, str):
        key = options.name_of(incremental.FILTERS)
        raise ConfigError(f"Option {key} goes with a filter of text, not with an expression; put its conditions there")
    return all_of([condition, *more])


def _falls_back(config: TableConfig, options: Options) -> bool:
    asked = options.get(incremental.FALLBACK)
    return config.version >= 8 if asked is None else asked


def _is_counted_by_footer(split: Any, spec: ReadSpec) -> bool:
    """Whether a split's rows are all those of its base file."""
    chooses = spec.filter is not None or spec.commit_times is not None or spec.keys is not None
    return isinstance(split, Split) and not split.merged and not chooses
