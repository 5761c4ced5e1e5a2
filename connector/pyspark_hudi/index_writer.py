"""Creates, drops or refreshes an index as a write without rows: the commit does it, in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hudi_py.config import Options
from hudi_py.wiring import IndexChange


class IndexWriter(DataSourceArrowWriter):
    """One statement, pickled to the process that runs it."""

    def __init__(self, path: str, options: Options, change: IndexChange) -> None:
        self._path = path
        self._options = options
        self._change = change

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._change.run(self._path, self._options)
