"""Plans which base files Spark's own Parquet reader reads, and what remains for Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.read import Pinned, PlannedScan, ReadSpec, Split, plan_table
from hudi_py.schema import COMMIT_TIME
from pyspark_hudi.condition import spark_condition
from pyspark_hudi.types import spark_schema

_SPARK_READS = frozenset(
    {"file", "hdfs", "viewfs", "s3a", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs"}
)
"""Schemes that Hadoop's file systems share."""
_GLOB = frozenset("{}[]*?\\")
_SMALL_BYTES = 8 << 20
"""Total size of slices with logs up to which Python merges them: that costs less than a second Python job and a
join."""
_PRUNED_BYTES = 32 << 20
"""Size of Python's share from which on conditions on partition columns prune parts of it: for each query, planning the
parts takes as long as reading several megabytes of logs."""
_MAX_LOGS = 4
"""Bytes of logs per byte of the base file from which on logs are likely to replace most of its rows: a row takes
several times as much in Avro as in Parquet."""
PLAN_SCHEMA = pa.schema(
    [
        ("explain", pa.string()),
        ("note", pa.string()),
        ("pin", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("num_splits", pa.int64()),
        ("native_files", pa.list_(pa.string())),
        ("merged_files", pa.list_(pa.string())),
        ("merged_bytes", pa.int64()),
        ("native_schema", pa.string()),
        ("native_condition", pa.string()),
        ("other_splits", pa.int64()),
        ("other_pin", pa.string()),
    ]
)
"""The view `plan`: one row. `pin` fixes the whole read. `note`: what may be unexpected about its time or range.

Spark's reader reads `native_files`, which have no logs, and `merged_files`, whose logs replace some rows; both have the
columns `native_schema` (Spark's JSON). `native_condition` (Spark SQL) is true for the rows to keep, null where all are.
`other_pin` fixes what the data source reads: the rows that logs add to `merged_files`, and the `other_splits`.
"""


@dataclass(frozen=True)
class NativePlan:
    """A planned read, and for each split why Spark's own reader cannot read its base file, or None if it can."""

    planned: PlannedScan
    reasons: Sequence[str | None]

    @classmethod
    def of(cls, path: str, options: Options) -> NativePlan:
        """Plans a read. Raises HudiError as a read of rows does."""
        planned = plan_table(path, options, read_config.column_names(options.get(read_config.COLUMNS)))
        return cls(planned, _why_not_native(planned, options))

    def report(self) -> pa.Table:
        """Returns the view `plan`: one row of `PLAN_SCHEMA`."""
        native, merged, others = self._parts
        row = {
            **self.row(),
            "explain": "\n".join([self.planned.explain(), *_reader_lines(native, merged, self.reasons)]),
            "note": self.planned.plan.note,
            "pin": self.planned.pin(),
            "num_splits": len(self.planned.splits),
            "other_pin": self.planned.pin([*merged, *others], without_base=len(merged)),
        }
        return pa.Table.from_pylist([row], PLAN_SCHEMA)

    def row(self) -> Mapping[str, Any]:
        """Returns the members of `PLAN_SCHEMA` for Spark's reader, and the number of other splits."""
        native, merged, others = self._parts
        spec = self.planned.spec
        return {
            "columns": list(spec.output_schema.names),
            "native_files": _base_files(spec, native),
            "merged_files": _base_files(spec, merged),
            "merged_bytes": sum(split.size for split in merged),
            "native_schema": spark_schema(spec.read_schema()).json() if native or merged else None,
            "native_condition": _native_condition(spec),
            "other_splits": len(others),
        }

    def rest(self) -> Pinned:
        """Returns what Python reads: the rows that logs add to the base files of Spark's reader, and the other
        splits."""
        _, merged, others = self._parts
        merged = [replace(split, without_base=True) for split in merged]
        if sum(split.size for split in (*merged, *others)) >= _PRUNED_BYTES:
            merged, others = (self.planned.with_known_values(part) for part in (merged, others))
            # splits without known values last, so that they share few tasks with others
            merged.sort(key=lambda split: not split.known_values)
            others.sort(key=lambda split: not split.known_values)
        return Pinned.of(self.planned.spec, [*merged, *others])

    def all_splits(self) -> Pinned:
        """Returns the whole read."""
        return Pinned.of(self.planned.spec, self.planned.splits)

    @cached_property
    def _parts(self) -> tuple[list[Split], list[Split], list[Split]]:
        """Groups the splits: those that Spark's reader reads alone, those it reads for a merge, and the others."""
        both = list(zip(self.planned.splits, self.reasons, strict=True))
        readable = [split for split, why in both if why is None]
        merged = [split for split in readable if _is_merged(split)]
        native = [split for split in readable if not _is_merged(split)]
        return native, merged, [split for split, why in both if why is not None]


def _why_not_native(planned: PlannedScan, options: Options) -> list[str | None]:
    """Returns, for each split, the reason not to use Spark's own reader, or None."""
    spec = planned.spec
    scheme = urlsplit(spec.uri).scheme
    reason = None
    if options.get(read_config.NATIVE) == "never":
        reason = f"{read_config.NATIVE.key} is never"
    elif options.storage:
        reason = "Spark's reader does not get the storage options"
    elif scheme not in _SPARK_READS:
        reason = f"Spark's reader may not support the scheme {scheme}"
    elif not _GLOB.isdisjoint(spec.uri):
        reason = "the table's path has characters of glob patterns"
    elif spec.filter is not None and spark_condition(spec.filter) is None:
        reason = "the filter may mean something else in another Spark session"
    if reason is not None:
        return [reason] * len(planned.splits)
    reasons = planned.why_not_native()
    return reasons if options.get(read_config.NATIVE) == "always" else _why_not_faster(planned.splits, reasons)


def _why_not_faster(splits: Sequence[Split], reasons: Sequence[str | None]) -> list[str | None]:
    """Adds reasons for splits with logs that Python alone is likely to merge faster."""
    result = list(reasons)
    merged = [index for index, split in enumerate(splits) if result[index] is None and _is_merged(split)]
    small = sum(splits[index].size for index in merged) <= _SMALL_BYTES
    for index in merged:
        base = splits[index].base_file
        if small:
            result[index] = "the slices with logs are small"
        elif base is not None and splits[index].size - base.size > _MAX_LOGS * base.size:
            result[index] = "its logs are much larger than its base file"
    return result


def _is_merged(split: Split) -> bool:
    return split.merged


def _base_files(spec: ReadSpec, splits: Sequence[Split]) -> list[str]:
    return [f"{spec.uri.rstrip('/')}/{split.base_file.path}" for split in splits if split.base_file is not None]


def _native_condition(spec: ReadSpec) -> str | None:
    parts = [] if spec.filter is None else [spark_condition(spec.filter)]
    if spec.commit_times is not None:
        times = ", ".join(f"'{time}'" for time in sorted(spec.commit_times))
        parts.append(f"`{COMMIT_TIME}` IN ({times})" if times else "FALSE")
    return " AND ".join(part for part in parts if part is not None) or None


def _reader_lines(native: Sequence[Split], merged: Sequence[Split], reasons: Sequence[str | None]) -> Iterator[str]:
    """Yields lines that say how many slices each reader reads, and why."""
    if native or merged:
        yield f"  by Spark's Parquet reader  {len(native) + len(merged):,} base files, {len(merged):,} merged with logs"
    for reason, count in Counter(reason for reason in reasons if reason is not None).most_common():
        yield f"  by the data source  {count:,}: {reason}"
