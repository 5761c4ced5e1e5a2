"""A real HDFS: the storage, the lives of tables, its lock shared with Apache Hudi, Spark.

`make hdfs` runs it: it needs a C compiler, cargo, mvn and a JDK. `tests/unit/storage/test_hdfs.py` does without them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.config import concurrency as config
from hudi_py.errors import ConfigError, LockError, StorageDeniedError, StorageError
from hudi_py.storage import HdfsStorage, Storage, open_storage
from hudi_py.testing.storage import StorageBehaviour
from hudi_py.transaction.locks import lock_holders, table_lock
from hudi_py.transaction.settings import LockSettings
from tests.oracle import environment
from tests.oracle.client import Oracle
from tests.stores.hdfs import cluster
from tests.stores.test_locks import Arena, java_classes
from tests.stores.test_spark import write
from tests.stores.test_tables import OFF, found, live, rows
from tests.stores.turns import by_turns

__all__ = ["java_classes"]

if not os.environ.get("HUDI_PY_HDFS"):
    pytest.skip("needs more than the other servers: `make hdfs`", allow_module_level=True)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def hadoop() -> Iterator[tuple[str, str]]:
    """Java's home and the class path of a cluster; Hadoop's client is set up for this process."""
    variables, classes = cluster.set_up()
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        patched.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        yield variables["JAVA_HOME"], classes


@pytest.fixture(scope="session")
def hdfs(hadoop: tuple[str, str]) -> Iterator[str]:
    with cluster.running(*hadoop) as uri:
        yield uri


@pytest.fixture
def folder(hdfs: str) -> str:
    return f"{hdfs}/{uuid.uuid4().hex}/a folder"


class TestHdfs(StorageBehaviour):
    @pytest.fixture
    def storage(self, folder: str) -> Storage:
        return open_storage(f"{folder}/t")

    def test_a_file_is_not_moved_into_a_folder_in_its_way(self, storage: HdfsStorage) -> None:
        storage.put("d/f", b"1")
        assert not storage.put_if_absent("d", b"2")
        storage.put("a", b"3")
        with pytest.raises(FileExistsError):
            storage.rename("a", "d")
        with pytest.raises(StorageError, match=r"HDFS cannot replace hdfs://.*/d: .* must both be directories"):
            storage.put("d", b"4")
        assert sorted(entry.path.rpartition("/")[2] for entry in storage._names.children(storage._full(""))) == [
            "a",
            "d",
        ]

    def test_what_is_refused_is_an_error_of_the_system(self, folder: str) -> None:
        put = open_storage(f"{folder}/t").put
        put("f", b"1")
        nobody = open_storage(f"{folder}/t", {"user": "nobody", "dfs.client.retry.max.attempts": "1"})
        assert nobody.read("f") == b"1"
        for call in (nobody.put, nobody.put_if_absent):
            with pytest.raises(StorageDeniedError, match=r"Permission denied.*/t"):
                call("g", b"2")
        with pytest.raises(StorageDeniedError, match=r"HDFS cannot delete hdfs://.*/f: .*Permission denied"):
            nobody.delete("f")

    def test_a_name_node_that_does_not_answer_is_not_an_empty_folder(self, hdfs: str) -> None:
        quick = {"ipc.client.connect.max.retries": "0", "dfs.client.retry.max.attempts": "0"}
        gone = open_storage("hdfs://127.0.0.1:1/t", quick)
        for call in (gone.stat, gone.list, gone.read, gone.delete, gone.delete_tree, lambda path: gone.put(path, b"")):
            with pytest.raises(StorageError, match="Connection refused") as caught:
                call("f")
            assert not isinstance(caught.value, FileNotFoundError)
        with pytest.raises(StorageError, match="Connection refused"):
            hudi_py.open_table(gone.uri, storage_options=quick)

    def test_settings_and_pickles(self, folder: str) -> None:
        options = {"user": "somebody", "replication": "1", "dfs.client.use.datanode.hostname": "false"}
        open_storage(folder, {}).put("f", b"1")
        storage = open_storage(folder, options)
        again = pickle.loads(pickle.dumps(storage))
        assert (again, again.options, again.read("f")) == (storage, options, b"1")


def test_a_mount_of_viewfs(folder: str) -> None:
    folder = folder.replace(" ", "_")
    options = {"fs.viewfs.mounttable.lake.link./data": folder}
    open_storage(folder).put("t/d/f", b"1")
    storage = open_storage("viewfs://lake/data/t", options)
    storage.put("d/f", b"2")
    assert (storage.put_if_absent("d/f", b"3"), storage.put_if_absent("d/g", b"3")) == (False, True)
    storage.rename("d/g", "e/g")
    assert sorted(info.path for info in storage.walk()) == ["d/f", "e/g"]
    assert open_storage(folder).read("t/d/f") == b"2"


def test_another_name_node_takes_over(hadoop: tuple[str, str]) -> None:
    """A name service by its name: its active name node ends while a writer holds the lock."""
    with cluster.pair(*hadoop) as (options, change):
        path = "hdfs://lake/lake/t"
        more: dict[str, Any] = {
            "record_key": "id",
            "ordering_by": "ts",
            "table_type": "mor",
            "storage_options": options,
        }
        hudi_py.write(path, rows(range(6), 1), "insert", OFF, **more)
        table = hudi_py.open_table(path, OFF, storage_options=options)
        assert found(table) == {f"k{key}": 1 for key in range(6)}
        with table_lock(open_storage(path, options), LockSettings(), purpose="test") as lock:
            change()
            lock.check()
        table.upsert(rows(range(4, 8), 2))
        assert found(table) == {f"k{key}": 2 if key > 3 else 1 for key in range(8)}
        assert table.metadata.verify().ok
        assert table.locks.holders() == []


@pytest.mark.parametrize(("kind", "version"), [("mor", 9), ("cow", 6)])
def test_the_life_of_a_table(folder: str, kind: str, version: int) -> None:
    path = f"{folder}/t"
    live(path, kind, version, {})
    storage = open_storage(path)
    assert storage.stat(".hoodie/lock") is None
    assert not storage.list(".hoodie/.temp")


KILLED = """
import os, signal, sys
import hudi_py
from hudi_py.storage import HdfsStorage
from tests.stores.test_tables import OFF, rows

put = HdfsStorage.put_if_absent
def dies(self, path, data):
    if path.startswith(".hoodie/timeline/") and path.endswith(".deltacommit"):
        os.kill(os.getpid(), signal.SIGKILL)
    return put(self, path, data)

HdfsStorage.put_if_absent = dies
hudi_py.open_table(sys.argv[1], OFF).upsert(rows(range(9), 2))
"""


def test_a_writer_that_was_killed_under_the_lock(folder: str) -> None:
    path = f"{folder}/t"
    hudi_py.write(path, rows(range(6), 1), "insert", OFF, record_key="id", ordering_by="ts", table_type="mor")
    table = hudi_py.open_table(path, OFF)
    done = subprocess.run([sys.executable, "-c", KILLED, path], cwd=ROOT, stdin=subprocess.DEVNULL)
    assert done.returncode == -9
    assert [holder.provider for holder in table.locks.holders()] == ["FileSystemBasedLockProvider"]
    assert found(table) == {f"k{key}": 1 for key in range(6)}
    table.upsert(rows(range(2), 3))
    assert found(table) == {f"k{key}": 3 if key < 2 else 1 for key in range(6)}
    assert table.locks.holders() == []
    assert table.metadata.verify().ok


LOCK = {
    config.LOCK_PROVIDER.key: config.FILE_SYSTEM_LOCK,
    "hoodie.write.lock.wait_time_ms": "1000",
    "hoodie.write.lock.client.num_retries": "0",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "20",
    "hoodie.write.lock.filesystem.expire": "0",
}


@pytest.fixture
def arena(folder: str, tmp_path: Path, java_classes: tuple[list[str], str]) -> Iterator[Arena]:
    running = Arena(tmp_path, f"{folder.replace(' ', '_')}/t", LOCK, {}, java_classes[0])
    yield running
    running.close()


@pytest.mark.oracle
def test_processes_exclude_each_other(arena: Arena) -> None:
    arena.options["hoodie.write.lock.wait_time_ms"] = "60000"
    contenders = [arena.java(20, 2) for _ in range(2)] + [arena.ours(20, 2) for _ in range(2)]
    assert [contender.wait() for contender in contenders] == ["done 20 overlaps 0"] * 4
    arena.ours(1, 1, "kill").wait()
    assert arena.ours(1, 1).wait() == "done 1 overlaps 0"


@pytest.mark.oracle
def test_apache_hudi_and_we_wait_for_each_other(arena: Arena) -> None:
    with table_lock(arena.storage, arena.settings, purpose="test") as lock:
        java = arena.java(1, 4000)
        java.until("ready")
        time.sleep(3)
        lock.check()
        assert "in" not in java.lines
    java.until("in")
    with pytest.raises(LockError, match="is held by a process that left no identity"):
        table_lock(arena.storage, arena.settings, purpose="test").__enter__()
    (holder,) = lock_holders(arena.storage, LOCK)
    assert (holder.provider, holder.place) == ("FileSystemBasedLockProvider", f"{arena.uri}/.hoodie/lock")
    assert java.wait() == "done 1 overlaps 0"
    with table_lock(arena.storage, arena.settings, purpose="test") as lock:
        lock.check()


@pytest.mark.oracle
@pytest.mark.parametrize(("kind", "version"), [("mor", 9), ("cow", 6)])
def test_by_turns_with_apache_hudi(folder: str, kind: str, version: int) -> None:
    if environment.locate() is None:
        pytest.skip("the oracle is not set up: tests/oracle/setup.sh")
    oracle = Oracle(environment.default_version())
    try:
        by_turns(oracle, f"{folder}/t", kind, version)
    finally:
        oracle.close()


@pytest.mark.spark
def test_through_spark(folder: str, hdfs: str) -> None:
    """Classic; each Python worker connects for itself."""
    from pyspark.sql import SparkSession

    from pyspark_hudi import run_service

    path = f"{folder}/t"
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "storage.dfs.client.use.datanode.hostname": "false",
    }
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    builder: Any = SparkSession.builder
    spark = builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        write(spark, path, options, range(12), 1)
        write(spark, path, options, range(8, 16), 2)
        expected = {f"k{key}": 1 if key < 8 else 2 for key in range(16)}
        read = spark.read.format("hudi-py").load(path)
        assert {row["id"]: row["ts"] for row in read.collect()} == expected
        assert read.where("city = 'a' and ts = 2").count() == 4
        assert run_service(spark, path, "compaction") is not None
        stream = spark.readStream.format("hudi-py").load(path).writeStream.format("memory").queryName("seen")
        stream.trigger(availableNow=True).start().awaitTermination()
        assert {row["id"]: row["ts"] for row in spark.table("seen").collect()} == expected
    finally:
        spark.stop()
    assert found(hudi_py.open_table(path)) == expected


def test_a_forked_process_is_told(folder: str) -> None:
    open_storage(folder).put("f", b"1")
    script = "import sys, os\nfrom hudi_py.storage import open_storage\nstorage = open_storage(sys.argv[1])\n"
    script += "storage.read('f')\nif os.fork() == 0:\n    try:\n        storage.read('f')\n"
    script += (
        "    except Exception as error:\n        print(type(error).__name__, error, flush=True)\n    os._exit(0)\n"
    )
    script += "os.wait()\n"
    done = subprocess.run([sys.executable, "-c", script, folder], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{ConfigError.__name__} Cannot use {folder}")
    assert "was forked from one that had used HDFS" in done.stdout


def test_signals_are_still_pythons(folder: str) -> None:
    script = (
        "import os, signal, sys, time\nfrom hudi_py.storage import open_storage\nopen_storage(sys.argv[1]).list()\n"
    )
    script += "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\n"
    script += "except KeyboardInterrupt:\n    print('caught')\n"
    done = subprocess.run([sys.executable, "-c", script, folder], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "caught\n"
