"""Determines which base files a generic Parquet reader can read: those with rows in the table's own types.

An engine may read such files with its own reader, and merge logs with the help of `parts`. Only footers are conclusive:
the table's schema does not determine the types, units and calendar of files of an older commit. But a commit writes all
of its files with one schema, except if it may copy row groups unchanged (clustering).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.formats.arrays import has_times
from hudi_py.formats.base.parquet import read_metadata
from hudi_py.read.split import ChangeSplit, ReadSpec, Split
from hudi_py.read.support import missing_file
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote

_GLOB = frozenset("{}[]*?\\:")
"""Characters with a meaning in Hadoop's paths: patterns, and the colon of a scheme."""
_MAX_FOOTERS = 1024
"""Maximum number of footers to read for what statistics in the metadata table do not show."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""File names that every reader reports alike."""
_METADATA = "_metadata"
"""The column in which Spark's reader reports files and row numbers."""
_SPARK_VERSION = b"org.apache.spark.version"
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Footer keys of files that count days in the old (Julian) calendar, which readers treat differently."""


_READ_ALIKE = frozenset(
    (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
)
"""Types that every Parquet reader reads alike."""


def why_not_native(
    storage: Storage,
    splits: Sequence[Split],
    uniform: Collection[str] = (),
    stored: Sequence[Collection[str]] | None = (),
) -> list[str | None]:
    """Returns, for each split, why a generic Parquet reader cannot read its base file, or None if it can.

    If the split has logs, some rows of that file may have to be left out, and others added, see `parts`; its rows are
    identified by the name of the file and their number. Reads footers of the remaining candidates.

    Args:
        uniform: instants that wrote all their files with one schema: two footers of each are enough.
        stored: for each split the columns with a value from the path of which the base file is known to have no other
            value; the footers of the files show it of the others. None: files do not have such columns.

    Raises:
        HistoryCleanedError: a base file whose footer is read was cleaned.
    """
    # the splits of a plan share one spec
    unusual = {key: _unusual_names(spec) for key, spec in {id(split.spec): split.spec for split in splits}.items()}
    known = stored or [()] * len(splits)
    open_ = [_from_path(split, names) for split, names in zip(splits, known, strict=True)]
    many = stored is None or sum(map(bool, open_)) > _MAX_FOOTERS
    reasons = [
        _without_footer(split, names if many else ()) or unusual[id(split.spec)]
        for split, names in zip(splits, open_, strict=True)
    ]
    names = Counter(_base_file_name(split) for split, reason in zip(splits, reasons, strict=True) if reason is None)
    for index, split in enumerate(splits):
        if reasons[index] is None and split.log_files and names[_base_file_name(split)] > 1:
            reasons[index] = "another base file has the same name"
    alike: dict[str, list[int]] = {}
    for index, split in enumerate(splits):
        if reasons[index] is None:
            alike.setdefault(_writer_key(split, () if open_[index] else uniform), []).append(index)
    result = _by_samples(storage, splits, open_, list(alike.values()))
    return [result.get(index, reason) for index, reason in enumerate(reasons)]


def _by_samples(
    storage: Storage, splits: Sequence[Split], names: Sequence[Sequence[str]], groups: Sequence[Sequence[int]]
) -> dict[int, str | None]:
    """Decides as `_by_footers`, for groups of splits: two footers of a group are enough if they give the same
    answer."""
    samples = [sorted({group[0], group[-1]}) for group in groups]
    reasons = _by_footers(storage, splits, names, [index for sample in samples for index in sample])
    for group, sample in zip(groups, samples, strict=True):
        answers = {reasons[index] for index in sample}
        if len(answers) == 1:
            reasons |= dict.fromkeys(group, answers.pop())
        else:
            reasons |= _by_footers(storage, splits, names, group)
    return reasons


def _writer_key(split: Split, uniform: Collection[str]) -> str:
    """Returns a key that splits share if their files have the same schema."""
    assert split.base_file is not None
    instant = split.base_file.instant
    return instant if instant in uniform else split.base_file.path


def _from_path(split: Split, stored: Collection[str]) -> list[str]:
    """Returns columns that take their value from the path, except those whose files are known to contain it."""
    needed = set(split.spec.wanted_columns)
    return [name for name, _ in split.partition_values if name in needed and name not in stored]


def _by_footers(
    storage: Storage, splits: Sequence[Split], names: Sequence[Sequence[str]], chosen: Sequence[int]
) -> dict[int, str | None]:
    reasons = when_remote(storage, lambda index: _by_footer(storage, splits[index], names[index]), chosen)
    return dict(zip(chosen, reasons, strict=True))


def _without_footer(split: Split, from_path: Sequence[str]) -> str | None:
    if isinstance(split, ChangeSplit):
        return "its rows are computed changes"
    spec = split.spec
    if split.base_file is None:
        return "its base file is not read"
    if split.log_files and spec.mode != "merge":
        return "its logs are read without a merge"
    if spec.keys is not None:
        return "rows are chosen by their key"
    if spec.emit_deletes:
        return "deletes are rows too"
    if spec.limit is not None:
        return "its rows are limited"
    if from_path:
        return _by_path(from_path[0])
    needed = set(spec.wanted_columns)
    if spec.history is not None:
        if spec.history.query is not None:
            return "columns are identified by id (schema on read)"
        repaired = needed & {path.partition(".")[0] for path, _ in spec.history.repairs}
        if repaired:
            return f"column {min(repaired)} holds timestamps whose unit the table's schema determines"
    if split.base_file.source is not None:
        return "the table was bootstrapped: the columns are in two files"
    path = split.base_file.path
    if not path.endswith(".parquet"):
        return "it is not a Parquet file"
    if not _GLOB.isdisjoint(path):
        return "its path has characters that Hadoop does not take literally"
    if split.log_files and not _PLAIN_NAME.fullmatch(_base_file_name(split)):
        return "readers may spell the name of its base file in different ways"
    return None


def _base_file_name(split: Split) -> str:
    return "" if split.base_file is None else str(split.base_file.name)


def _unusual_names(spec: ReadSpec) -> str | None:
    names = [name.lower() for name in spec.table_schema.names]
    if _METADATA in names:
        return f"the table has a column {_METADATA}, as readers do"
    for name in spec.wanted_columns:
        if names.count(name.lower()) > 1:
            return f"column {name} differs from another only by case"
        if not _reads_alike(spec.table_schema.field(name).type):
            return f"column {name} is {spec.table_schema.field(name).type}"
    return None


def _by_footer(storage: Storage, split: Split, from_path: Sequence[str]) -> str | None:
    assert split.base_file is not None
    try:
        metadata = read_metadata(storage, split.base_file.path)
        values = dict(split.partition_values)
        other = next((name for name in from_path if not _holds_only(metadata, name, values[name])), None)
        return _by_path(other) if other is not None else _footer_difference(metadata, split.spec)
    except FileNotFoundError as error:
        raise missing_file(storage, split, error) from error


def _by_path(name: str) -> str:
    return f"column {name} takes its value from the path"


def _holds_only(metadata: pq.FileMetaData, name: str, value: pa.Scalar) -> bool:
    """Returns whether statistics show that all rows of a file have one value in a column."""
    places = {metadata.schema.column(index).path: index for index in range(len(metadata.schema))}
    if name not in places:
        return False
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(places[name])
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return False
        if not value.is_valid:
            if statistics.null_count != chunk.num_values:
                return False
        elif (
            statistics.null_count or not statistics.has_min_max or not statistics.min == statistics.max == value.as_py()
        ):
            return False
    return True


def _footer_difference(metadata: pq.FileMetaData, spec: ReadSpec) -> str | None:
    # not the reader's schema, in which timestamps of old files are already converted
    schema = metadata.schema.to_arrow_schema()
    pairs = metadata.metadata or {}
    old_writer = pairs.get(_SPARK_VERSION, b"").startswith((b"1.", b"2."))
    old_days = old_writer or any(key in pairs for key in _OLD_CALENDAR)
    folded = [name.lower() for name in schema.names]
    leaves = [metadata.schema.column(index) for index in range(len(metadata.schema))]
    int96 = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    for name in spec.wanted_columns:
        kind = spec.table_schema.field(name).type
        if folded.count(name.lower()) > (schema.get_field_index(name) >= 0):
            return f"column {name} differs from another only by case"
        if schema.get_field_index(name) < 0:
            continue  # null, for any reader
        result = schema.field(name).type
        if not _same_type(result, kind):
            return f"column {name} is {result} in the file and {kind} in the table"
        if name in int96:
            return f"column {name} holds INT96 timestamps"
        if old_days and has_times(kind):
            return f"column {name} counts days in the old calendar"
    return None


def _same_type(source: pa.DataType, kind: pa.DataType) -> bool:
    """Returns whether types are equal, ignoring nullability and the names of list and map elements."""
    if pa.types.is_struct(kind):
        if not pa.types.is_struct(source) or [field.name for field in source] != [field.name for field in kind]:
            return False
        return all(_same_type(mine.type, other.type) for mine, other in zip(source, kind, strict=True))
    if pa.types.is_map(kind):
        if not pa.types.is_map(source):
            return False
        return _same_type(source.key_type, kind.key_type) and _same_type(source.item_type, kind.item_type)
    if pa.types.is_list(kind):
        return pa.types.is_list(source) and _same_type(source.value_type, kind.value_type)
    return bool(source.equals(kind))


def _reads_alike(kind: pa.DataType) -> bool:
    """Returns whether Parquet readers agree on the values of a type, nested types included."""
    if pa.types.is_struct(kind):
        names = [field.name.lower() for field in kind]
        return bool(names) and len(set(names)) == len(names) and all(_reads_alike(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _reads_alike(kind.key_type) and _reads_alike(kind.item_type)
    if pa.types.is_list(kind):
        return _reads_alike(kind.value_type)
    if pa.types.is_timestamp(kind):
        return kind.unit == "us" and kind.tz in (None, "UTC")
    return kind in _READ_ALIKE or bool(pa.types.is_decimal128(kind))
