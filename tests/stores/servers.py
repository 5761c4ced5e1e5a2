"""Servers that tests start on this machine: S3 and DynamoDB (moto), S3 with real locking (versitygw), ZooKeeper."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tools import java

KEY: Final = "AKIAEXAMPLEOFATEST"
SECRET: Final = "hushhush-secret-of-a-test"
REGION: Final = "us-east-1"
PATIENCE_S: Final = 60


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


@contextlib.contextmanager
def zookeeper() -> Iterator[str]:
    """ZooKeeper, from the jars of PySpark; `host:port`."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    jars = Path(found.origin).parent / "jars" / "*"
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [java_binary(), "-Xmx64m", "-Dzookeeper.admin.enableServer=false"]
        with _running([*command, "-cp", str(jars), main, str(port), folder], port):
            yield f"127.0.0.1:{port}"


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
