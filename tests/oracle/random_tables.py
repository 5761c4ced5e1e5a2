"""Random tables: Apache Hudi makes one from a seed, and both sides answer every kind of query about it.

`python -m tests.oracle.random_tables --seeds 0-99` runs many and keeps what they gave in `random_results.json`.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import hashlib
import json
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hudi_py
from hudi_py.testing.rows import READER_DEPENDENT, assert_rows_equal
from tests.oracle.client import Oracle, OracleError

RESULTS = Path(__file__).with_name("random_results.json")
PAYLOADS = "org.apache.hudi.common.model."
WRITE = "hoodie.datasource.write."
CITIES = ("oslo", "paris", "rome", "são paulo")
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A table and what is done to it, a pure function of the seed."""

    seed: int
    version: int
    type: str
    keys: tuple[str, ...]
    partition: tuple[str, ...]
    ordering: str | None
    options: dict[str, str]
    steps: tuple[str, ...]
    cdc: bool

    @property
    def title(self) -> str:
        """What matters for telling one recipe from another."""
        shown = {key.rpartition(".")[2]: value.rpartition(".")[2] for key, value in self.options.items()}
        return f"seed {self.seed}: v{self.version} {self.type} {shown} {'; '.join(self.steps)}"


@dataclass(slots=True)
class Outcome:
    """What came of one recipe."""

    recipe: Recipe
    compared: Counter[str] = field(default_factory=Counter)
    """Queries which both sides answered, by kind."""
    refused: Counter[str] = field(default_factory=Counter)
    """Queries or steps which Apache Hudi itself could not do, by kind."""
    failures: list[str] = field(default_factory=list)


def recipe(seed: int) -> Recipe:
    """The recipe of a seed."""
    rnd = random.Random(seed)
    version = rnd.choice((6, 8, 9, 9))
    kind = rnd.choice(("cow", "mor", "mor"))
    keys = rnd.choice((("id",), ("id",), ("id", "grp")))
    partition = rnd.choice(((), ("city",), ("city",), ("day",), ("city", "flag")))
    ordering = rnd.choice(("ts", "ts", "at", "code", None))
    options = {
        "hoodie.metadata.enable": rnd.choice(("true", "true", "false")),
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.compact.inline": "false",
        "hoodie.parquet.small.file.limit": rnd.choice(("0", "104857600")),
        WRITE + "hive_style_partitioning": rnd.choice(("true", "false")),
        WRITE + "partitionpath.urlencode": rnd.choice(("true", "false")) if len(partition) == 1 else "true",
        "hoodie.logfile.data.block.format": rnd.choice(("avro", "avro", "parquet")),
    }
    if options["hoodie.metadata.enable"] == "true" and rnd.random() < 0.6:
        options["hoodie.metadata.index.column.stats.enable"] = "true"
        if rnd.random() < 0.4:
            options["hoodie.metadata.record.index.enable"] = "true"
            options["hoodie.index.type"] = "RECORD_INDEX"
    if "hoodie.index.type" not in options:
        options["hoodie.index.type"] = rnd.choice(("SIMPLE", "BLOOM", "BUCKET", "GLOBAL_SIMPLE"))
        if options["hoodie.index.type"] == "BUCKET":
            options["hoodie.bucket.index.num.buckets"] = "2"
    if ordering is None:
        options["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING"
    elif version == 9 and rnd.random() < 0.6:
        options["hoodie.record.merge.mode"] = rnd.choice(("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"))
    else:
        options[WRITE + "payload.class"] = PAYLOADS + rnd.choice(
            (
                "DefaultHoodieRecordPayload",
                "OverwriteWithLatestAvroPayload",
                "EventTimeAvroPayload",
                "PartialUpdateAvroPayload",
                "OverwriteNonDefaultsWithLatestAvroPayload",
            )
        )
    if ordering == "code":
        # Apache Hudi 1.2.0 compares texts of Parquet log blocks in buffers which it has filled anew since, so that a
        # late row may win: its answer depends on the rows around
        options["hoodie.logfile.data.block.format"] = "avro"
    cdc = rnd.random() < 0.3
    if cdc:
        options["hoodie.table.cdc.enabled"] = "true"
        modes = ("op_key_only", "data_before", "data_before_after")
        options["hoodie.table.cdc.supplemental.logging.mode"] = rnd.choice(modes)
    steps = ["insert", *_steps(rnd, kind, partition, options)]
    return Recipe(seed, version, kind, keys, partition, ordering, options, tuple(steps), cdc)


def _steps(rnd: random.Random, kind: str, partition: tuple[str, ...], options: dict[str, str]) -> Iterator[str]:
    choices = ["upsert"] * 5 + ["delete"] * 2 + ["insert", "evolve", "clean", "is_deleted"]
    if options["hoodie.index.type"] != "BUCKET":
        choices += ["insert_overwrite_table", "clustering"]
        choices += ["insert_overwrite", "delete_partition"] if partition else []
    if kind == "mor":
        choices += ["compaction", "schedule compaction", "upsert", "upsert"]
    for _ in range(rnd.randint(4, 8)):
        yield rnd.choice(choices)


class Answers:
    """Apache Hudi's answers about one table, kept beside it, so that they are asked for once."""

    def __init__(self, oracle: Oracle, path: Path) -> None:
        self._oracle = oracle
        self._path = path
        self._folder = path.with_name(path.name + ".answers")
        self._folder.mkdir(exist_ok=True)

    def read(self, **query: Any) -> pa.Table:
        """As `Oracle.read`."""
        name = hashlib.sha256(json.dumps(query, sort_keys=True).encode()).hexdigest()[:24]
        kept, failed = self._folder / f"{name}.parquet", self._folder / f"{name}.error"
        if failed.exists():
            raise OracleError(failed.read_text())
        if not kept.exists():
            try:
                pq.write_table(self._oracle.read(self._path, **query), kept)
            except OracleError as error:
                failed.write_text(str(error))
                raise
        return pq.read_table(kept)

    def timeline(self) -> list[dict[str, Any]]:
        """As `Oracle.timeline`."""
        kept = self._folder / "timeline.json"
        if not kept.exists():
            kept.write_text(json.dumps(self._oracle.timeline(self._path)))
        found: list[dict[str, Any]] = json.loads(kept.read_text())
        return found


class Maker:
    """Carries a recipe out through the oracle."""

    def __init__(self, oracle: Oracle, path: Path, made: Recipe) -> None:
        self.oracle = oracle
        self.path = path
        self.recipe = made
        self.rnd = random.Random(made.seed + 1_000_003)
        self.wide = False
        self.marked = False
        self.refused: Counter[str] = Counter()

    def run(self) -> None:
        for number, step in enumerate(self.recipe.steps):
            try:
                self._step(step, number)
            except OracleError as error:
                # Some combinations fail in Apache Hudi itself; the table stands as it was
                self.refused[f"step {step}: {str(error).splitlines()[0][:120]}"] += 1
                if number == 0:
                    raise

    def _step(self, step: str, number: int) -> None:
        if step == "evolve":
            self.wide = True
            step = "upsert"
        table = "'{table}'"
        if step == "compaction":
            self.oracle.call(
                self.path, f"run_compaction(op => 'scheduleAndExecute', table => {table})", self._session()
            )
        elif step == "schedule compaction":
            self.oracle.call(self.path, f"run_compaction(op => 'schedule', table => {table})", self._session())
        elif step == "clustering":
            self.oracle.call(
                self.path, f"run_clustering(op => 'scheduleAndExecute', table => {table})", self._session()
            )
        elif step == "clean":
            self.oracle.call(self.path, f"run_clean(table => {table}, retain_commits => 2)", self._session())
        elif step == "delete":
            self._write(self._rows(self.rnd.sample(range(40), 6), number), "delete")
        elif step == "delete_partition":
            self._write(self._rows(self.rnd.sample(range(40), 1), number), "delete_partition")
        elif step == "insert":
            fresh = range(100 * number + 100, 100 * number + 112) if number else range(40)
            self._write(self._rows(list(fresh), number), "insert")
        elif step == "is_deleted":
            self.marked = True
            self._write(self._rows(self.rnd.sample(range(40), 8), number, marks=0.5), "upsert")
        else:
            chosen = self.rnd.sample(range(60), 12)
            self._write(self._rows(chosen, number), step)

    def _session(self) -> dict[str, str]:
        kept = ("hoodie.metadata", "hoodie.index", "hoodie.bucket", "hoodie.clean", "hoodie.archive", "hoodie.logfile")
        return {key: value for key, value in self.recipe.options.items() if key.startswith(kept)}

    def _rows(self, ids: list[int], number: int, *, marks: float = 0) -> pa.Table:
        rnd = self.rnd
        made: dict[str, list[Any]] = {name: [] for name in ("id", "grp", "city", "day", "flag", "ts", "at", "code")}
        more: dict[str, list[Any]] = {name: [] for name in ("name", "qty", "price", "ratio", "tags", "spot")}
        for one in ids:
            home = random.Random(one)  # of the key, so that a key stays in its partition unless an index is global
            late = rnd.random() < 0.3
            when = 10 * number + (rnd.randint(-25, 0) if late else rnd.randint(0, 3))
            made["id"].append(f"k{one}")
            made["grp"].append(one % 3)
            made["city"].append(home.choice(CITIES))
            made["day"].append(datetime.date(2024, 1, 1 + home.randrange(3)))
            made["flag"].append(home.random() < 0.5)
            made["ts"].append(max(when, 1) if rnd.random() < 0.9 else 1)
            made["at"].append(START + datetime.timedelta(seconds=when, microseconds=rnd.randrange(3)))
            made["code"].append(f"c{max(when, 0):04d}")
            more["name"].append(None if rnd.random() < 0.25 else f"n{number}-{rnd.randrange(9)}é")
            more["qty"].append(None if rnd.random() < 0.2 else rnd.randrange(-5, 50))
            more["price"].append(None if rnd.random() < 0.2 else decimal.Decimal(rnd.randrange(-999, 9999)) / 100)
            more["ratio"].append(rnd.choice([None, 0.1, -2.5, 1e-9, 3.0, 12345678.9]))
            more["tags"].append(None if rnd.random() < 0.2 else [rnd.choice("abc") for _ in range(rnd.randrange(3))])
            more["spot"].append(None if rnd.random() < 0.2 else {"x": rnd.randrange(9), "note": rnd.choice(["", "ü"])})
        types: dict[str, pa.DataType] = {
            "grp": pa.int32(),
            "day": pa.date32(),
            "ts": pa.int64(),
            "at": pa.timestamp("us", "UTC"),
            "qty": pa.int64() if self.wide else pa.int32(),
            "price": pa.decimal128(10, 2),
            "ratio": pa.float64(),
            "tags": pa.list_(pa.string()),
            "spot": pa.struct([("x", pa.int32()), ("note", pa.string())]),
        }
        if self.wide:
            more["extra"] = [rnd.choice([None, "added"]) for _ in ids]
        if self.marked:
            more["_hoodie_is_deleted"] = [rnd.random() < marks for _ in ids]
        return pa.table({name: pa.array(values, types.get(name)) for name, values in {**made, **more}.items()})

    def _write(self, rows: pa.Table, operation: str) -> None:
        made = self.recipe
        options = dict(made.options)
        if len(made.keys) > 1 or len(made.partition) > 1:
            options[WRITE + "keygenerator.class"] = "org.apache.hudi.keygen.ComplexKeyGenerator"
        elif not made.partition:
            options[WRITE + "keygenerator.class"] = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        self.oracle.write(
            self.path,
            rows,
            operation,
            key=",".join(made.keys),
            ordering=made.ordering,
            partition=",".join(made.partition),
            type=made.type,
            table_version=made.version,
            options=options,
        )


def compare(oracle: Answers, path: Path, made: Recipe) -> Outcome:
    """Every kind of query about the table as it stands, by both sides."""
    outcome = Outcome(made)
    rnd = random.Random(made.seed + 7)

    def ask(kind: str, theirs: Callable[[], pa.Table], ours: Callable[[], pa.Table]) -> pa.Table | None:
        try:
            expected = theirs()
        except OracleError:
            outcome.refused[kind] += 1
            return None
        try:
            rows = ours()
            assert_rows_equal(rows, expected, ignore=() if kind == "cdc" else READER_DEPENDENT)
        except Exception as error:  # every way of not agreeing is what is looked for
            outcome.failures.append(f"{kind}: {type(error).__name__}: {str(error)[:600]}")
            return None
        outcome.compared[kind] += 1
        return rows

    def scan(**arguments: Any) -> pa.Table:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scanned = hudi_py.open_table(str(path)).scan(**arguments)
            rows = scanned.to_table()
            assert scanned.count() == rows.num_rows, f"count() says {scanned.count()}, there are {rows.num_rows} rows"
            return rows

    snapshot = ask("snapshot", lambda: oracle.read(), scan)
    off = {"hoodie.metadata.enable": "false"}
    ask("snapshot without metadata table", lambda: oracle.read(options=off), lambda: scan(options=off))
    if made.type == "mor":
        optimized = "read_optimized"
        ask(optimized, lambda: oracle.read(query_type=optimized), lambda: scan(query_type=optimized))
        skip = {"hoodie.datasource.merge.type": "skip_merge"}
        ask("skip_merge", lambda: oracle.read(options=skip), lambda: scan(options=skip))
    instants = oracle.timeline()
    writes = [i for i in instants if i["action"] in ("commit", "deltacommit", "replacecommit") and i["completed"]]
    for instant in writes:
        at = instant["requested"]
        ask("time travel", lambda at=at: oracle.read(as_of=at), lambda at=at: scan(as_of=at))  # type: ignore[misc]
    axis = "requested" if made.version == 6 else "completed"
    points = ["000", *(i[axis] for i in writes)]
    spans: list[tuple[str, str | None]] = [("000", None)]
    spans += [(rnd.choice(points), rnd.choice([None, *points])) for _ in range(6)]
    for begin, end in spans:
        for kind in ("incremental", "cdc") if made.cdc else ("incremental",):
            ask(
                kind,
                lambda kind=kind, begin=begin, end=end: oracle.read(query_type=kind, begin=begin, end=end),  # type: ignore[misc]
                lambda kind=kind, begin=begin, end=end: scan(query_type=kind, begin=begin, end=end),  # type: ignore[misc]
            )
    if snapshot is not None:
        _compare_filters(snapshot, scan, outcome, rnd)
    return outcome


def _compare_filters(snapshot: pa.Table, scan: Callable[..., pa.Table], outcome: Outcome, rnd: random.Random) -> None:
    """A filter and a look-up give the snapshot's rows: pruning must not lose any."""
    # in one order, whatever the files are called, so that the same values and keys are asked for each time
    snapshot = snapshot.sort_by([(name, "ascending") for name in ("_hoodie_partition_path", "_hoodie_record_key")])
    for name in ("id", "qty", "price", "ratio", "name", "at", "day", "ts", "city", "flag"):
        values = [value for value in snapshot.column(name).unique() if value.is_valid]
        if not values:
            continue
        value = rnd.choice(values)
        column = snapshot.column(name)
        for sign, kernel in (("=", pc.equal), (">", pc.greater), ("<=", pc.less_equal)):
            condition = kernel(pc.field(name), value)
            try:
                expected = snapshot.filter(kernel(column, value))
                assert_rows_equal(scan(filter=condition), expected, ignore=())
                outcome.compared["filter"] += 1
            except Exception as error:  # as above
                outcome.failures.append(f"filter {name} {sign} {value}: {type(error).__name__}: {str(error)[:400]}")
    if snapshot.num_rows:
        keys = rnd.sample(snapshot.column("_hoodie_record_key").to_pylist(), min(3, snapshot.num_rows))
        try:
            found = pc.is_in(snapshot.column("_hoodie_record_key"), value_set=pa.array(keys))
            assert_rows_equal(scan(keys=keys), snapshot.filter(found), ignore=())
            outcome.compared["keys"] += 1
        except Exception as error:  # as above
            outcome.failures.append(f"keys {keys}: {type(error).__name__}: {str(error)[:400]}")


def make_and_compare(oracle: Oracle, folder: Path, seed: int) -> Outcome:
    """The table of a seed, below `folder`, and what its queries gave."""
    made = recipe(seed)
    path = folder / f"random_{seed}"
    finished = folder / f"{path.name}.json"
    if not finished.exists():
        maker = Maker(oracle, path, made)
        try:
            maker.run()
        except OracleError as error:
            maker.refused[f"table: {str(error).splitlines()[0][:120]}"] += 1
        finished.write_text(json.dumps(maker.refused))
    refused = Counter(json.loads(finished.read_text()))
    outcome = (
        Outcome(made)
        if any(text.startswith("table:") for text in refused)
        else compare(Answers(oracle, path), path, made)
    )
    outcome.refused.update(refused)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-19", help="one seed, or the first and the last with '-' between them")
    parser.add_argument("--keep", type=Path, help="a folder in which tables and answers stay, and serve again")
    parser.add_argument("--no-record", action="store_true", help="leave random_results.json as it is")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    oracle = Oracle()
    done: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="random-tables-") as scratch:
        for seed in range(int(first), int(last or first) + 1):
            started = time.monotonic()
            outcome = make_and_compare(oracle, arguments.keep or Path(scratch), seed)
            done.append(outcome)
            seconds = time.monotonic() - started
            state = f"{len(outcome.failures)} FAILURES" if outcome.failures else "equal"
            print(
                f"{outcome.recipe.title}\n  {state}, {outcome.compared.total()} compared, {seconds:.0f} s", flush=True
            )
            for text in outcome.failures:
                print("  - " + text.replace("\n", "\n    "), flush=True)
            for text, count in outcome.refused.items():
                print(f"  (Apache Hudi could not: {text}, {count} x)", flush=True)
    oracle.close()
    if not arguments.no_record:
        RESULTS.write_text(json.dumps(_record(done), indent=1, ensure_ascii=False) + "\n")
    return 1 if any(outcome.failures for outcome in done) else 0


def _record(done: list[Outcome]) -> dict[str, Any]:
    compared: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for outcome in done:
        compared.update(outcome.compared)
        refused.update(outcome.refused)
    return {
        "seeds": [outcome.recipe.seed for outcome in done],
        "compared": dict(sorted(compared.items())),
        "refused_by_apache_hudi": dict(sorted(refused.items())),
        "failures": {outcome.recipe.seed: outcome.failures for outcome in done if outcome.failures},
    }


if __name__ == "__main__":
    sys.exit(main())
