"""Each operation of a writer, and upserts by each index, by hudi-py after `enable` and by Apache Hudi, in one run.

    python -m benchmarks operations --scale 1 --out figures.json

Both write into copies of the same tables of TPC-H lineitem, which hudi-py made: 5 % of the rows again (upserts and
`MERGE`), 5 % of new ones (inserts), one of a hundred (deletes and `UPDATE`), and one of seven partitions. `--cpu`
reports CPU seconds, for machines that do other work. Compare ratios, never seconds between machines.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.tpch import Figures, SparkWorker, core_write, prepare, report, table_options
from tests.oracle.environment import locate

KINDS: Final = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
NEW_KEYS: Final = 1_000_000_000
"""Added to order keys of new rows."""


INDEXES: Final[dict[str, dict[str, str]]] = {
    "SIMPLE": {},
    "GLOBAL_SIMPLE": {},
    "BLOOM": {},
    "GLOBAL_BLOOM": {},
    "GLOBAL_RECORD_LEVEL_INDEX": {"hoodie.metadata.global.record.level.index.enable": "true"},
    "RECORD_LEVEL_INDEX": {"hoodie.metadata.record.level.index.enable": "true"},
    "BUCKET": {"hoodie.bucket.index.num.buckets": "4"},
}
"""Indexes by type, with the other options for creating and writing the table."""


@dataclass(frozen=True)
class Work:
    """What is timed: a write of `data`, or a statement about the table `{table}` and the view `source`."""

    name: str
    data: str = ""
    operation: str = ""
    statement: str = ""


UPSERT: Final = Work("upsert of 5 %", "update", "upsert")
MERGE: Final = Work(
    "MERGE of 5 %",
    "update",
    statement="MERGE INTO {table} AS t USING source AS s "
    "ON t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
)
OPERATIONS: Final = (
    Work("insert of 5 %", "insert", "insert"),
    Work("delete of 1 %", "delete", "delete"),
    Work("insert_overwrite of a partition", "year", "insert_overwrite"),
    Work("delete_partition", "year", "delete_partition"),
    MERGE,
    Work("UPDATE of 1 %", statement="UPDATE {table} SET l_linestatus = 'X' WHERE l_orderkey % 100 = 0"),
    Work("DELETE of 1 %", statement="DELETE FROM {table} WHERE l_orderkey % 100 = 0"),
)


def sources(work: Path, scale: float) -> dict[str, Path]:
    """Returns the folders of Parquet files from which the tables are made, and those to write."""
    source, update = prepare(work, scale)
    changed, rows = pq.read_table(update), pq.read_table(source)
    keys = changed.schema.get_field_index("l_orderkey")
    made = {
        "insert": changed.set_column(keys, "l_orderkey", pc.add(changed["l_orderkey"], pa.scalar(NEW_KEYS))),
        "delete": changed.slice(0, rows.num_rows // 100),
        "year": rows.filter(pc.equal(rows["l_shipyear"], 1995)),
    }
    found = {"source": source, "update": update}
    for name, table in made.items():
        found[name] = work / name
        found[name].mkdir()
        pq.write_table(table, found[name] / "0.parquet")
    return found


def run(given: argparse.Namespace, work: Path) -> Figures:
    folders = sources(work, given.scale)
    oracle = locate()
    workers = {"hudi-py (enabled)": SparkWorker(sys.executable, "hudi-py", cpu=given.cpu)}
    workers["hudi-py (enabled)"].enabled = True
    if oracle is not None:
        workers["Apache Hudi"] = SparkWorker(oracle[0], "hudi", oracle[1], cpu=given.cpu)
    else:
        print("  Apache Hudi's environment is not set up (make oracle): left out", file=sys.stderr)
    figures: Figures = {}

    def measure(table: Path, kind: str, index: dict[str, str], each: Work, label: str) -> None:
        """Measures each engine on a copy of its own."""
        copy = table.with_name("copy")
        for engine, worker in workers.items():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(table, copy)
            options = table_options(kind, each.operation) | index
            seconds = worker(
                "sql" if each.statement else "write",
                copy,
                options,
                source=str(folders[each.data]) if each.data else None,
                statement=each.statement,
            )
            figures.setdefault(label, {})[engine] = seconds
            print(f"  {label:<52}{engine:<18}{'-' if seconds is None else f'{seconds:8.2f} s'}", flush=True)

    try:
        for worker in workers.values():  # the first job of a JVM pays for its start
            warm = work / f"warm-{id(worker)}"
            for operation in ("bulk_insert", "upsert"):
                options = table_options("COPY_ON_WRITE", operation)
                worker("write", warm, options, source=str(folders["delete"]))
            worker("sql", warm, source=str(folders["delete"]), statement=MERGE.statement)
        for short in given.kinds:
            kind = KINDS[short]
            for name, others in INDEXES.items():
                works = {f"{UPSERT.name}, {name}, {short}": UPSERT}
                works |= {f"{each.name}, {short}": each for each in OPERATIONS if name == "SIMPLE"}
                chosen = {label: each for label, each in works.items() if any(word in label for word in given.only)}
                if not chosen:
                    continue
                table, index = work / f"{short}-{name.lower()}", {"hoodie.index.type": name, **others}
                operation = "insert" if name == "BUCKET" else "bulk_insert"
                core_write(table, folders["source"], table_options(kind, operation) | index)
                for label, each in chosen.items():
                    measure(table, kind, index, each, label)
                shutil.rmtree(table)
    finally:
        for worker in workers.values():
            worker.close()
    return figures


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks operations", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor; 1 is 6 million rows")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--only", nargs="+", default=("",), help="rows with one of these words: MERGE, BLOOM, ...")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of all of Spark's processes, not elapsed ones")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hudi-py-bench-") as work:
        figures = run(given, Path(work))
    print("\n" + report(figures))
    if given.out:
        given.out.write_text(json.dumps({"scale": given.scale, "seconds": figures}, indent=1) + "\n")
