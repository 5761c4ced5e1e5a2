"""Servers that tests start on this machine: S3, STS and DynamoDB (moto), S3 with real locking (versitygw), Azure
(Azurite), Google Cloud Storage (a double of ours), ZooKeeper; and what of Apache Hudi talks to them."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.oracle import environment
from tests.support.object_store import serving
from tools import java

KEY: Final = "AKIAEXAMPLEOFATEST"
SECRET: Final = "hushhush-secret-of-a-test"
REGION: Final = "us-east-1"
PATIENCE_S: Final = 60
AZURITE: Final = "3.37.0"
ACCOUNT: Final = "devstoreaccount1"
ACCOUNT_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of Azurite's only account, as its documentation gives it."""


@dataclass(frozen=True)
class Server:
    """A server of S3, and of more where it is moto."""

    url: str
    name: str

    @property
    def options(self) -> dict[str, str]:
        """Storage options for it."""
        return options_for(self.url)

    def client(self, service: str) -> Any:
        """A client of boto3."""
        import boto3

        return boto3.client(
            service, endpoint_url=self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION
        )

    def make_bucket(self, name: str) -> str:
        """Makes a bucket; its URI."""
        client = self.client("s3")
        client.create_bucket(Bucket=name)
        client.close()
        return f"s3://{name}"

    def open_to_all(self, name: str) -> None:
        """Lets in whoever comes, without a signature."""
        allowed = {
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:ListBucket"],
            "Resource": [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"],
        }
        client = self.client("s3")
        client.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
        client.close()


@dataclass(frozen=True)
class Azurite(Server):
    """A server of Azure Blob Storage."""

    @property
    def options(self) -> dict[str, str]:
        endpoint = f"{self.url}/{ACCOUNT}"
        return {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": endpoint, "allow_http": "true"}

    def make_bucket(self, name: str) -> str:
        path, date, version = f"/{ACCOUNT}/{name}", email.utils.formatdate(usegmt=True), "2021-12-02"
        signed = "\n".join(["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{version}", f"/{ACCOUNT}{path}"])
        digest = hmac.new(base64.b64decode(ACCOUNT_KEY), f"{signed}\nrestype:container".encode(), hashlib.sha256)
        headers = {
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest.digest()).decode()}",
            "x-ms-date": date,
            "x-ms-version": version,
        }
        request = urllib.request.Request(f"{self.url}{path}?restype=container", method="PUT", headers=headers)
        urllib.request.urlopen(request).close()
        return f"az://{name}"


@dataclass(frozen=True)
class Google(Server):
    """A double of Google Cloud Storage. Its buckets are there already, and are all the same."""

    @property
    def options(self) -> dict[str, str]:
        account = {"gcs_base_url": self.url, "disable_oauth": True, "private_key": SECRET, "private_key_id": KEY}
        return {"service_account_key": json.dumps({**account, "client_email": "a@b"}), "allow_http": "true"}

    def make_bucket(self, name: str) -> str:
        return f"gs://{name}"


def through(server: Server, url: str) -> Server:
    """The server behind a proxy at an address."""
    return replace(server, url=url)


def options_for(url: str) -> dict[str, str]:
    """Storage options for a server at an address."""
    return {
        "endpoint": url,
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "region": REGION,
        "allow_http": "true",
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def moto() -> Iterator[Server]:
    """S3 and DynamoDB. Its conditional writes do not exclude one another: no races with it."""
    port = free_port()
    command = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, port, {"MOTO_S3_CUSTOM_ENDPOINTS": ""}):
        yield Server(f"http://127.0.0.1:{port}", "moto")


_ONE_AT_A_TIME: Final = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


@contextlib.contextmanager
def dynamodb() -> Iterator[Server]:
    """DynamoDB by moto, with one request after the other: its conditional writes exclude one another."""
    port = free_port()
    with _running([sys.executable, "-c", _ONE_AT_A_TIME, str(port)], port):
        yield Server(f"http://127.0.0.1:{port}", "dynamodb")


def versitygw_binary() -> str | None:
    """The program, where it has been installed: `go install github.com/versity/versitygw/cmd/versitygw@v1.8.0`."""
    named = os.environ.get("HUDI_PY_VERSITYGW")
    return named or shutil.which("versitygw", path=f"{os.environ.get('PATH', '')}:{Path.home() / 'go' / 'bin'}")


@contextlib.contextmanager
def versitygw() -> Iterator[Server]:
    """S3 on a folder, which must be on a file system with extended attributes. Its conditional writes exclude one
    another."""
    binary, port = versitygw_binary(), free_port()
    assert binary is not None
    with tempfile.TemporaryDirectory() as folder:
        # With --sidecar, a read may get the content of one version and the ETag of the next
        command = [binary, "--port", f"127.0.0.1:{port}", "posix", folder]
        with _running(command, port, {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}):
            yield Server(f"http://127.0.0.1:{port}", "versitygw")


def azurite_script() -> Path | str:
    """Azurite's program for Node.js, installed by npm where it is not yet there; else why there is none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "Azurite needs Node.js and npm"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hudi-py"
    folder = Path(os.environ.get("HUDI_PY_AZURITE") or home / f"azurite-{AZURITE}")
    script = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not script.exists():
        home.mkdir(parents=True, exist_ok=True)
        # A folder of its own, and a rename at the end: an installation that is cut off leaves nothing behind
        with tempfile.TemporaryDirectory(dir=home) as part:
            command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", f"azurite@{AZURITE}"]
            try:
                done = subprocess.run(
                    command, cwd=part, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
                )
            except subprocess.TimeoutExpired:
                return "npm did not install Azurite within 300 s"
            if done.returncode:
                return f"npm cannot install Azurite: {done.stderr.strip()[-300:]}"
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # another process may have come first
                (Path(part) / "node_modules").rename(folder / "node_modules")
    return script


def aws_jars() -> Path | str:
    """The folder of Apache Hudi's jar for AWS and what it needs; else why they are missing. The release is 0.15.0: that
    of 1.x is not to be had everywhere."""
    return _jars("hudi-aws-0.15.0", "aws.xml", "HUDI_PY_AWS_JARS")


def s3a_jars() -> Path | str:
    """The folder of the jars with which Hadoop's client, that of Spark 3.5, has S3; else why they are missing."""
    return _jars("hadoop-aws-3.3.4", "s3a.xml", "HUDI_PY_S3A_JARS")


def s3a_configuration(url: str, jars: Path) -> str:
    """Options of Spark for s3a, as the oracle takes them."""
    located = environment.locate()
    assert located is not None
    pairs = {
        "spark.jars": ",".join([located[1], *map(str, sorted(jars.glob("*.jar")))]),
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.access.key": KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        # Apache Hudi leaves streams open
        "spark.hadoop.fs.s3a.connection.maximum": "5000",
    }
    return ";".join(f"{key}={value}" for key, value in pairs.items())


def _jars(name: str, project: str, variable: str) -> Path | str:
    """A folder of jars, fetched by mvn where they are not yet there; else why they are missing."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hudi-py"
    folder = Path(os.environ.get(variable) or home / name)
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        return f"{name} needs mvn, which fetches it"
    home.mkdir(parents=True, exist_ok=True)
    # A folder of its own, and a rename at the end: a fetch that is cut off leaves nothing behind
    with tempfile.TemporaryDirectory(dir=home) as part:
        pom = str(Path(__file__).parent / "java" / project)
        command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={part}/jars"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return f"mvn did not fetch {name} within 300 s"
        if done.returncode:
            return f"mvn cannot fetch {name}: {done.stdout.strip()[-300:]}"
        with contextlib.suppress(OSError):  # another process may have come first
            (Path(part) / "jars").rename(folder)
    return folder


@contextlib.contextmanager
def azurite(script: Path) -> Iterator[Azurite]:
    """Azure Blob Storage in memory."""
    port = free_port()
    command = ["node", str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    with _running([*command, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], port):
        yield Azurite(f"http://127.0.0.1:{port}", "azurite")


@contextlib.contextmanager
def google() -> Iterator[Google]:
    """Google Cloud Storage in this process. Its conditional writes exclude one another."""
    with serving(google=True) as store:
        yield Google(store.url, "google")


def _spark_jars() -> str:
    """The class path of PySpark's jars."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "jars" / "*")


@contextlib.contextmanager
def zookeeper() -> Iterator[str]:
    """ZooKeeper, from the jars of PySpark; `host:port`."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [java_binary(), "-Xmx64m", "-Dzookeeper.admin.enableServer=false"]
        with _running([*command, "-cp", _spark_jars(), main, str(port), folder], port):
            yield f"127.0.0.1:{port}"


_METASTORE: Final = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
}
"""Settings of a Hive metastore with a database in memory."""


@contextlib.contextmanager
def hive_metastore() -> Iterator[str]:
    """Hive's metastore service, from the jars of PySpark; `thrift://host:port`."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = {**_METASTORE, "hive.metastore.warehouse.dir": f"{folder}/warehouse"}
        lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        (Path(folder) / "hive-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        command = [
            java_binary(),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            f"-Dderby.stream.error.file={folder}/derby.log",
        ]
        with _running([*command, "-cp", f"{folder}:{_spark_jars()}", main, "-p", str(port)], port):
            yield f"thrift://127.0.0.1:{port}"


def java_binary(program: str = "java") -> str:
    """A program of the Java that runs Spark."""
    home = subprocess.run([sys.executable, java.__file__, "--max", "21"], capture_output=True, text=True, check=True)
    return f"{home.stdout.strip()}/bin/{program}"


@contextlib.contextmanager
def _running(command: Sequence[str], port: int, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """A program that listens on a port of 127.0.0.1 until the block ends."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
        )
        try:
            end = time.monotonic() + PATIENCE_S
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    raise RuntimeError(f"{command[0]} does not listen: {log.read()[-2000:]!r}")
                time.sleep(0.05)
            yield
        finally:
            process.kill()
            process.wait(20)
