"""Tables on object stores published to Iceberg: read with the reader's own credentials, which no file has."""

from __future__ import annotations

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.interop.iceberg import publish, unpublish
from hudi_py.storage import open_storage
from tests.stores.servers import KEY, REGION, SECRET, Server

pytest.importorskip("pyiceberg")


def test_published_and_removed(s3: Server, bucket: str) -> None:
    from pyiceberg.table import StaticTable

    rows = pa.table({"id": ["a", "b"], "ts": [1, 1], "city": ["oslo", "lima"]})
    path = f"{bucket}/lake/trips"
    enabled = {"hoodie.py.iceberg.enable": "true", "hoodie.py.iceberg.snapshots.max": "1"}
    more = {"record_key": "id", "ordering_by": "ts", "partition_by": "city", "table_type": "mor"}
    hudi_py.write(path, rows, options=enabled, **more, storage_options=s3.options)
    table = hudi_py.open_table(path, enabled, storage_options=s3.options)
    table.upsert(rows.slice(0, 1))
    given = {"s3.endpoint": s3.url, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}
    location = publish(table, max_snapshots=1).location
    found = StaticTable.from_metadata(location, given).scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == ["a", "b"]
    assert found.num_columns == len(table.schema)
    storage = open_storage(path, s3.options)
    written = [info.path for info in storage.walk("metadata")]
    assert len(written) < 10
    assert not [
        each for each in written if SECRET.encode() in storage.read(each) or s3.url.encode() in storage.read(each)
    ]
    unpublish(path, storage_options=s3.options)
    assert list(storage.walk("metadata")) == []
    assert table.scan().count() == 2
