"""Batches of a streaming query, planned, written and committed by hand, as Spark does it: without Spark."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from hudi_py.config import Options, Scope
from pyspark_hudi import stream as sink_module
from pyspark_hudi.stream import BatchMessage, HudiStreamWriter

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("p", StringType()),
        StructField("v", LongType()),
        StructField("_hoodie_is_deleted", BooleanType()),
    ]
)
BASE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.streaming.retry.interval.ms": "1",
    "hoodie.py.write.durable": "false",
}


class Stream:
    """A streaming query, as Spark calls it: each process gets a copy of its own."""

    def __init__(self, path: str, *, query: str = "q", **options: str) -> None:
        self.path = path
        self.query = query
        self.options = Options.resolve({**BASE, **options}, Scope.WRITE, defaults={})

    def run_tasks(self, batch: int | None, *parts: pa.RecordBatch, overwrite: bool = False) -> list[BatchMessage]:
        planned = HudiStreamWriter.of(self.path, self.options, SCHEMA, overwrite=overwrite)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sink_module, "_running_batch", lambda: (self.query, batch))
            return [copied(copied(planned).write(iter([part]))) for part in parts]

    @property
    def committer(self) -> HudiStreamWriter:
        return HudiStreamWriter.of(self.path, self.options, None, overwrite=False)

    def write(self, batch: int, *parts: pa.RecordBatch, overwrite: bool = False) -> None:
        self.committer.commit(self.run_tasks(batch, *parts, overwrite=overwrite), batch)


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def part(*ids: int, v: int = 0, deleted: bool = False) -> pa.RecordBatch:
    columns = [list(ids), ["ab"[n % 2] for n in ids], [v] * len(ids), [deleted] * len(ids)]
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
