"""Resolves the arguments and options of a scan once, for snapshots, ranges, changes and streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow.compute as pc

from hudi_py.config import Options, incremental, indexes
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from hudi_py.merge import LogMemory
from hudi_py.read.arguments import Moment, key_texts, texts
from hudi_py.read.buckets import BucketHashing, buckets_of
from hudi_py.read.filter import all_of
from hudi_py.read.split import SliceMode

_MODES: dict[str, SliceMode] = {"merge": "merge", "skip": "skip", "unmerged": "unmerged"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanArguments:
    """The arguments of `Table.scan`, as given."""

    columns: str | Iterable[str] | None = None
    filter: str | pc.Expression | None = None
    as_of: Moment | None = None
    query_type: str | None = None
    begin: Moment | None = None
    end: Moment | None = None
    keys: Any = None
    partitions: str | Iterable[str] | None = None
    merge: str = "merge"
    emit_deletes: bool = False
    limit: int | None = None
    meta: bool | None = None
    with_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What to read. Columns and filter are not yet checked against the table's schema."""

    options: Options
    """The options for settings that are not resolved here: those of ranges, streams and mergers."""
    query_type: str
    """`snapshot`, `read_optimized`, `incremental` or `cdc`."""
    columns: tuple[str, ...] | None
    """Output columns, in order; None: all."""
    meta: bool
    """Whether all columns include the meta columns."""
    with_keys: bool
    """Whether rows have `_hoodie_record_key` even where files do not store it."""
    filter: str | pc.Expression | None
    as_of: Moment | None
    begin: Moment | None
    end: Moment | None
    keys: frozenset[str] | None
    """Only rows with these record keys; None: all."""
    partitions: tuple[str, ...] | None
    """Paths of the partitions to read; None: all."""
    mode: SliceMode
    """Which files of a slice are read, and whether they are merged."""
    emit_deletes: bool
    """Whether deletes are returned as rows."""
    limit: int | None

    @property
    def batch_rows(self) -> int:
        """Maximum rows of a batch."""
        return self.options.get(read_config.BATCH_ROWS)

    @property
    def use_metadata(self) -> bool:
        """Whether the metadata table is used at all."""
        return self.options.get(indexes.METADATA_ENABLE)

    @property
    def use_indexes(self) -> bool:
        """Whether the indexes of the metadata table prune files."""
        return self.options.get(indexes.DATA_SKIPPING)

    @property
    def read_damaged(self) -> bool:
        """Whether the readable rest of damaged files is read."""
        return self.options.get(read_config.DAMAGED)

    @property
    def memory(self) -> LogMemory:
        """How much memory the logs of a slice may take."""
        return LogMemory.of(self.options.values)

    @property
    def buckets(self) -> BucketHashing | None:
        """The simple bucket index, if the options describe one."""
        options = self.options
        count, fields = options.get(indexes.BUCKETS), options.get(indexes.BUCKET_FIELDS)
        return buckets_of(options.values, count, fields, options.get(indexes.BUCKET_EXPRESSIONS))

    @property
    def bootstrap_sources(self) -> tuple[str, ...]:
        """URIs of folders of other stores from which sources of a bootstrapped table may be read."""
        return tuple((self.options.get(read_config.BOOTSTRAP_SOURCES) or "").split(","))

    @classmethod
    def of(cls, options: Options, arguments: ScanArguments | None = None) -> ScanRequest:
        """The request of these options and arguments; some can be given as either.

        Raises:
            ConfigError: a value is not valid, or an argument and an option contradict each other.
        """
        given = arguments or ScanArguments()
        kind = str(_one_of("query_type", given.query_type, options, read_config.QUERY_TYPE) or "snapshot")
        kind = read_config.QUERY_TYPE.read(kind)
        if kind == "incremental" and options.get(incremental.FORMAT) == incremental.CDC:
            kind = "cdc"
        ranged = kind in ("incremental", "cdc")
        begin = _one_of("begin", given.begin, options, incremental.BEGIN) if ranged else given.begin
        end = _one_of("end", given.end, options, incremental.END) if ranged else given.end
        as_of = _one_of("as_of", given.as_of, options, read_config.AS_OF_INSTANT)
        if as_of is not None and ranged:
            raise ConfigError(
                f"as_of={as_of!r} cannot be used with query type '{kind}': give begin and end of the range, or read a "
                "snapshot"
            )
        if not ranged and (begin is not None or end is not None):
            raise ConfigError(
                f"begin={begin!r} and end={end!r} cannot be used with query type '{kind}': use incremental or cdc"
            )
        limit = _limit(given.limit)
        for name in ("meta", "emit_deletes"):
            value = getattr(given, name)
            if not isinstance(value, (bool, np.bool_)) and not (name == "meta" and value is None):
                raise ConfigError(f"{name}={value!r} is not valid: expected True or False")
        mode, emit_deletes = _mode(given.merge, given.emit_deletes, options)
        condition = _one_of("filter", given.filter, options, read_config.FILTER)
        columns = texts("columns", given.columns)
        if columns is None:
            columns = read_config.column_names(options.get(read_config.COLUMNS))
        keys = read_config.record_keys(options.get(read_config.KEYS)) if given.keys is None else key_texts(given.keys)
        partitions = texts("partitions", given.partitions)
        meta = _one_of("meta", given.meta, options, read_config.META_COLUMNS)
        return cls(
            options=options,
            query_type=kind,
            columns=None if columns is None else tuple(columns),
            meta=meta is None or meta,
            with_keys=given.with_keys,
            filter=with_range_filters(condition, options) if ranged else condition,
            as_of=as_of,
            begin=begin,
            end=end,
            keys=None if keys is None else frozenset(keys),
            partitions=None if partitions is None else tuple(path.strip("/") for path in partitions),
            mode=mode,
            emit_deletes=emit_deletes,
            limit=limit,
        )


def _limit(given: Any) -> int | None:
    """The largest number of rows. Raises ConfigError for anything else."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Integral) or not 0 <= int(given) < 1 << 63:
        raise ConfigError(f"A scan's limit is {given!r}; it must be a whole number, 0 or more, of at most 64 bits")
    return int(given)


def with_range_filters(condition: Any, options: Options) -> Any:
    """The filter together with the conditions of `hoodie.datasource.read.incr.filters`."""
    more = [part for part in options.get(incremental.FILTERS).split(",") if part.strip()]
    if not more:
        return condition
    if condition is not None and not isinstance(condition, str):
        key = options.name_of(incremental.FILTERS)
        raise ConfigError(f"Option {key} needs a filter given as text, not as an expression; add its conditions there")
    return all_of([condition, *more])


def _one_of(name: str, value: Any, options: Options, option: Any) -> Any:
    """The value of an argument or of the option with the same meaning; both may be given if they agree."""
    if value is None:
        return options.get(option) if options.given(option) else None
    if options.given(option) and options.get(option) != value:
        key = options.name_of(option)
        raise ConfigError(f"{name}={value!r} contradicts option {key}={options.get(option)!r}; give one of them")
    return value


def _mode(merge: str, emit_deletes: bool, options: Options) -> tuple[SliceMode, bool]:
    """The slice mode, and whether deletes are rows; arguments take precedence over options."""
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
