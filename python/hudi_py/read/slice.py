"""The rows of a file slice: its base file streamed, its logs merged over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_py.merge import MergeSettings, merge_with_base, reduce_log, scan_log
from hudi_py.merge.keys import with_keys
from hudi_py.merge.log import CommittedInstants
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.read.base_file import read_base, row_groups_matching
from hudi_py.read.split import Split
from hudi_py.schema import OPERATION, RECORD_KEY, SchemaHistory, conform
from hudi_py.storage import Storage

MERGE_ROWS = 131_072
"""Rows of a base batch in a merge; fewer would build the key look-up too often."""


def slice_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a slice with the columns `split.spec.wanted_columns`, neither filtered nor projected."""
    spec = split.spec
    if split.log_files:
        assert spec.merge is not None
        for batch in read_slice(
            storage,
            split.base_file,
            split.log_files,
            schema=spec.table_schema,
            columns=spec.wanted_columns,
            settings=spec.merge,
            committed=spec.committed,
            as_of=spec.as_of,
            batch_rows=spec.batch_rows,
            history=spec.history,
        ):
            yield _with_values(batch, split.partition_values)
        return
    assert split.base_file is not None
    schema = spec.read_schema()
    # statistics of the file say nothing of columns whose value is that of the path
    replaced = {name for name, _ in split.partition_values}
    condition = spec.filter if spec.filter is None or replaced.isdisjoint(spec.filter.columns) else None
    groups = row_groups_matching(storage, split.base_file, split.row_groups, condition, spec.history)
    if groups == []:
        return
    for batch in read_base(
        storage, split.base_file, schema, batch_rows=spec.batch_rows, row_groups=groups, history=spec.history
    ):
        yield _with_values(batch, split.partition_values)


def read_slice(
    storage: Storage,
    base_file: BaseFile | None,
    log_files: Sequence[LogFile],
    *,
    schema: pa.Schema,
    columns: Sequence[str],
    settings: MergeSettings,
    committed: CommittedInstants | None,
    as_of: str | None = None,
    batch_rows: int = MERGE_ROWS,
    history: SchemaHistory | None = None,
) -> Iterator[pa.RecordBatch]:
    """The merged rows of a file slice: base rows in their order, then log rows in the order of their keys.

    Args:
        schema: the table's schema, meta columns included.
        columns: columns of the result; those the merge needs besides are read and left out.
        settings: how versions merge.
        committed, as_of: see `scan_log`.
        history: how columns of files and blocks become those of `schema`; None: by name.

    Yields:
        Batches with `columns` in the order of `schema`; none is empty.
    """
    needed = {*columns, RECORD_KEY, OPERATION, *settings.columns}
    merge_schema = pa.schema([field for field in schema if field.name in needed])
    if RECORD_KEY not in merge_schema.names:
        merge_schema = merge_schema.append(pa.field(RECORD_KEY, pa.string()))
    output = pa.schema([field for field in schema if field.name in set(columns)])
    blocks = scan_log(storage, log_files, committed=committed, as_of=as_of)
    log = reduce_log(storage, blocks, merge_schema, settings, history=history)
    if log is None:
        if base_file is not None:
            yield from read_base(storage, base_file, output, batch_rows=batch_rows, history=history)
        return
    base: Iterator[pa.RecordBatch] = iter(())
    if base_file is not None:
        rows = max(batch_rows, MERGE_ROWS)
        read = read_base(storage, base_file, merge_schema, batch_rows=rows, history=history)
        base = (with_keys(batch, settings) for batch in read)
    for batch in merge_with_base(base, log, settings):
        if batch.num_rows:
            yield conform(batch, output)


def _with_values(batch: pa.RecordBatch, values: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
    for name, value in values:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            column = pa.array([value.as_py()], value.type).take(pa.array([0] * batch.num_rows, pa.int32()))
            batch = batch.set_column(at, batch.schema.field(at), column)
    return batch
