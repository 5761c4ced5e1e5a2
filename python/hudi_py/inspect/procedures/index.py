"""The procedures that show the metadata table (`ShowMetadataTableStatsProcedure`, `ShowMetadataTableFilesProcedure`,
`ShowMetadataTableColumnStatsProcedure`, `ShowColumnStatsOverlapProcedure`, `ValidateMetadataTableFilesProcedure`,
Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any, Final

from hudi_py.errors import TableNotFoundError
from hudi_py.inspect.procedures.shown import (
    Given,
    Opened,
    Rows,
    Shown,
    columns,
    data_files,
    limited,
    lister,
    text_of,
    texts_of,
)
from hudi_py.metadata.files import read_files
from hudi_py.metadata.keys import ALL_PARTITIONS, partition_key, partition_of_key
from hudi_py.metadata.stats import column_records
from hudi_py.metadata.table import COLUMN_STATS, FILES, MetadataTable, open_metadata
from hudi_py.model.names import PartitionPath
from hudi_py.schema import META_FIELDS
from hudi_py.schema.floats import java_double, java_float
from hudi_py.view import load_view
from hudi_py.view.filesystem_view import FileSystemView


def _opened_metadata(table: Opened, partition: str = FILES) -> MetadataTable:
    """Opens the metadata table. Raises TableNotFoundError if there is none, or it lacks a partition."""
    metadata = open_metadata(table.state)
    if metadata is None or not metadata.has(partition):
        raise TableNotFoundError(
            f"Cannot show the metadata table of {table.storage.uri}: hoodie.table.metadata.partitions of the table "
            f"does not name '{partition}'; create it with CALL create_metadata_table, or by a write "
            "whose options request it"
        )
    return metadata


def _show_stats(table: Opened, given: Given) -> Rows:
    """Returns sizes and numbers of the newest files of each partition (`HoodieMetadataMetrics`)."""
    metadata = _opened_metadata(table)
    for partition in sorted(metadata.partitions):
        slices = [item for group in metadata.file_groups(partition).values() for item in group]
        bases = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
        logs = [log for slice_ in slices for log in slice_.log_files]
        numbers = {
            "totalBaseFileSizeInBytes": sum(base.size for base in bases),
            "totalLogFileSizeInBytes": sum(log.size for log in logs),
            "baseFileCount": len(bases),
            "logFileCount": len(logs),
        }
        yield from ((f"{partition}.{name}", str(number)) for name, number in numbers.items())


def _show_files(table: Opened, given: Given) -> Rows:
    """Lists the names of a partition's files, sorted."""
    key = partition_key(text_of(given, "partition").strip("/"))
    value = read_files(_opened_metadata(table), [key]).get(key, {})
    yield from ((name,) for name in sorted(value)[: limited(given)])


def _column_stats(table: Opened, given: Given) -> Rows:
    """Yields the statistics of the newest slices' base files, by column and file."""
    files = _newest_files(table, load_view(table.state), given)
    for record in _column_stat_records(table, texts_of(given, "targetColumns")):
        if record["file"] in files:
            low, high = (_java_text(_bound_value(record, name)) for name in ("low", "high"))
            yield record["file"], record["column"], low, high, record["nulls"]


def _column_stat_records(table: Opened, names: list[str]) -> list[dict[str, Any]]:
    records = column_records(_opened_metadata(table, COLUMN_STATS), names or None)
    kept = [item for item in records if names or item["column"] not in META_FIELDS]
    return sorted(kept, key=lambda item: (item["column"], item["file"]))


def _newest_files(table: Opened, view: FileSystemView, given: Given) -> dict[str, PartitionPath]:
    """Returns the newest base files in partitions with a path prefix, and their partitions."""
    prefixes = tuple(texts_of(given, "partition"))
    paths = [path for path in view.partitions() if not prefixes or path.startswith(prefixes)]
    slices = [slice_ for path in paths for slice_ in view.latest_slices(path)]
    return {str(slice_.base_file.name): slice_.partition for slice_ in slices if slice_.base_file is not None}


def _bound_value(record: Mapping[str, Any], name: str) -> Any:
    """Returns a bound in the type of its wrapper; decimals of any wrapper as decimals."""
    bound = record[name] or {}
    value = next((item for key, item in bound.items() if key != "kind" and item is not None), None)
    if value is not None and bound["kind"] == "BooleanWrapper":
        return bool(value)
    if value is not None and bound["kind"] == "FloatWrapper":
        return float(java_float(value))  # the number with the shortest text
    scale = (record["detail"] or "").rpartition(",")[2].strip()
    if isinstance(value, bytes) and record["type"] == _DECIMAL and scale.isdecimal():
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-int(scale), _DIGITS)
    return value.normalize(_DIGITS) if isinstance(value, Decimal) else value


def _java_text(value: Any) -> str:
    """Formats a bound as Java does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.hex() if isinstance(value, bytes) else str(value)


def _show_overlap(table: Opened, given: Given) -> Rows:
    """Counts, for all bounds, how many files of a partition have a value between their bounds: by column and
    average."""
    view = load_view(table.state)
    bases = _newest_files(table, view, given)
    groups: dict[str, int] = {path: len(view.latest_slices(path)) for path in set(bases.values())}
    points: dict[tuple[str, str], list[tuple[Any, int]]] = defaultdict(list)
    for record in _column_stat_records(table, texts_of(given, "targetColumns")):
        low, high = _bound_value(record, "low"), _bound_value(record, "high")
        if record["file"] in bases and low is not None and high is not None:
            points[bases[record["file"]], record["column"]] += [(low, 0), (high, 1)]
    rows = [(path, column, *_count_overlaps(item, groups[path])) for (path, column), item in points.items()]
    yield from sorted(rows, key=lambda row: (row[1], row[2], row[0]))


def _count_overlaps(points: list[tuple[Any, int]], files: int) -> tuple[Any, ...]:
    open_files, most, counts = 0, 0, {}
    for value, is_end in sorted(points):
        if not is_end:
            open_files += 1
            most = max(most, open_files)
            counts[value] = open_files
        else:
            counts.setdefault(value, open_files)
            open_files -= 1
    sorted_counts = sorted(counts.values())
    shares = (sorted_counts[int(share / 100 * (len(sorted_counts) - 1))] for share in (50, 75, 95, 99))
    return sum(sorted_counts) / len(sorted_counts), most, files, *shares, len(sorted_counts)


def _validate_files(table: Opened, given: Given) -> Rows:
    """Lists files on which the storage and the metadata table disagree; all with `verbose`. By partition and name."""
    listed = read_files(_opened_metadata(table))
    known = {partition_of_key(key): files for key, files in listed.items() if key != ALL_PARTITIONS}
    for path in sorted({*lister(table).partitions(), *known}):
        stored = {info.name: info.size for _, info in data_files(table, PartitionPath(path))}
        noted = known.get(path, {})
        for name in sorted({*stored, *noted}):
            size, other = stored.get(name), noted.get(name)
            if given["verbose"] or size != other:
                yield path, name, size is not None, other is not None, size or 0, other or 0


_DECIMAL: Final = 10
"""`ValueType.DECIMAL`, whose details are precision and scale."""
_DIGITS: Final = Context(prec=80)
_OF_TABLE: Final = {"table": None, "path": None}
_OF_COLUMNS: Final = {**_OF_TABLE, "partition": None, "targetColumns": None, "filter": ""}
PROCEDURES: Final = {
    "show_metadata_table_stats": Shown(
        {**_OF_TABLE, "filter": ""}, columns("stat_key text, stat_value text"), _show_stats
    ),
    "show_metadata_table_files": Shown(
        {**_OF_TABLE, "partition": "", "limit": 100, "filter": ""}, columns("file_path text"), _show_files
    ),
    "show_metadata_table_column_stats": Shown(
        _OF_COLUMNS,
        columns("file_name text, column_name text, min_value text, max_value text, null_number long"),
        _column_stats,
    ),
    "show_metadata_column_stats_overlap": Shown(
        _OF_COLUMNS,
        columns(
            "Partition path text, Field name text, Average overlap double, Maximum file overlap int, "
            "Total file number int, 50% overlap int, 75% overlap int, 95% overlap int, 99% overlap int, "
            "Total value number int"
        ),
        _show_overlap,
    ),
    "validate_metadata_table_files": Shown(
        {"table": None, "verbose": False},
        columns(
            "partition text, file_name text, is_present_in_fs flag, is_present_in_metadata flag, fs_size long, "
            "metadata_size long"
        ),
        _validate_files,
    ),
}
