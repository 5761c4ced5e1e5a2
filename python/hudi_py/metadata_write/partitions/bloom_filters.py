"""The `bloom_filters` partition: each base file's bloom filter of record keys, copied from its footer.

Sources: `HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords`, `convertFilesToBloomFilterRecords`,
`HoodieMetadataPayload.createBloomFilterMetadataRecord`, 1.2.0. Apache Hudi records the filter type configured for the
write; hudi-py records the type in the footer, which decides how the filter is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.errors import CorruptFileError
from hudi_py.file_stats.files import DataFile
from hudi_py.formats.base.files import read_footer
from hudi_py.formats.keys.bloom import SIMPLE
from hudi_py.metadata.keys import bloom_filter_key
from hudi_py.metadata.table import BLOOM_FILTERS
from hudi_py.metadata_write.encoding.records import ARROW_SCHEMA, BLOOM_FILTER_RECORD, MetadataRecords, encode_values
from hudi_py.metadata_write.partitions.base import Listing, MetadataPartition, RecordCheck, listed, unset
from hudi_py.metadata_write.partitions.column_stats import files_of_commit
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath, join_path, parse_base_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import visible
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.transaction.protocols import TableChange

_FIELD: Final = "BloomFilterMetadata"
_STRUCT: Final[pa.DataType] = ARROW_SCHEMA.field(_FIELD).type
_AT_ONCE: Final = 128
"""Maximum number of filters in memory: one of the default size takes 431 kB."""
_NO_TYPE: Final = ""
"""The filter type in records that remove a filter."""


class BloomCheck(RecordCheck):
    """Compares filters. Base files left behind by a failed write need no filter."""

    field: ClassVar[str] = _FIELD

    def required(self, keys: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
        listing = Listing(self.source)
        left = {
            bloom_filter_key(partition, name).encode()
            for name, (partition, _) in listing.places.items()
            if parse_base_file_name(name) is not None and listing.is_left(name)
        }
        return np.array([key not in left for key in keys.to_pylist()], np.bool_)

    def superfluous(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        return unset(pc.struct_field(self.content(values), "isDeleted"))

    def difference(self, expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
        one, other = expected or {}, found or {}
        same = one.get("bloomFilter") == other.get("bloomFilter") and not other.get("isDeleted")
        return "" if same else "the filter is not that of the file"


@dataclass(frozen=True, slots=True)
class BloomFilters(MetadataPartition):
    """The partition `bloom_filters`."""

    name: ClassVar[str] = BLOOM_FILTERS
    file_id_prefix: ClassVar[str] = "bloom-filters"
    superfluous_harm: ClassVar[bool] = False
    check: ClassVar[type[RecordCheck]] = BloomCheck

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return options.get(indexes_config.BLOOM_FILTERS)

    def unwanted(self, options: Options) -> bool:
        return options.asked(indexes_config.BLOOM_FILTERS) is False

    def file_groups(self, source: TableSource) -> int:
        """Returns the configured number."""
        return source.options.get(indexes_config.BLOOM_FILTERS_FILE_GROUPS)

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields the filters of all existing base files, including older versions of file groups."""
        newest = max((instant.time for instant in source.timeline.write_completed), default="")
        for listing in listed(source):
            files = [DataFile(path, name, size) for path, sizes in listing.items() for name, size in sizes.items()]
            yield from _of_files(source.storage, files, newest)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the filters of the base files that a commit wrote, and removals of those that a clean deleted."""
        if change.commit is not None:
            yield from _of_files(source.storage, files_of_commit(change.commit), change.instant)
        if change.action is Action.CLEAN:
            gone = [
                (bloom_filter_key(partition, name), _NO_TYPE, b"")
                for partition, names in change.deleted.items()
                for name in names
                if parse_base_file_name(name) is not None
            ]
            for at in range(0, len(gone), _AT_ONCE):
                yield filter_records(BLOOM_FILTERS, gone[at : at + _AT_ONCE], change.instant, deleted=True)


def _of_files(storage: Storage, files: Iterable[DataFile], instant: str) -> Iterator[MetadataRecords]:
    bases = [file for file in files if _has_footer(file.name)]

    def one(file: DataFile) -> tuple[str, str, bytes] | None:
        path = join_path(PartitionPath(file.partition), file.name)
        try:
            footer = read_footer(storage, path)
        except FileNotFoundError:
            return None
        except CorruptFileError as error:
            warnings.warn(f"No bloom filter is stored for the file {visible(path)}: {error}", UserWarning, stacklevel=2)
            return None
        if footer.bloom_text is None:
            return None
        key = bloom_filter_key(file.partition, file.name)
        return key, footer.bloom_type_code or SIMPLE, footer.bloom_text.encode()

    for at in range(0, len(bases), _AT_ONCE):
        filters = [entry for entry in in_threads(one, bases[at : at + _AT_ONCE]) if entry is not None]
        if filters:
            yield filter_records(BLOOM_FILTERS, filters, instant, deleted=False)


def _has_footer(name: str) -> bool:
    parsed = parse_base_file_name(name)
    return parsed is not None and parsed.extension == "parquet"


def filter_records(
    partition: str, filters: Sequence[tuple[str, str, bytes]], instant: str, *, deleted: bool
) -> MetadataRecords:
    """Encodes records of a partition from keys, filter types and filter texts."""
    if not filters:
        return MetadataRecords(partition)
    columns = {
        "type": pa.array([kind for _, kind, _ in filters], pa.string()),
        "timestamp": pa.repeat(pa.scalar(str(instant)), len(filters)),
        "bloomFilter": pa.array([text for _, _, text in filters], pa.binary()),
        "isDeleted": pa.array(np.full(len(filters), deleted)),
    }
    fields = list(_STRUCT)
    struct = pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)
    values = encode_values(BLOOM_FILTER_RECORD, {_FIELD: struct})
    return MetadataRecords(partition, pa.array([key for key, _, _ in filters], pa.string()), values)
