"""Creates, drops or refreshes an index as a write without rows: the commit does it, in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hudi_py.config import Options
from hudi_py.metadata_write.maintenance.indexes import IndexChange
from hudi_py.services.context import ServiceContext
from hudi_py.storage import open_storage
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.wiring import metadata_writer


class IndexWriter(DataSourceArrowWriter):
    """One statement, pickled to the process that runs it."""

    def __init__(self, path: str, options: Options, change: IndexChange) -> None:
        check_many_processes(options)
        self._path = path
        self._options = options
        self._change = change

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        options = self._options
        given = options.storage or None
        storage = open_storage(self._path, given)
        self._change.run(ServiceContext.of(storage, options, metadata_writer(options), storage_options=given))
