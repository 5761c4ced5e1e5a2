"""The file by which readers know the folder of a partition (`HoodiePartitionMetadata`, 1.2.0; section 5.2 of the format
reference)."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.model.names import PartitionPath, join_path
from hudi_py.transaction.paths import PARTITION_METAFILE

if TYPE_CHECKING:
    from hudi_py.model.properties import TableConfig


def partition_metafile(config: TableConfig, partition: str, instant: str) -> tuple[str, bytes]:
    """Path and content of the metafile of a partition.

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


def _parquet_footer(pairs: dict[str, str]) -> bytes:
    """A Parquet file without rows; readers look at the pairs of its footer only."""
    sink = io.BytesIO()
    schema = pa.schema([("dummyint", pa.int64())])
    with pq.ParquetWriter(sink, schema, compression="none", store_schema=False) as writer:
        writer.add_key_value_metadata(pairs)
    return sink.getvalue()
