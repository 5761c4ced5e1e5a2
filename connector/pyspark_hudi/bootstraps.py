"""`df.write` with the operation `bootstrap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from pyspark_hudi import calls
from pyspark_hudi.writer import TaskMessage


class BootstrapWriter(DataSourceArrowWriter):
    """A bootstrap, which takes no rows: the process that commits makes the table."""

    def __init__(self, path: str, options: Options) -> None:
        self.path = path
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        if any(batch.num_rows for batch in iterator):
            raise ConfigError(
                f"Cannot bootstrap {self.path} from rows: the operation bootstrap makes a table of the files of "
                "hoodie.bootstrap.base.path; write an empty DataFrame"
            )
        return TaskMessage(None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        calls.bootstrap_by(self.path, self.options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        return
