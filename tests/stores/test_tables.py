"""Everything that works on a local folder, on servers of object stores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import LockError
from hudi_py.model.layout import STORAGE_LOCK
from hudi_py.storage import open_storage
from hudi_py.transaction.locks import table_lock
from tests.stores.proxy import Proxy
from tests.stores.servers import Server, options_for
from tests.support.choice import cases
from tests.support.sessions import lock_settings

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def rows(keys: range, ts: int) -> pa.Table:
    listed = [{"id": f"k{key}", "ts": ts, "city": "abc"[key % 3], "fare": key / 2} for key in keys]
    return pa.Table.from_pylist(listed, SCHEMA)


def found(table: hudi_py.Table, **scan: object) -> dict[str, int]:
    got = table.scan(["id", "ts"], **scan).to_table()
    by_key = dict(zip(got["id"].to_pylist(), got["ts"].to_pylist(), strict=True))
    assert len(by_key) == got.num_rows
    return by_key


def live(path: str, kind: str, version: int, storage_options: Mapping[str, str]) -> None:
    """The life of a table: writes, rollback, savepoint and restore, services, overwrite."""
    more = {"record_key": "id", "partition_by": "city", "ordering_by": "ts", "table_type": kind}
    hudi_py.write(
        path, rows(range(12), 1), "insert", OFF, **more, table_version=version, storage_options=storage_options
    )
    table = hudi_py.open_table(path, OFF, storage_options=storage_options)
    assert (table.version, table.uri) == (version, path)
    expected = {f"k{key}": 1 for key in range(12)}

    table.upsert(rows(range(6, 15), 2))
    expected |= {f"k{key}": 2 for key in range(6, 15)}
    table.delete(rows(range(2), 3))
    del expected["k0"], expected["k1"]
    assert found(table) == expected
    if version == 6:  # Apache Hudi takes modification times for completion times
        assert all(each.completion_time and each.completion_time > each.time for each in table.timeline.completed)
    assert found(table, filter="city = 'a' AND fare > 2") == {
        key: ts for key, ts in expected.items() if int(key[1:]) % 3 == 0 and int(key[1:]) > 4
    }
    assert found(table, filter="id = 'k7'") == {"k7": 2}

    bad = table.upsert(rows(range(30), 9))
    table.rollback(bad)
    assert found(table) == expected
    kept = table.savepoint()
    table.upsert(rows(range(14), 10))
    table.restore(kept.instant)
    table.delete_savepoint(kept.instant)
    assert found(table) == expected

    for ts in range(4, 8):
        table.upsert(rows(range(5, 10), ts))
        expected |= {f"k{key}": ts for key in range(5, 10)}
    if kind == "mor":
        assert table.compact().instant is not None
    assert found(table) == expected
    assert table.clean(options={"hoodie.clean.commits.retained": "1"}).instant is not None
    table.archive(options={"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    assert found(table) == expected
    assert table.metadata.verify().ok
    assert (
        found(hudi_py.open_table(path, {"hoodie.metadata.enable": "false"}, storage_options=storage_options))
        == expected
    )
    table.export(f"{path} copied")
    copy = hudi_py.open_table(f"{path} copied", OFF, storage_options=storage_options)
    assert found(copy) == expected
    copy.upsert(rows(range(20, 22), 30))
    assert found(copy) == {**expected, "k20": 30, "k21": 30}
    assert table.export(f"{path} as rows", format="parquet", partition_by="city").num_rows == len(expected)
    table.bulk_insert(rows(range(50, 60), 1))
    table.insert_overwrite_table(rows(range(3), 20))
    assert found(table) == {"k0": 20, "k1": 20, "k2": 20}
    assert table.locks.holders() == []


@pytest.mark.parametrize(
    ("kind", "version", "s3"),
    cases(product(("cow", "mor"), (9, 8, 6), ("moto", "versitygw", "azurite", "google")), "tables in stores", 4),
    indirect=["s3"],
)
def test_the_life_of_a_table(s3: Server, bucket: str, kind: str, version: int) -> None:
    path = f"{bucket}/folder with blanks/t"
    live(path, kind, version, s3.options)
    assert open_storage(path, s3.options).stat(STORAGE_LOCK) is not None
    assert open_storage(path, s3.options).stat(".hoodie/lock") is None
    assert not open_storage(path, s3.options).list(".hoodie/.temp")


def test_files_are_uploaded_in_parts(s3: Server, bucket: str, proxy: Proxy) -> None:
    storage = open_storage(bucket, options_for(proxy.url))
    block = bytes(range(256)) * 4096
    with storage.open_output("big") as sink:
        for _ in range(40):
            sink.write(block)
        assert storage.stat("big") is None
    assert storage.read("big") == block * 40
    assert proxy.counts()["PUT"] == 5  # of 8 MiB each
    proxy.reset()
    with storage.open_output("small") as sink:
        sink.write(b"1")
    assert proxy.counts() == {"PUT": 1}


@pytest.mark.parametrize("how", ["raised", "forgotten"])
def test_uploads_that_are_not_finished_are_discarded(s3: Server, bucket: str, how: str) -> None:
    storage = open_storage(bucket, s3.options)

    def broken() -> None:
        sink = storage.open_output("big")
        if how == "forgotten":
            sink.write(bytes(20 << 20))
            return
        with sink:
            sink.write(bytes(20 << 20))
            raise RuntimeError("out of rows")

    if how == "raised":
        with pytest.raises(RuntimeError, match="out of rows"):
            broken()
    else:
        broken()
    assert storage.stat("big") is None
    client = s3.client("s3")
    assert client.list_multipart_uploads(Bucket=bucket.removeprefix("s3://")).get("Uploads", []) == []
    client.close()


def test_a_writer_whose_lease_was_lost_completes_nothing(
    s3: Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{bucket}/t"
    hudi_py.write(path, rows(range(3), 1), record_key="id", storage_options=s3.options)
    table = hudi_py.open_table(path, storage_options=s3.options)
    storage = open_storage(path, s3.options)
    put = type(storage).put_if_absent

    def and_breaks(self: object, name: str, data: bytes) -> bool:
        if name.startswith(".hoodie/metadata/.hoodie/timeline/") and name.endswith(".deltacommit.inflight"):
            table.locks.release(table.locks.holders()[0].owner)
        return put(self, name, data)

    monkeypatch.setattr(type(storage), "put_if_absent", and_breaks)
    with pytest.raises(LockError, match="the table lock .* was lost"):
        table.upsert(rows(range(3), 2))
    monkeypatch.undo()
    assert found(table) == {"k0": 1, "k1": 1, "k2": 1}
    table.upsert(rows(range(2), 3))
    assert found(table) == {"k0": 3, "k1": 3, "k2": 1}


@pytest.mark.parametrize("s3", ["versitygw"], indirect=True)
def test_a_lock_that_is_fought_over_is_held_by_one(s3: Server, bucket: str) -> None:
    """Threads have connections of their own; processes fight in `test_locks`."""
    import threading

    settings = lock_settings(LOCK_WAIT_MS=60_000, LOCK_RETRIES=0, STORAGE_VALIDITY_S=10, STORAGE_RENEW_S=1)
    inside: list[int] = []
    overlaps: list[int] = []
    done = []

    def work(number: int) -> None:
        storage = open_storage(bucket, s3.options)
        for _ in range(5):
            with table_lock(storage, settings, purpose="test") as lock:
                overlaps.extend(inside)
                inside.append(number)
                lock.check()
                inside.remove(number)
                done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (overlaps, len(done)) == ([], 30)
