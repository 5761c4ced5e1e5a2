"""Small Hudi tables, made of the product's formats but of no writer: what lies in which file is up to the test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudi_py.formats.avro import avro_schema, encode_log_content
from hudi_py.formats.base.parquet_writer import BaseFileWriter
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_deletes, encode_rollback_block
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action
from hudi_py.model.names import BaseFileName, FileId, LogFileName, join_path
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS, with_meta
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.metadata import encode_commit_metadata
from hudi_py.timeline.properties import create_table_config

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
FILE_ID = FileId("11111111-2222-3333-4444-555555555555-0")


def instant(number: int) -> str:
    """The requested time of the number-th write."""
    return f"20240101{number:02}0000000"


def completion(number: int) -> str:
    return f"20240101{number:02}3000000"


class MadeTable:
    """A table of one or more file groups, made file by file."""

    def __init__(
        self,
        uri: str,
        *,
        version: int = 9,
        mor: bool = True,
        schema: pa.Schema = SCHEMA,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.uri = uri
        self.storage: Storage = open_storage(uri)
        self.schema = schema
        given = {
            "hoodie.table.name": "made",
            "hoodie.table.type": "MERGE_ON_READ" if mor else "COPY_ON_WRITE",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "1" if version == 6 else "2",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.timeline.path": "timeline",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            **(properties or {}),
        }
        if version == 6:
            del given["hoodie.record.merge.mode"]
        create_table_config(self.storage, given)
        self.config = TableConfig(given)
        self.layout = layout_for(self.config)
        self.partition("")

    def partition(self, path: str) -> None:
        if path or not self.config.partition_fields:
            self.storage.put(join_path(path, ".hoodie_partition_metadata"), b"commitTime=0\npartitionDepth=0\n")

    def rows(
        self,
        rows: Sequence[Mapping[str, Any]],
        at: int,
        partition: str = "",
        schema: pa.Schema | None = None,
        file_id: str = FILE_ID,
    ) -> pa.Table:
        """Rows with meta columns, as the number-th write makes them."""
        own = pa.Table.from_pylist([dict(row) for row in rows], schema or self.schema)
        meta = [
            [instant(at)] * len(rows),
            [f"{instant(at)}_0_{number}" for number in range(len(rows))],
            own["id"].to_pylist(),
            [partition] * len(rows),
            [file_id] * len(rows),
        ]
        columns = [pa.array(values, pa.string()) for values in meta] + own.columns
        return pa.table(columns, schema=with_meta(own.schema))

    def avro(self, schema: pa.Schema | None = None) -> dict[str, Any]:
        return avro_schema(with_meta(schema or self.schema), "made_record", "hoodie.made")

    def base(
        self,
        at: int,
        rows: Sequence[Mapping[str, Any]],
        *,
        partition: str = "",
        file_id: str = FILE_ID,
        schema: pa.Schema | None = None,
        row_group_rows: int | None = None,
    ) -> str:
        """A base file of the number-th write; its path."""
        table = self.rows(rows, at, partition, schema, file_id)
        path = join_path(partition, str(BaseFileName(FileId(file_id), "0-1-2", instant(at))))
        if row_group_rows is None:
            with BaseFileWriter(self.storage, path, table.schema, json.dumps(self.avro(schema)), bloom=None) as writer:
                writer.write(table)
        else:
            import pyarrow.parquet as pq

            with self.storage.open_output(path) as sink:
                pq.write_table(table, sink, row_group_size=row_group_rows)
        return path

    def log(
        self,
        at: int,
        *contents: Sequence[Mapping[str, Any]] | pa.Table,
        partition: str = "",
        file_id: str = FILE_ID,
        base_at: int | None = None,
        number: int = 1,
        schema: pa.Schema | None = None,
        header: Mapping[HeaderKey, str] | None = None,
        raw: bytes = b"",
    ) -> str:
        """A log file of the number-th write: a block for each content, a table of `id` and `ts` being deletes."""
        blocks = []
        avro = self.avro(schema)
        for content in contents:
            head = {HeaderKey.INSTANT_TIME: instant(at), HeaderKey.SCHEMA: json.dumps(avro), **(header or {})}
            if isinstance(content, pa.Table):
                ordering = content["ts"].combine_chunks() if "ts" in content.column_names else None
                keys = content["id"].combine_chunks()
                partitions = pa.array([partition] * len(keys), pa.string())
                blocks.append(encode_block(BlockType.DELETE, head, encode_deletes(keys, partitions, ordering)))
            else:
                table = self.rows(content, at, partition, schema, file_id)
                blocks.append(encode_block(BlockType.AVRO, head, encode_log_content(table, avro)))
        return self.put_log(b"".join(blocks) + raw, at, partition, file_id, base_at, number)

    def put_log(
        self,
        data: bytes,
        at: int,
        partition: str = "",
        file_id: str = FILE_ID,
        base_at: int | None = None,
        number: int = 1,
    ) -> str:
        named = instant(base_at if base_at is not None and self.config.version == 6 else at)
        path = join_path(partition, str(LogFileName(FileId(file_id), named, number, "0-1-2")))
        self.storage.put(path, data)
        return path

    def rollback_block(self, at: int, target: int) -> bytes:
        return encode_rollback_block(instant(at), instant(target))

    def commit(self, at: int, *, completed: int | None = None, action: Action | None = None, **metadata: Any) -> None:
        """The number-th write as completed, at its own completion time unless `completed` says another."""
        kind = action or (Action.DELTA_COMMIT if self.config.is_mor else Action.COMMIT)
        columns = metadata.pop("schema", self.schema)
        own = metadata.pop("avro", None) or avro_schema(columns, "made_record", "hoodie.made")
        extra = {"schema": json.dumps(own), **metadata.pop("history", {})}
        content = CommitMetadata("UPSERT", extra=extra, **metadata)
        name = self.layout.completed_name(instant(at), kind, completion(completed or at))
        self.storage.put(
            self.layout.path(name), encode_commit_metadata(content, self.layout, action=kind, completed=True)
        )

    def pending(self, at: int, action: Action = Action.DELTA_COMMIT, content: bytes = b"") -> None:
        self.storage.put(self.layout.path(self.layout.requested_name(instant(at), action)), content)
        self.storage.put(self.layout.path(self.layout.inflight_name(instant(at), action)), b"")


def row(id: str, ts: int, name: str = "n", price: float | None = 1.0) -> dict[str, Any]:
    return {"id": id, "ts": ts, "name": name, "price": price}


def deletes(*keys: str, ts: int | None = None) -> pa.Table:
    """Entries of a delete block; without `ts` they count by commit time."""
    columns: dict[str, Any] = {"id": pa.array(list(keys), pa.string())}
    if ts is not None:
        columns["ts"] = pa.array([ts] * len(keys), pa.int64())
    return pa.table(columns)


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows without meta columns, sorted."""
    own = table.select([name for name in table.column_names if name not in META_FIELDS])
    return sorted(tuple(row.values()) for row in own.to_pylist())
