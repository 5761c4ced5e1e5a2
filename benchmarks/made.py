"""Writes commits to a table's timeline without writing rows: long histories in little time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pyarrow as pa

from hudi_py.formats.avro import avro_schema
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import encode_commit_metadata

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])
AVRO = json.dumps(avro_schema(SCHEMA, "r", "hoodie"))
OPTIONS = {
    "hoodie.table.name": "made",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.metadata.enable": "false",
}
METAFILE = b"commitTime=0\npartitionDepth=1\n"


def instant_time(number: int, millis: int = 0) -> str:
    """Returns the time of the commit of this number: one a minute."""
    moment = datetime(2024, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=number, milliseconds=millis)
    return moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03}"


def put_commit(
    storage: Storage, layout: Layout, number: int, stats: Sequence[WriteStat], action: Action = Action.COMMIT
) -> None:
    """Writes the three files of a commit that took five seconds."""
    time = instant_time(number)
    content = encode_commit_metadata(
        CommitMetadata("UPSERT", tuple(stats), {"schema": AVRO}), layout, action=action, completed=True
    )
    storage.put(layout.path(layout.requested_name(time, action)), b"")
    storage.put(layout.path(layout.inflight_name(time, action)), content)
    storage.put(layout.path(layout.completed_name(time, action, instant_time(number, 5000))), content)
