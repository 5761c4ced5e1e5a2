"""Resolves the arguments and options of a scan once, for snapshots, ranges, changes and streams.

Callers pass names, keys and partitions as one text or several."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options, incremental, indexes
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, Remedy
from hudi_py.expressions.filter import all_of
from hudi_py.merge import LogMemory
from hudi_py.model.instant import CommitTimes
from hudi_py.model.properties import TableConfig
from hudi_py.read.pruning.buckets import BucketHashing, buckets_of
from hudi_py.read.split import SliceMode

_MAX_SHOWN = 3
_PARTITIONS = Remedy(
    "Table.partitions() lists them", cli="`hudi-py partitions` lists them", sql="SHOW PARTITIONS lists them"
)
Moment = str | int | date | CommitTimes
"""A point in time, or a commit, which means its time."""
_RANGES = ("incremental", "cdc")
"""Query types that read the commits between two points in time."""
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
    """Settings that are not resolved here: those of ranges, streams and mergers."""
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
        """Returns the maximum number of rows in a batch."""
        return self.options.get(read_config.BATCH_ROWS)

    @property
    def use_metadata(self) -> bool:
        """Returns whether the metadata table is used at all."""
        return self.options.get(indexes.METADATA_ENABLE)

    @property
    def use_indexes(self) -> bool:
        """Returns whether the indexes of the metadata table prune files."""
        return self.options.get(indexes.DATA_SKIPPING)

    @property
    def read_damaged(self) -> bool:
        """Returns whether the readable rest of damaged files is read."""
        return self.options.get(read_config.DAMAGED)

    @property
    def memory(self) -> LogMemory:
        """Returns how much memory the logs of a slice may take."""
        return LogMemory.of(self.options.values)

    @property
    def buckets(self) -> BucketHashing | None:
        """Returns the simple bucket index, if the options describe one."""
        options = self.options
        count, fields = options.get(indexes.BUCKETS), options.get(indexes.BUCKET_FIELDS)
        return buckets_of(options.values, count, fields, options.get(indexes.BUCKET_EXPRESSIONS))

    @property
    def bootstrap_sources(self) -> tuple[str, ...]:
        """Returns URIs of folders of other stores from which sources of a bootstrapped table may be read."""
        return read_config.bootstrap_folders(self.options.get(read_config.BOOTSTRAP_SOURCES))

    @classmethod
    def of(cls, options: Options, arguments: ScanArguments | None = None) -> ScanRequest:
        """Resolves options and arguments to a request; some settings can be given as either.

        Raises:
            ConfigError: a value is not valid, or an argument and an option contradict each other.
        """
        given = arguments or ScanArguments()
        kind = _query_type(given, options)
        as_of, begin, end = _query_times(kind, given, options)
        limit = _limit(given.limit)
        _check_flag("meta", given.meta is None or given.meta)
        _check_flag("emit_deletes", given.emit_deletes)
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
            filter=with_range_filters(condition, options) if kind in _RANGES else condition,
            as_of=as_of,
            begin=begin,
            end=end,
            keys=None if keys is None else frozenset(keys),
            partitions=None if partitions is None else tuple(path.strip("/") for path in partitions),
            mode=mode,
            emit_deletes=emit_deletes,
            limit=limit,
        )


def texts(argument: str, value: str | Iterable[str] | None) -> list[str] | None:
    """Converts a value to a list of strings; a single string becomes a list of one.

    Raises:
        ConfigError: the value, or one of its items, has another type.
    """
    if value is None:
        return None
    given = _listed(argument, value)
    for item in given:
        if not isinstance(item, str):
            raise ConfigError(f"Argument {argument} has {item!r} of type {type(item).__name__}; expected text")
    return given


def key_texts(value: Any) -> list[str] | None:
    """Converts record keys to text as the table stores it; a single key becomes a list of one.

    Integers, booleans and dates are converted as Apache Hudi does. The text of other types depends on the column
    (precision of fractions, unit of timestamps), so they are refused.

    Raises:
        ConfigError: a key has one of the other types.
    """
    if value is None:
        return None
    scalar = isinstance(value, (Integral, date, pa.Scalar))
    return [_key_text(key) for key in ([value] if scalar else _listed("keys", value))]


def check_partitions(wanted: Sequence[str], known: Collection[str], config: TableConfig, uri: str) -> None:
    """Raises ConfigError if the table has no such partition, suggesting the closest match.

    A partition whose rows were all deleted counts as known. While a table has no partitions at all, any is accepted.
    """
    for path in wanted:
        if path in known or not known:
            continue
        bare = {_bare(name, config): name for name in known}
        near = bare.get(_bare(path, config)) or next(iter(difflib.get_close_matches(path, known, 1)), None)
        some = ", ".join(repr(name) for name in sorted(known)[:_MAX_SHOWN])
        more = f" and {len(known) - _MAX_SHOWN:,} more" if len(known) > _MAX_SHOWN else ""
        hint = f"did you mean '{near}'? It has {some}{more}" if near is not None else f"it has {some}{more}"
        text = f"Table at {uri} has no partition '{path}'; {hint}; {_PARTITIONS}"
        raise ConfigError(text, remedies=(_PARTITIONS,))


def with_range_filters(condition: Any, options: Options) -> Any:
    """Combines the filter with the conditions of `hoodie.datasource.read.incr.filters`."""
    more = [part for part in options.get(incremental.FILTERS).split(",") if part.strip()]
    if not more:
        return condition
    if condition is not None and not isinstance(condition, str):
        key = options.name_of(incremental.FILTERS)
        raise ConfigError(f"Option {key} needs a filter given as text, not as an expression; add its conditions there")
    return all_of([condition, *more])


def _key_text(key: Any) -> str:
    if isinstance(key, pa.Scalar):
        key = key.as_py()
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, Integral):
        return str(int(key))
    if isinstance(key, date) and not isinstance(key, datetime):
        return key.isoformat()
    raise ConfigError(
        f"Argument keys has {key!r} of type {type(key).__name__}; expected text as in the column _hoodie_record_key, "
        "or integers, booleans or dates: give the text, or filter on the key's columns"
    )


def _listed(argument: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        raise ConfigError(f"Argument {argument}={value!r} is of type {type(value).__name__}; expected a list of texts")
    return list(value)


def _bare(path: str, config: TableConfig) -> str:
    """Removes `column=` prefixes from the path."""
    names = {f"{name}=" for name in config.partition_fields}
    parts = path.split("/")
    return "/".join(part.partition("=")[2] if part.partition("=")[0] + "=" in names else part for part in parts)


def _query_type(given: ScanArguments, options: Options) -> str:
    asked = _one_of("query_type", given.query_type, options, read_config.QUERY_TYPE)
    kind = read_config.QUERY_TYPE.read(str(asked or "snapshot"))
    return "cdc" if kind == "incremental" and options.get(incremental.FORMAT) == incremental.CDC else kind


def _query_times(
    kind: str, given: ScanArguments, options: Options
) -> tuple[Moment | None, Moment | None, Moment | None]:
    """Returns the point in time of a snapshot, and begin and end of a range. Raises ConfigError if a query of this kind
    does not take them."""
    as_of = _one_of("as_of", given.as_of, options, read_config.AS_OF_INSTANT)
    if kind not in _RANGES:
        if given.begin is not None or given.end is not None:
            raise ConfigError(
                f"begin={given.begin!r} and end={given.end!r} cannot be used with query type '{kind}': use incremental "
                "or cdc"
            )
        return as_of, None, None
    begin = _one_of("begin", given.begin, options, incremental.BEGIN)
    end = _one_of("end", given.end, options, incremental.END)
    if as_of is not None:
        raise ConfigError(
            f"as_of={as_of!r} cannot be used with query type '{kind}': give begin and end of the range, or read a "
            "snapshot"
        )
    return None, begin, end


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{name}={value!r} is not valid: expected True or False")


def _limit(given: Any) -> int | None:
    """Returns the maximum number of rows. Raises ConfigError for anything else."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Integral) or not 0 <= int(given) < 1 << 63:
        raise ConfigError(f"A scan's limit is {given!r}; it must be a whole number, 0 or more, of at most 64 bits")
    return int(given)


def _one_of(name: str, value: Any, options: Options, option: Any) -> Any:
    """Returns the value of an argument or of the option with the same meaning; both may be given if they agree."""
    if value is None:
        return options.get(option) if options.given(option) else None
    if options.given(option) and options.get(option) != value:
        key = options.name_of(option)
        raise ConfigError(f"{name}={value!r} contradicts option {key}={options.get(option)!r}; give one of them")
    return value


def _mode(merge: str, emit_deletes: bool, options: Options) -> tuple[SliceMode, bool]:
    """Returns the slice mode, and whether deletes are rows; arguments override options."""
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
