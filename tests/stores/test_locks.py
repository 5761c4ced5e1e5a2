"""One lock, several processes, some of them with Apache Hudi's own lock provider."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.config import concurrency as config
from hudi_py.errors import LockError
from hudi_py.storage import Storage, open_storage
from hudi_py.transaction.locks import break_lock, lock_holders, table_lock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.zookeeper import ZookeeperLock, path_hash
from tests.oracle import environment
from tests.stores import servers
from tests.stores.servers import Server

ROOT = Path(__file__).parents[2]
JAVA = Path(__file__).parent / "java"
PATIENCE_S = 300
AWS = {
    "AWS_ACCESS_KEY_ID": servers.KEY,
    "AWS_SECRET_ACCESS_KEY": servers.SECRET,
    "AWS_REGION": servers.REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
SHORT_LEASE = {
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}


@dataclass
class Contender:
    """A process in critical sections; its lines of output."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.lines.extend(line.strip() for line in lines)

    def until(self, line: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while line not in self.lines:
            assert self.process.poll() is None or line in self.lines, self.lines
            assert time.monotonic() < end, self.lines
            time.sleep(0.01)

    def wait(self) -> str:
        """The last line."""
        self.process.wait(PATIENCE_S)
        self._reader.join(10)
        return self.lines[-1]


class Arena:
    """A lock that processes fight over."""

    def __init__(
        self,
        folder: Path,
        uri: str,
        options: Mapping[str, str],
        storage_options: Mapping[str, str],
        java: list[str],
        of_java: Mapping[str, str] | None = None,
    ) -> None:
        self.witness = folder / "witness"
        self.uri = uri
        self.options = dict(options)
        self.storage_options = dict(storage_options)
        self._java = java
        self._of_java = {**options, **(of_java or {})}
        self._running: list[Contender] = []

    @property
    def storage(self) -> Storage:
        return open_storage(self.uri, self.storage_options or None)

    @property
    def settings(self) -> LockSettings:
        return LockSettings.of(Options.resolve(self.options, defaults={}))

    def ours(self, number: int, pause_ms: int, end: str = "release") -> Contender:
        command = [sys.executable, "-m", "tests.stores.contender", str(number), str(pause_ms), str(self.witness), end]
        return self._start([*command, self.uri, json.dumps(self.options), json.dumps(self.storage_options)])

    def java(self, number: int, pause_ms: int, end: str = "release") -> Contender:
        provider = self._of_java[config.LOCK_PROVIDER.key]
        more = [f"{key}={value}" for key, value in self._of_java.items()]
        more.append(f"hoodie.base.path={self.uri.removeprefix('file://')}")
        more.append("hoodie.table.name=t")
        return self._start(
            [*self._java, "Contender", provider, str(number), str(pause_ms), str(self.witness), end, *more]
        )

    def _start(self, command: list[str]) -> Contender:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        found = Contender(process)
        self._running.append(found)
        return found

    def close(self) -> None:
        for contender in self._running:
            contender.process.kill()
            contender.process.wait(20)


def compiled(folder: Path, version: str, sources: list[str], more: str = "") -> list[str]:
    """How to start Java with the classes of a release of Apache Hudi and these of the folder `java`."""
    found = environment.locate(version)
    if found is None:
        pytest.skip(f"the oracle is not set up: tests/oracle/setup.sh {version}")
    interpreter, bundle = found
    script = "import pyspark, os; print(os.path.dirname(pyspark.__file__))"
    spark = subprocess.run([interpreter, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    jars = f"{bundle}:{spark}/jars/*{more}"
    compiler = servers.java_binary("javac")
    if not Path(compiler).exists():
        pytest.skip(f"no Java compiler at {compiler}")
    named = [str(JAVA / f"{source}.java") for source in sources]
    subprocess.run([compiler, "-nowarn", "-cp", jars, "-d", str(folder), *named], check=True)
    return [servers.java_binary(), "-Xmx128m", "-cp", f"{folder}:{jars}"]


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """How to start Java with Apache Hudi's classes and those of the folder `java`, and where the latter are."""
    folder = tmp_path_factory.mktemp("classes")
    return compiled(folder, environment.default_version(), ["Contender", "S3StorageLockClient"]), str(folder)


@pytest.fixture(scope="session")
def java_on_aws(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The same with those for AWS, which are of another release."""
    jars = servers.aws_jars()
    if isinstance(jars, str):
        pytest.skip(jars)
    return compiled(tmp_path_factory.mktemp("classes"), environment.OLDEST, ["Contender"], f":{jars}/*")


@pytest.fixture
def arena(
    request: pytest.FixtureRequest, tmp_path: Path, java_classes: tuple[list[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Arena]:
    """The lock of the provider that the indirect parameter names."""
    name, _, server_name = request.param.partition(" on ")
    java = java_classes[0]
    options, credentials, uri = {"hoodie.write.lock.provider": getattr(config, name)}, {}, f"file://{tmp_path}/t"
    of_java = {}
    if name.startswith("DYNAMODB"):
        java = request.getfixturevalue("java_on_aws")
        for variable, value in AWS.items():
            monkeypatch.setenv(variable, value)
        options |= {
            "hoodie.write.lock.dynamodb.endpoint_url": request.getfixturevalue("dynamodb").url,
            "hoodie.write.lock.dynamodb.table": f"locks-{time.time_ns()}",
            "hoodie.write.lock.dynamodb.region": servers.REGION,
            "hoodie.write.lock.wait_time_ms": "3000",
        }
        if name == "DYNAMODB_LOCK":
            options["hoodie.write.lock.dynamodb.partition_key"] = "t"
        else:
            # The release of its provider has none that takes the key from the path; the hash is ZooKeeper's, too
            of_java = {
                "hoodie.write.lock.provider": config.DYNAMODB_LOCK,
                "hoodie.write.lock.dynamodb.partition_key": path_hash(uri),
            }
    elif name == "STORAGE_LOCK":
        if server_name:
            server = request.getfixturevalue(server_name)
            bucket = f"locks-{time.time_ns()}"
            server.make_bucket(bucket)
            server.open_to_all(bucket)  # Java's requests are not signed
            url = server.url
        else:
            url, bucket = request.getfixturevalue("strict_store").url, "bucket"
        uri = f"s3://{bucket}/t"
        options |= SHORT_LEASE
        credentials = servers.options_for(url)
        java = [java[0], f"-Ds3.endpoint={url}", *java[1:]]
    elif name == "FILE_SYSTEM_LOCK":
        (tmp_path / "t" / ".hoodie").mkdir(parents=True)
        options["hoodie.write.lock.client.wait_time_ms_between_retry"] = "20"
        options["hoodie.write.lock.filesystem.expire"] = "0"
    else:
        hosts = request.getfixturevalue("zookeeper")
        options |= {"hoodie.write.lock.zookeeper.url": hosts, "hoodie.write.lock.zookeeper.session_timeout_ms": "4000"}
        if name == "ZOOKEEPER_LOCK":
            options["hoodie.write.lock.zookeeper.base_path"] = f"/locks/{tmp_path.name}"
            options["hoodie.write.lock.zookeeper.lock_key"] = "t"
    running = Arena(tmp_path, uri, options, credentials, java, of_java)
    try:
        yield running
    finally:
        running.close()


WITH_JAVA = pytest.mark.parametrize(
    "arena",
    [
        "FILE_SYSTEM_LOCK",
        "STORAGE_LOCK",
        "STORAGE_LOCK on versitygw",
        "ZOOKEEPER_LOCK",
        "ZOOKEEPER_IMPLICIT_LOCK",
        pytest.param("DYNAMODB_LOCK", marks=pytest.mark.long),  # whose waiting clients look once a second
        pytest.param("DYNAMODB_IMPLICIT_LOCK", marks=pytest.mark.long),
    ],
    indirect=True,
)
TAKEN_OVER = pytest.mark.parametrize(
    "arena", ["STORAGE_LOCK", "ZOOKEEPER_LOCK", pytest.param("DYNAMODB_LOCK", marks=pytest.mark.long)], indirect=True
)


def fight(arena: Arena, number: int) -> None:
    # On a local file system Apache Hudi's file lock does not exclude another of its own: it creates over what is there
    javas = 1 if arena.options[config.LOCK_PROVIDER.key] == config.FILE_SYSTEM_LOCK else 2
    # Of two processes of Apache Hudi that create a table in DynamoDB, one fails
    arena.ours(1, 1).wait()
    contenders = [arena.java(number, 2) for _ in range(javas)] + [arena.ours(number, 2) for _ in range(2)]
    assert [contender.wait() for contender in contenders] == [f"done {number} overlaps 0"] * len(contenders)


@pytest.mark.oracle
@WITH_JAVA
def test_apache_hudi_and_we_exclude_each_other(arena: Arena) -> None:
    fight(arena, 10)


@pytest.mark.oracle
@pytest.mark.long
@WITH_JAVA
def test_apache_hudi_and_we_exclude_each_other_for_long(arena: Arena) -> None:
    fight(arena, 50)


@pytest.mark.oracle
@TAKEN_OVER
def test_the_lock_of_a_process_of_apache_hudi_that_died_is_taken_over(arena: Arena) -> None:
    java = arena.java(1, 100, "halt")
    java.until("in")
    held = lock_holders(arena.storage, arena.options)[0] if java.process.poll() is None else None
    java.wait()
    started = time.monotonic()
    with table_lock(arena.storage, arena.settings, purpose="test") as lock:
        assert time.monotonic() - started < 25
        lock.check()
        (holder,) = lock_holders(arena.storage, arena.options)
        assert held is None or holder.owner != held.owner


@pytest.mark.oracle
@TAKEN_OVER
def test_apache_hudi_takes_over_the_lock_of_a_process_of_ours_that_died(arena: Arena) -> None:
    ours = arena.ours(1, 1, "kill")
    ours.wait()
    assert ours.lines[-1] == "halts"
    assert arena.java(1, 1).wait() == "done 1 overlaps 0"


def test_a_session_that_ends_loses_the_lock(zookeeper: str, tmp_path: Path) -> None:
    settings = LockSettings.of(
        Options.resolve(
            {
                "hoodie.write.lock.provider": "ZookeeperBasedLockProvider",
                "hoodie.write.lock.zookeeper.url": zookeeper,
                "hoodie.write.lock.zookeeper.base_path": "/sessions",
                "hoodie.write.lock.zookeeper.lock_key": "t",
            }
        )
    )
    storage = open_storage(str(tmp_path))
    with table_lock(storage, settings, purpose="commit") as lock:
        assert isinstance(lock, ZookeeperLock)
        lock.check()
        lock._on_state("SUSPENDED")
        with pytest.raises(LockError, match="was lost with the connection to ZooKeeper"):
            lock.check()
    with table_lock(storage, settings, purpose="commit") as lock:
        lock.check()


def test_no_zookeeper_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    options = {
        "hoodie.write.lock.provider": "ZookeeperBasedLockProvider",
        "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{servers.free_port()}",
        "hoodie.write.lock.zookeeper.base_path": "/b",
        "hoodie.write.lock.zookeeper.connection_timeout_ms": "500",
    }
    with pytest.raises(LockError, match=r"within 0.5 s; check hoodie.write.lock.zookeeper.url"):
        hudi_py.write(str(tmp_path / "t"), pa.table({"id": ["a"]}), options=options, record_key="id")


@pytest.fixture
def services(zookeeper: str, moto: Server) -> dict[str, dict[str, str]]:
    """Options for locks that services keep."""
    return {
        "zookeeper": {
            "hoodie.write.lock.provider": "ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": zookeeper,
            "hoodie.write.lock.zookeeper.base_path": f"/hudi/{time.time_ns()}",
            "hoodie.write.lock.wait_time_ms": "1000",
        },
        "dynamodb": {
            "hoodie.write.lock.provider": "DynamoDBBasedLockProvider",
            "hoodie.write.lock.dynamodb.endpoint_url": moto.url,
            "hoodie.write.lock.dynamodb.table": f"locks{time.time_ns()}",
            "hoodie.write.lock.wait_time_ms": "3000",
        },
    }


@pytest.mark.parametrize("service", ["zookeeper", "dynamodb"])
def test_a_table_is_written_under_the_lock_of_a_service(
    services: dict[str, dict[str, str]], moto: Server, bucket: str, service: str
) -> None:
    path, options = f"{bucket}/t", services[service]
    more = {"storage_options": moto.options, "options": options}
    hudi_py.write(path, pa.table({"id": ["a"]}), record_key="id", **more)
    table = hudi_py.open_table(path, options, storage_options=moto.options)
    assert table.locks.holders() == []
    settings = LockSettings.of(Options.resolve(options, defaults={}))
    storage = open_storage(path, moto.options)
    with table_lock(storage, settings, purpose="test", storage_options=moto.options) as lock:
        (holder,) = table.locks.holders()
        assert holder.place.endswith(f"/{table.properties['hoodie.table.name']}")
        assert "process" in holder.process
        brief = LockSettings.of(Options.resolve({**options, "hoodie.write.lock.client.num_retries": "0"}, defaults={}))
        lock.check()
        with pytest.raises(LockError, match=f"Cannot write: the table lock {service}://.* is held by .*writer"):
            table_lock(storage, brief, purpose="write", storage_options=moto.options).__enter__()
        lock.check()  # it was renewed meanwhile
        with pytest.raises(LockError, match="not somebody"):
            break_lock(storage, "somebody", options, moto.options)
        table.locks.release(holder.owner)
        with pytest.raises(LockError):
            lock.check()
        table.upsert(pa.table({"id": ["b"]}))
    assert table.scan().to_table().num_rows == 2
    assert table.locks.holders() == []


def test_the_item_in_dynamodb_is_that_of_amazons_client(
    services: dict[str, dict[str, str]], moto: Server, tmp_path: Path
) -> None:
    options = {**services["dynamodb"], "hoodie.write.lock.dynamodb.partition_key": "k"}
    settings = LockSettings.of(Options.resolve(options, defaults={}))
    storage = open_storage(str(tmp_path))
    client, name = moto.client("dynamodb"), options["hoodie.write.lock.dynamodb.table"]

    def item() -> dict[str, str] | None:
        found = client.get_item(TableName=name, Key={"key": {"S": "k"}}).get("Item")
        return None if found is None else {field: value["S"] for field, value in found.items()}

    with table_lock(storage, settings, purpose="test", storage_options=moto.options):
        first = item()
        assert first is not None
        assert first.keys() == {"key", "ownerName", "leaseDuration", "recordVersionNumber"}
        assert first["leaseDuration"] == "3000"
        end = time.monotonic() + PATIENCE_S
        while (second := item()) == first:
            assert time.monotonic() < end, "it is not renewed"
            time.sleep(0.1)
        assert second is not None
        assert second["recordVersionNumber"] != first["recordVersionNumber"]
        assert second["ownerName"] == first["ownerName"]
    assert item() is None
    schema = client.describe_table(TableName=name)["Table"]
    assert schema["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]

    # One that is dead is taken over when nothing has changed for its lease; one marked as released at once
    client.put_item(TableName=name, Item={field: {"S": value} for field, value in first.items()})
    started = time.monotonic()
    with table_lock(storage, settings, purpose="test", storage_options=moto.options):
        assert time.monotonic() - started > 3
    released = {**first, "isReleased": "1", "leaseDuration": "600000"}
    client.put_item(TableName=name, Item={field: {"S": value} for field, value in released.items()})
    started = time.monotonic()
    with table_lock(storage, settings, purpose="test", storage_options=moto.options) as lock:
        assert time.monotonic() - started < 300
        lock.check()
    client.close()
