"""A real HDFS on this machine: Hadoop's cluster in one process, and libhdfs for PyArrow."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.stores.servers import free_port, java_binary

HERE = Path(__file__).parent
CLASSES = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "commons-logging", "commons-lang3")
"""What Hadoop's client needs of PySpark's jars."""


def set_up() -> tuple[dict[str, str], str]:
    """Variables with which PyArrow finds libhdfs, Java and Hadoop's classes, and the class path of a cluster."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    of_spark = Path(found.origin).parent / "jars"
    jars = sorted(of_spark.glob("*.jar"))
    chosen = [jar for jar in jars if jar.name.startswith(CLASSES)]
    version = next(match[1] for jar in jars if (match := re.match(r"hadoop-client-api-(.*)\.jar", jar.name)))
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("HUDI_PY_HDFS_CACHE") or home / "hudi-py" / "hdfs")
    java = str(Path(java_binary()).parent.parent)
    subprocess.run([str(HERE / "setup.sh"), str(folder), version, java], stdin=subprocess.DEVNULL, check=True)
    variables = {"JAVA_HOME": java, "ARROW_LIBHDFS_DIR": str(folder), "CLASSPATH": ":".join(map(str, chosen))}
    return variables, f"{folder}/hadoop-client-minicluster-{version}.jar:{of_spark}/*"


@contextlib.contextmanager
def running(java: str, classes: str) -> Iterator[str]:
    """A cluster with one data node; `hdfs://host:port`."""
    port = free_port()
    with _started(java, classes, port):
        yield f"hdfs://127.0.0.1:{port}"


@contextlib.contextmanager
def pair(java: str, classes: str) -> Iterator[tuple[dict[str, str], Callable[[], None]]]:
    """A cluster with two name nodes, as the service `lake`: its storage options, and what ends the active one."""
    ports = free_port(), free_port()
    options = {
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "nn1,nn2",
        "dfs.namenode.rpc-address.lake.nn1": f"127.0.0.1:{ports[0]}",
        "dfs.namenode.rpc-address.lake.nn2": f"127.0.0.1:{ports[1]}",
        "dfs.client.failover.proxy.provider.lake": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
    }
    with _started(java, classes, *ports) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def change() -> None:
            process.stdin.write(b".")
            process.stdin.flush()
            assert process.stdout.readline() == b"changed\n"

        yield options, change


@contextlib.contextmanager
def _started(java: str, classes: str, *ports: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [f"{java}/bin/java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classes]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, str(HERE / "Cluster.java"), folder, *map(str, ports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"ready\n":
                log.seek(0)
                raise RuntimeError(f"HDFS does not start: {log.read()[-3000:]!r}")
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
            process.stdout.close()
