"""A standalone Spark cluster on this machine, in real processes, and a driver that runs the calls it is given.

`python -m tests.connector.cluster` is the driver: it takes calls as lines of JSON, and answers each with a line.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from pyspark_hudi import merge_into, run_service, update, write_table
from tests.connector.conftest import connect_port
from tests.support.spark import WARM, spark_home

HOST = "127.0.0.1"
PATIENCE_S = 300
TASKS = 5
_EXECUTOR = "CoarseGrainedExecutorBackend"
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """A master and two workers with a core each. A context manager: leaving it ends every process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = _free_port()
        self.url = f"spark://{HOST}:{self._port}"
        self.environment = {
            **os.environ,
            "SPARK_HOME": spark_home(folder / "home"),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join((str(WARM), *sys.path)),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_JVM,
        }
        self._started = 0
        self._master = self._start("master.Master", "--host", HOST, "--port", str(self._port), "--webui-port", "0")
        _wait(lambda: _listens(self._port), "the master does not listen")
        self._workers = [self._worker(), self._worker()]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._workers, self._master):
            _kill(process)

    def kill_worker(self, at: int) -> None:
        """Kills a worker with its executors; another one takes its place."""
        _kill(self._workers[at])
        self._workers[at] = self._worker()

    def executors(self) -> list[int]:
        """Process ids of the executors of the workers."""
        groups = {worker.pid for worker in self._workers}
        return [pid for pid, _, group, command in _processes() if group in groups and _EXECUTOR in command]

    def python_workers(self) -> list[int]:
        """Process ids of the Python processes in which tasks run."""
        running = _processes()
        executors = set(self.executors())
        daemons = {pid for pid, parent, _, _ in running if parent in executors}
        return [pid for pid, parent, _, _ in running if parent in daemons]

    def _worker(self) -> subprocess.Popen[bytes]:
        folder = str(self._folder / f"work-{self._started}")
        given = ("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", folder)
        return self._start("worker.Worker", *given, self.url)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        self._started += 1
        command = [f"{self.environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments]
        with (self._folder / f"log-{self._started}").open("wb") as log:
            return subprocess.Popen(
                command, env=self.environment, start_new_session=True, stdout=log, stderr=subprocess.STDOUT
            )


class Driver:
    """The driver of a cluster, in a process of its own. A context manager: leaving it ends the process."""

    def __init__(self, cluster: Cluster, folder: Path, *, connect: bool, settings: dict[str, str]) -> None:
        self._log = folder / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.connector.cluster"],
                env=cluster.environment,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.begin(master=cluster.url, connect=connect, settings=settings)
        self.answer()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        _kill(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def begin(self, **call: Any) -> None:
        """Sends a call; `answer` waits for what comes of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(call).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What the call has returned. Raises AssertionError if it failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text("utf-8", "replace")[-5000:]
        found: dict[str, Any] = json.loads(line)
        assert "error" not in found, found["error"]
        return found


def source(spark: SparkSession, begin: int, end: int, value: int) -> DataFrame:
    """Rows with the keys from `begin` to `end` and the value `value`, each key twice: the one that is older has another
    value. Every task takes a while."""
    rows = spark.range(2 * begin, 2 * end, 1, TASKS).selectExpr(
        "id DIV 2 AS id",
        "CAST(id DIV 2 % 3 AS STRING) AS p",
        f"{value}L - id % 2 AS ts",
        f"IF(id % 2 = 0, {value}L, -1L) AS v",
    )
    return rows.mapInArrow(_slowly, rows.schema)


def _slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    time.sleep(random.Random(context.partitionId() if context else 0).uniform(0.1, 0.5))
    yield from batches


def _run(spark: SparkSession, call: dict[str, Any]) -> dict[str, Any]:
    path, options = call["path"], call["options"]
    if call["what"] == "compaction":
        return run_service(spark, path, "compaction", options=options)
    if call["what"] == "update":
        return update(spark, path, {"v": f"v + {call['value']}"}, "p = '0'", options=options).to_dict()
    rows = source(spark, call["begin"], call["end"], call["value"])
    if call["what"] == "merge":
        merge = merge_into(spark, path, rows.where("v >= 0"), "t.id = s.id AND t.p = s.p", options=options)
        return merge.when_matched_update_all().when_not_matched_insert_all().execute().to_dict()
    return write_table(rows, path, options=options).to_dict()


def main() -> None:
    """The driver: a session first, then a call for each line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is no answer
    session = json.loads(sys.stdin.readline())
    builder: Any = SparkSession.builder.master(session["master"])
    for key, value in session["settings"].items():
        builder = builder.config(key, value)
    if session["connect"]:
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        DefaultChannelBuilder.default_port = staticmethod(connect_port)
        builder = builder.config("spark.api.mode", "connect").config("spark.connect.grpc.binding.port", "0")
    spark = builder.getOrCreate()
    assert spark.range(10).count() == 10
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = _run(spark, json.loads(line))
        except Exception:  # the test that called decides
            answer = {"error": traceback.format_exc()[-5000:]}
        print(json.dumps(answer), file=answers, flush=True)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and those it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _processes() -> list[tuple[int, int, int, str]]:
    """Id, parent, group and command of every process."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,pgid=,command="], capture_output=True, text=True, check=True)
    rows = (line.split(None, 3) for line in listed.stdout.splitlines())
    return [(int(row[0]), int(row[1]), int(row[2]), row[3] if len(row) > 3 else "") for row in rows]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        port: int = found.getsockname()[1]
    return port


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def _wait(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


if __name__ == "__main__":
    main()
