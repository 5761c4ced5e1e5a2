"""Operations on an object store that answers each request after 20 ms: how many requests, and how long?

    python -m benchmarks stores --partitions 20 --out figures.json
    python -m benchmarks stores --apache-hudi

A merge-on-read table with a metadata table, in a server of S3 (moto) behind a proxy that counts and delays. With the
oracle (`tests/oracle/setup.sh`) and mvn, which fetches Hadoop's s3a, Apache Hudi does the same beside it, on a table of
its own. The first round of each is not counted, nor is the time to start. `--kinds` shows what was asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import hudi_py
from tests.oracle.client import Oracle
from tests.stores import servers
from tests.stores.proxy import Proxy, Spoilt, between

Figures = dict[str, list[tuple[int, float]]]
OFF = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.compression.codec": "snappy",
}
RETAINED = {"hoodie.clean.commits.retained": "1"}
DUE = "hoodie.compact.inline.max.delta.commits"
HUDI = "Apache Hudi"


def rows(partitions: range, each: int, ts: int) -> pa.Table:
    """Returns `each` rows of each partition."""
    numbers = range(partitions.start * each, partitions.stop * each)
    return pa.table(
        {
            "id": [f"k{number:08}" for number in numbers],
            "part": [f"p{number // each:03}" for number in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "value": [f"{number}-{ts}" for number in numbers],
        }
    )


class Measured:
    """Measures requests and seconds of calls through a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.figures: Figures = {}
        self.kinds: dict[str, Counter[str]] = {}
        """Requests of each operation's last run, by verb and purpose."""
        self.counts = False

    def __call__(self, name: str, work: Callable[[], object]) -> None:
        self._proxy.requests.clear()
        begun = time.perf_counter()
        work()
        if self.counts:
            self.figures.setdefault(name, []).append((len(self._proxy.requests), time.perf_counter() - begun))
            self.kinds[name] = Counter(f"{each.verb} {kind_of(each.key)}" for each in self._proxy.requests)


def kind_of(key: str) -> str:
    """Returns the purpose of a request, from the key of its object."""
    if "/.hoodie" not in f"/{key}":
        return "data file" if "." in key.rpartition("/")[2] else "folder of data files"
    within = f"/{key}".rpartition("/.hoodie")[2].strip("/").split("/")
    place = "metadata table" if "/.hoodie/metadata" in f"/{key}" else "table"
    if place == "metadata table" and f"/{key}".count("/.hoodie") == 1:
        return "metadata table: file"
    return f"{place}: {within[0] if len(within) > 1 or '.' in within[0] else within[0] or '.hoodie'}"


def ours(measured: Measured, uri: str, options: Mapping[str, str], given: argparse.Namespace) -> None:
    more: dict[str, Any] = {"record_key": "id", "partition_by": "part", "ordering_by": "ts", "table_type": "mor"}
    first = rows(range(given.partitions), given.rows, 0)
    hudi_py.write(uri, first, "insert", OFF, **more, storage_options=dict(options))
    table = hudi_py.open_table(uri, OFF, storage_options=dict(options))

    def one_round(some: pa.Table, every: pa.Table) -> None:
        measured("open", lambda: hudi_py.open_table(uri, OFF, storage_options=dict(options)).schema)
        measured("count", lambda: table.scan().count())
        measured("snapshot", lambda: table.scan().to_table())
        measured("upsert, 1 partition", lambda: table.upsert(some))
        measured("upsert, all partitions", lambda: table.upsert(every))
        measured("compaction", lambda: all_compacted(table.compact().num_file_groups, given))
        measured("clean", lambda: all_cleaned(table.clean(options=RETAINED).num_files, given))

    rounds(measured, given, one_round)


def theirs(measured: Measured, uri: str, oracle: Oracle, given: argparse.Namespace) -> None:
    more: dict[str, Any] = {"key": "id", "partition": "part", "ordering": "ts", "type": "mor", "name": "t"}
    first = rows(range(given.partitions), given.rows, 0)
    oracle.write(uri, first, "insert", **more, table_version=9, options=OFF, mode="overwrite")
    given_options = ",".join(f"{key}={value}" for key, value in {**OFF, DUE: "1"}.items())
    call = f"call run_compaction(op => 'scheduleAndExecute', path => '{uri}', options => '{given_options}')"
    more["mode"] = "append"  # the oracle cannot look for a table at a path of Hadoop's
    oracle.sql(f"CREATE TABLE theirs USING hudi LOCATION '{uri}'")
    clean = "CALL run_clean(table => 'theirs', retain_commits => 1)"
    view = f"CREATE OR REPLACE TEMPORARY VIEW counted USING hudi OPTIONS (path '{uri}')"

    def one_round(some: pa.Table, every: pa.Table) -> None:
        measured("open", lambda: oracle.request("read", path=uri, limit=0))
        measured("count", lambda: [oracle.sql(text) for text in (view, "SELECT count(*) FROM counted")])
        measured("snapshot", lambda: oracle.read(uri, drop_meta=True))
        measured("upsert, 1 partition", lambda: oracle.write(uri, some, **more, options=OFF))
        measured("upsert, all partitions", lambda: oracle.write(uri, every, **more, options=OFF))
        measured("compaction", lambda: all_compacted(sum(each["operation_size"] for each in oracle.sql(call)), given))
        measured("clean", lambda: all_cleaned(_deleted(oracle.sql(clean)), given))

    rounds(measured, given, one_round)


def _deleted(rows: Sequence[Mapping[str, Any]]) -> int:
    return sum(int(row["total_files_deleted"]) for row in rows)


def all_compacted(groups: int, given: argparse.Namespace) -> None:
    """Checks that both sides compact the same: a file group of each partition."""
    if groups != given.partitions:
        raise RuntimeError(f"a compaction rewrote {groups} of {given.partitions} file groups")


def all_cleaned(files: int, given: argparse.Namespace) -> None:
    """Checks that both sides clean: at least one file of each partition, from the second compaction on."""
    if given.cleans and files < given.partitions:
        raise RuntimeError(f"a clean deleted {files} files of {given.partitions} partitions")


def rounds(measured: Measured, given: argparse.Namespace, work: Callable[[pa.Table, pa.Table], None]) -> None:
    """Calls `work` with rows of one partition and of all, first without counting."""
    for turn in range(given.rounds + 1):
        measured.counts = given.cleans = turn > 0
        work(rows(range(1), 10, 2 * turn + 1), rows(range(given.partitions), given.rows, 2 * turn + 2))


def middle(figures: Figures) -> dict[str, tuple[int, float]]:
    """Returns medians of requests and seconds."""
    return {
        name: (int(statistics.median(count for count, _ in each)), statistics.median(seconds for _, seconds in each))
        for name, each in figures.items()
    }


def table_of(found: Mapping[str, Mapping[str, tuple[int, float]]]) -> str:
    """Formats figures, with ratios if both did an operation."""
    lines = [f"{'operation':24}" + "".join(f"{name + ': requests, s':>28}" for name in found)]
    for operation, (count, seconds) in found["hudi-py"].items():
        line = f"{operation:24}" + f"{count:20} {seconds:7.2f}"
        if HUDI in found:
            others, longer = found[HUDI][operation]
            line += f"{others:20} {longer:7.2f}   x{others / max(count, 1):.1f} requests, x{longer / seconds:.1f} time"
        lines.append(line)
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks stores", description=__doc__)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--rows", type=int, default=500, help="of each partition")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--apache-hudi", action="store_true", help="measure Apache Hudi too")
    parser.add_argument("--kinds", action="store_true", help="show requests by what they are for")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    with servers.moto() as server, between(server.url) as proxy:
        proxy.reset(lambda number, request: Spoilt(delay_s=given.delay, ends=False))
        server.make_bucket("lake")
        measured = Measured(proxy)
        ours(measured, "s3://lake/ours", servers.options_for(proxy.url), given)
        found["hudi-py"] = middle(measured.figures)
        kinds = {"hudi-py": measured.kinds}
        if given.apache_hudi:
            jars = servers.s3a_jars()
            if isinstance(jars, str):
                parser.error(jars)
            os.environ["HUDI_ORACLE_CONF"] = servers.s3a_configuration(proxy.url, jars)
            oracle = Oracle()
            try:
                measured = Measured(proxy)
                theirs(measured, "s3a://lake/theirs", oracle, given)
            finally:
                oracle.close()
            found[HUDI] = middle(measured.figures)
            kinds[HUDI] = measured.kinds
    print(table_of(found))
    for name, operations in kinds.items() if given.kinds else ():
        for operation, counts in operations.items():
            print(f"\n{name}, {operation}: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
