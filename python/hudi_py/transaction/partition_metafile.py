"""The metafile that marks a folder as a partition for readers (`HoodiePartitionMetadata`, 1.2.0; section 5.2 of the
format reference)."""

from __future__ import annotations

import io
import re
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.errors import ConfigError
from hudi_py.model.layout import PARTITION_METAFILE
from hudi_py.model.names import PartitionPath, folders_above, join_path
from hudi_py.storage.tree import folders_among, list_folders

if TYPE_CHECKING:
    from hudi_py.model.properties import TableConfig
    from hudi_py.storage import Storage


def partition_metafile(config: TableConfig, partition: str, instant: str) -> tuple[str, bytes]:
    """Returns path and content of the metafile of a partition.

    Args:
        instant: the first one that wrote to the partition.
    """
    depth = len(partition.split("/")) if partition else 0
    path = join_path(PartitionPath(partition), PARTITION_METAFILE)
    if config.metafiles_in_base_format:
        pairs = {"commitTime": str(instant), "partitionDepth": str(depth)}
        return f"{path}.{config.base_file_extension}", _parquet_footer(pairs)
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    return path, f"#partition metadata\n#{stamp}\ncommitTime={instant}\npartitionDepth={depth}\n".encode()


def creation_time(storage: Storage, config: TableConfig, partition: str) -> str | None:
    """Returns the instant of the first write to a partition, as stored in its metafile; None if it has none."""
    path, _ = partition_metafile(config, partition, "")
    try:
        content = storage.read(path)
    except FileNotFoundError:
        return None
    if not config.metafiles_in_base_format:
        match = re.search(rb"(?m)^commitTime *[=:] *(\d+)", content)
    else:
        try:
            pairs = pq.read_metadata(io.BytesIO(content)).metadata or {}
        except pa.ArrowInvalid:
            return None
        match = re.fullmatch(rb"(\d+)", pairs.get(b"commitTime", b""))
    return None if match is None else match[1].decode()


def _parquet_footer(pairs: dict[str, str]) -> bytes:
    """Returns a Parquet file without rows; readers only look at the pairs of its footer."""
    sink = io.BytesIO()
    schema = pa.schema([("dummyint", pa.int64())])
    with pq.ParquetWriter(sink, schema, compression="none", store_schema=False) as writer:
        writer.add_key_value_metadata(pairs)
    return sink.getvalue()


def check_not_nested(storage: Storage, config: TableConfig, partition: str) -> None:
    """Checks that a new partition neither lies in another nor has another in it.

    Apache Hudi does not look for partitions below another one (`FileSystemBackedTableMetadata`, 1.2.0): where it lists
    folders, and in each metadata table that it builds, the inner partition would lose its rows.

    Raises:
        ConfigError: it does.
    """
    if not config.partition_fields or config.url_encoded:
        return  # encoded values have no slashes
    for outer in folders_above(partition):
        if storage.stat(_metafile_path(config, outer)) is not None:
            raise nested_error(storage.uri, outer, partition, new=partition)
    for folder, children in list_folders(storage, folders_among, partition):
        if folder != partition and _metafile_path(config, folder) in {info.path for info in children}:
            raise nested_error(storage.uri, partition, folder, new=partition)


def nested_error(uri: str, outer: str, inner: str, *, new: str) -> ConfigError:
    """Builds the error of a write that would put one partition into another. `new`: the one that it would create."""
    lies = f"it lies in the partition {outer!r}" if new == inner else f"the partition {inner!r} lies in it"
    return ConfigError(
        f"Cannot write partition {new!r} of {uri}: {lies}, and Apache Hudi finds no partition below another where it "
        "lists folders; change the value, or write a table with hoodie.datasource.write.partitionpath.urlencode=true"
    )


def _metafile_path(config: TableConfig, partition: str) -> str:
    return partition_metafile(config, partition, "")[0]
