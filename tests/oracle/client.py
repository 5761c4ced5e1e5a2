"""A client of `oracle.py serve`: asks Apache Hudi, in one JVM for a whole test session."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.oracle import environment
from tools import java


class OracleError(RuntimeError):
    """Apache Hudi refused a request, or did not answer it in time; the message is its first line, then its trace."""


class Oracle:
    """Apache Hudi of one release, on Spark in local mode.

    The JVM starts with the first request. A request that takes longer than `timeout` seconds kills it and raises
    `OracleError`; the next request starts another one.
    """

    def __init__(
        self,
        version: str = environment.NEWEST,
        *,
        timezone: str = "UTC",
        timeout: float = 600,
        class_path: str | None = None,
    ) -> None:
        """`class_path`: jars that come before Spark's own."""
        self.version = version
        self.class_path = class_path
        self.timezone = timezone
        self.timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._log: deque[str] = deque(maxlen=60)
        self._scratch = tempfile.TemporaryDirectory(prefix="hudi-py-oracle-")
        self._files = 0
        self._requests = 0
        atexit.register(self.close)

    # ---- requests

    def read(
        self,
        path: str | os.PathLike[str],
        *,
        as_of: str | None = None,
        query_type: str = "snapshot",
        begin: str | None = None,
        end: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        options: Mapping[str, str] | None = None,
        drop_meta: bool = False,
    ) -> pa.Table:
        """The rows of a query as Apache Hudi answers it, sorted by partition path, record key and commit time.

        `begin` (exclusive) makes it incremental; `where` is a Spark SQL condition. Timestamps are instants in UTC.
        """
        out = self._new_file()
        self.request(
            "read",
            path=os.fspath(path),
            as_of=as_of,
            query_type=query_type,
            begin=begin,
            end=end,
            columns=list(columns) if columns else None,
            where=where,
            options=dict(options or {}),
            drop_meta=drop_meta,
            out=out,
        )
        table = pq.read_table(out)
        os.unlink(out)
        return table

    def write(
        self,
        path: str | os.PathLike[str],
        table: pa.Table,
        operation: str = "upsert",
        *,
        key: str | None = None,
        ordering: str | None = None,
        partition: str | None = None,
        type: str | None = None,
        table_version: int | None = None,
        name: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Write rows; the newest three instants afterwards. What is left out comes from the existing table.

        `types`: the `hudi_type` of columns.

        `key`, `ordering` and `partition` are field names separated by commas; `type` is `cow` or `mor`. Timestamps in
        nanoseconds are written in microseconds: Spark has no finer ones.
        """
        source = self._new_file()
        pq.write_table(table, source, coerce_timestamps="us", allow_truncated_timestamps=True)
        answer = self.request(
            "write",
            path=os.fspath(path),
            input=source,
            operation=operation,
            key=key,
            ordering=ordering,
            partition=partition,
            type=type,
            table_version=table_version,
            name=name,
            mode=mode,
            options=dict(options or {}),
            types=dict(types or {}),
        )
        os.unlink(source)
        instants: list[dict[str, Any]] = answer["instants"]
        return instants

    def sql(
        self, text: str, path: str | os.PathLike[str] | None = None, options: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Run statements (`;` at a line's end separates them); the last one's rows. `{table}` is the one at `path`."""
        place = os.fspath(path) if path is not None else None
        rows: list[dict[str, Any]] = self.request("sql", text=text, path=place, options=dict(options or {}))["rows"]
        return rows

    def call(
        self,
        path: str | os.PathLike[str],
        procedure: str,
        options: Mapping[str, str] | None = None,
        *,
        ordered: bool = False,
    ) -> list[dict[str, Any]]:
        """Run a procedure, for example `run_compaction(op => 'scheduleAndExecute', table => '{table}')`; its rows,
        sorted unless `ordered` keeps them as they come."""
        given = {"procedure": procedure, "options": dict(options or {}), "ordered": ordered}
        answer = self.request("call", path=os.fspath(path), **given)
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def check(
        self, path: str | os.PathLike[str], *, keys: int = 1, deep: bool = False, by_key: bool = True
    ) -> dict[str, Any]:
        """Apache Hudi opens the table in several ways that must agree; `problems` is empty when they do.

        Args:
            keys: rows of the first file and the last that are looked for by their values, with and without skipping.
            deep: whether the ranges of every column and the whole record index are compared with the rows too.
            by_key: whether filters name the key. Over partial updates Apache Hudi 1.2.0 crashes by such filters.
        """
        return self.request("check", path=os.fspath(path), keys=keys, deep=deep, by_key=by_key)

    def timeline(self, path: str | os.PathLike[str]) -> list[dict[str, Any]]:
        """The instants, archived ones included, oldest first: requested, completed, action, state, archived."""
        instants: list[dict[str, Any]] = self.request("timeline", path=os.fspath(path))["instants"]
        return instants

    def stream(
        self,
        path: str | os.PathLike[str],
        source: str | os.PathLike[str],
        schema: str,
        checkpoint: str | os.PathLike[str],
        options: Mapping[str, str],
    ) -> None:
        """Stream a folder of JSON lines into a table, a file a batch, until none is left; `schema` is Spark's DDL."""
        places = {name: os.fspath(place) for name, place in (("path", path), ("source", source))}
        self.request("stream", **places, schema=schema, checkpoint=os.fspath(checkpoint), options=dict(options))

    def request(self, op: str, *, timeout: float | None = None, **arguments: Any) -> dict[str, Any]:
        """One request of `oracle.py`, arguments that are None left out; its answer."""
        process = self._process if self._process and self._process.poll() is None else self._start()
        assert process.stdin is not None
        self._requests += 1
        given = {name: value for name, value in arguments.items() if value is not None}
        text = json.dumps({"id": self._requests, "op": op, **given})
        try:
            process.stdin.write(text + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=timeout or self.timeout)
        except queue.Empty:
            self._kill()
            raise OracleError(
                f"Apache Hudi {self.version} did not answer within {timeout or self.timeout:g} s: {text[:400]}"
            ) from None
        except BrokenPipeError:
            line = None
        if line is None:
            self._kill()
            raise OracleError(f"the oracle ended during {text[:400]}:\n" + "".join(self._log))
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise OracleError(f"{answer['error']}\nin {text[:400]}\n{answer['trace']}")
        return answer

    # ---- the process

    def close(self) -> None:
        """Stop the JVM; a request after this starts another one."""
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                assert process.stdin is not None
                process.stdin.close()  # the end of its input is the sign to stop
                process.wait(60)
        self._kill()
        self._scratch.cleanup()

    def _start(self) -> subprocess.Popen[str]:
        home = java.find(environment.OLDEST_JAVA, environment.NEWEST_JAVA)
        if home is None:
            raise OracleError(f"no Java {environment.OLDEST_JAVA} to {environment.NEWEST_JAVA} for Apache Hudi")
        os.makedirs(self._scratch.name, exist_ok=True)
        python = environment.python()
        settings = {
            "JAVA_HOME": home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python),
            "HUDI_ORACLE_VERSION": self.version,
            "HUDI_ORACLE_TIMEZONE": self.timezone,
            "TMPDIR": self._scratch.name,
        }
        if self.class_path:
            more = (os.environ.get("HUDI_ORACLE_CONF"), f"spark.driver.extraClassPath={self.class_path}")
            settings["HUDI_ORACLE_CONF"] = ";".join(filter(None, more))
        # What was set for this project's own, newer Spark must not reach this one.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        process = subprocess.Popen(
            [str(python), str(environment.HERE / "oracle.py"), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=self._scratch.name,
            env=kept | settings,
            start_new_session=True,  # the JVM is its child: both are ended together
        )
        self._answers = queue.SimpleQueue()
        self._log.clear()
        assert process.stdout is not None
        assert process.stderr is not None
        threading.Thread(target=self._pump, args=(process.stdout, self._answers), daemon=True).start()
        threading.Thread(target=self._keep, args=(process.stderr,), daemon=True).start()
        self._process = process
        return process

    @staticmethod
    def _pump(stream: IO[str], answers: queue.SimpleQueue[str | None]) -> None:
        with stream:
            for line in stream:
                answers.put(line)
        answers.put(None)

    def _keep(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._log.append(line)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _new_file(self) -> str:
        os.makedirs(self._scratch.name, exist_ok=True)
        self._files += 1
        return os.path.join(self._scratch.name, f"rows-{self._files}.parquet")
