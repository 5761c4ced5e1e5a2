"""Numbers of buckets that differ by partition, by rules of the options or of the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.formats.keys.buckets import BucketRules, bucket_number, bucket_numbers
from hudi_py.model.layout import BUCKET_RULES
from hudi_py.timeline.bucket_rules import FIRST_INSTANT, buckets_by_rule
from hudi_py.wiring import service_target
from hudi_py.write.distributed import TaskId, commit_write, plan_write, run_task
from tests.support.choice import cases
from tests.support.record_index import indexed, stored
from tests.unit.write.test_bucket_index import QUICK, run

CONFIGS = f"{BUCKET_RULES}/configs"
EXPRESSIONS = "hoodie.bucket.index.partition.expressions"
RULES = {**QUICK, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3", EXPRESSIONS: "^a$,5;b|c,2"}
TABLE = {"record_key": "k", "partition_by": "p", "ordering_by": "ts"}


def rows(keys: range, ts: int) -> pa.Table:
    listed = [{"k": f"k{key}", "p": "abcd"[key % 4], "ts": ts} for key in keys]
    return pa.Table.from_pylist(listed, pa.schema([("k", pa.string()), ("p", pa.string()), ("ts", pa.int64())]))


def check(path: str, expected: dict[str, int], counts: dict[str, int]) -> None:
    """Each row is in the bucket of its key, by the number of buckets of its partition."""
    read = hudi_py.open_table(path).scan(["k", "ts", "p", "_hoodie_file_name"]).to_table().to_pylist()
    assert len(read) == len(expected)
    assert {row["k"]: row["ts"] for row in read} == expected
    for row in read:
        (wanted,) = bucket_numbers(pa.array([row["k"]]), ("k",), ("k",), counts[row["p"]]).tolist()
        assert bucket_number(row["_hoodie_file_name"]) == wanted
    assert len({row["_hoodie_file_name"].partition("_")[0] + row["p"] for row in read}) <= sum(counts.values())


def check_all(path: str, expected: dict[str, int], counts: dict[str, int]) -> None:
    check(path, expected, counts)
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "tasks"),
    cases([(v, k, t) for v in (6, 8, 9) for k in ("cow", "mor") for t in (0, 2)], "rules", 1),
)
def test_writes_and_new_rules(tmp_path: Path, version: int, kind: str, tasks: int) -> None:
    """The table's rules count, whatever options say; those given by a service as well, until they are undone."""
    path, options = str(tmp_path / "t"), {**RULES, "hoodie.metadata.record.index.enable": "true"}
    made = {**TABLE, "table_type": kind, "table_version": version}
    run(path, rows(range(40), 1), "upsert", options, 0, **made)
    counts = {"a": 5, "b": 2, "c": 2, "d": 3}
    expected = dict.fromkeys((f"k{key}" for key in range(40)), 1)
    check_all(path, expected, counts)
    other = {**options, "hoodie.bucket.index.num.buckets": "7", EXPRESSIONS: ""}
    run(path, rows(range(20, 50), 2), "upsert", other, tasks)
    expected |= dict.fromkeys((f"k{key}" for key in range(20, 50)), 2)
    check_all(path, expected, counts)
    run(path, rows(range(4), 3), "delete", other, tasks)
    expected = {key: ts for key, ts in expected.items() if key not in ("k0", "k1", "k2", "k3")}
    run(path, rows(range(60, 70), 3), "insert", other, tasks)
    expected |= dict.fromkeys((f"k{key}" for key in range(60, 70)), 3)
    check_all(path, expected, counts)

    table = hudi_py.open_table(path, options)
    before = dict(expected)
    report = table.rescale_buckets("^d$,1", add=True, dry_run=True)
    assert (report.instant, report.partitions) == (None, (("d", 1),))
    report = table.rescale_buckets("^d$,1;a,8", add=True)
    counts |= {"d": 1, "a": 8}
    assert report.partitions == (("a", 8), ("d", 1))
    check_all(path, expected, counts)
    run(path, rows(range(30, 80), 4), "upsert", other, tasks)
    expected |= dict.fromkeys((f"k{key}" for key in range(30, 80)), 4)
    check_all(path, expected, counts)
    assert indexed(path) == stored(path)
    found = table.rescale_buckets().rules
    assert [each[1:] for each in found] == [("^a$,5;b|c,2", 3), ("^d$,1;a,8;^a$,5;b|c,2", 3)]
    table.rollback(str(report.instant), with_newer=True)
    assert [each[0] for each in table.rescale_buckets().rules] == [FIRST_INSTANT]
    check_all(path, before, {"a": 5, "b": 2, "c": 2, "d": 3})


@pytest.mark.slow
def test_rules_for_a_table_without(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {**RULES, EXPRESSIONS: ""}
    hudi_py.write(path, rows(range(40), 1), "upsert", options, table_type="mor", **TABLE)
    hudi_py.write(path, rows(range(40), 2), "upsert", options)
    table = hudi_py.open_table(path, options)
    with pytest.raises(ConfigError, match="give its rules as a whole"):
        table.rescale_buckets("a,2")
    with pytest.raises(ConfigError, match="is bucket 2, so there are more than 2"):
        hudi_py.open_table(path, QUICK).rescale_buckets("a,4", buckets=2)
    report = table.rescale_buckets("a,4", buckets=3)
    assert report.partitions == (("a", 4),)
    check_all(path, {f"k{key}": 2 for key in range(40)}, {"a": 4, "b": 3, "c": 3, "d": 3})
    table.rollback(str(report.instant))
    assert not Path(path, CONFIGS).exists()
    check_all(path, {f"k{key}": 2 for key in range(40)}, {"a": 3, "b": 3, "c": 3, "d": 3})
    report = table.rescale_buckets("a,4", buckets=3)
    hudi_py.write(path, rows(range(40), 3), "upsert", {**options, EXPRESSIONS: "d,9"})
    check_all(path, {f"k{key}": 3 for key in range(40)}, {"a": 4, "b": 3, "c": 3, "d": 3})
    (kept,) = Path(path, CONFIGS).iterdir()
    assert kept.name == f"{report.instant}.hashing_config"
    assert kept.read_text().splitlines() == [
        "{",
        '  "expressions" : "a,4",',
        '  "defaultBucketNumber" : 3,',
        '  "rule" : "regex",',
        '  "version" : 1,',
        f'  "instant" : "{report.instant}"',
        "}",
    ]


def test_reads_open_only_the_buckets_of_their_keys(tmp_path: Path) -> None:
    """By the rules of the time that is read, also without a number of buckets."""
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(range(40), 1), "upsert", RULES, **TABLE)
    first = hudi_py.open_table(path).timeline.completed[-1].time
    table = hudi_py.open_table(path, RULES)
    table.rescale_buckets("a|b|c|d,6")
    options = {**QUICK, "hoodie.index.type": "BUCKET", "hoodie.metadata.enable": "false"}
    for as_of, counts, why in ((first, (5, 2, 2, 3), "of 2 or 3 or 5"), (None, (6, 6, 6, 6), "of 6")):
        for key in range(0, 40, 7):
            scan = hudi_py.open_table(path).scan(["k", "ts"], filter=f"k = 'k{key}'", as_of=as_of, options=options)
            assert scan.to_table().to_pylist() == [{"k": f"k{key}", "ts": 1}]
            (step,) = (step for step in scan.plan().pruning if step.step == "buckets")
            assert step.why == why
            assert step.after <= 8 < step.before <= sum(counts)  # a key has two forms


def test_what_rules_cannot_be(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for text, message in (
        ("a", "expected 'pattern,buckets'"),
        ("a,b,3", "expected 'pattern,buckets'"),
        ("a,0", "at least 1"),
        ("a,²", "at least 1"),
        ("(,3", "regular expression"),
        ("a,3;;b,4", "expected 'pattern,buckets'"),
    ):
        with pytest.raises(ConfigError, match=message):
            hudi_py.write(path, rows(range(2), 1), "upsert", {**RULES, EXPRESSIONS: text}, **TABLE)
        assert not Path(path).exists()
    assert BucketRules(" a , 3 ;b,4;;", 1).parsed() == [("a", 3), ("b", 4)]
    assert buckets_by_rule(BucketRules("2024,4", 9), "day=2024-01-01") == 4
    with pytest.raises(ConfigError, match="where bucket_number is left out"):
        buckets_by_rule(BucketRules("2024,4", -1), "x")
    with pytest.raises(CorruptFileError, match="no rules"):
        BucketRules.decode(b"{}", "x")
    with pytest.raises(ConfigError, match="their kind is 'glob'"):
        BucketRules.decode(BucketRules("a,1", 2).encode("0").replace(b"regex", b"glob"), "x")


@pytest.mark.slow
def test_writes_beside_new_rules(tmp_path: Path) -> None:
    """A write that found its buckets by the old rules fails, whatever buckets it wrote to."""
    path = str(tmp_path / "t")
    optimistic = {
        **RULES,
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    hudi_py.write(path, rows(range(1), 1), "upsert", optimistic, **TABLE)
    chosen = Options.resolve(optimistic, Scope.WRITE)
    data = rows(range(1, 2), 1)
    write = plan_write(service_target(path, chosen), data.schema)
    result = run_task(write, TaskId(0, 1), data.to_batches())
    hudi_py.open_table(path, optimistic).rescale_buckets("a,9")
    with pytest.raises(ConflictError, match="has changed the numbers of buckets"):
        commit_write(write, [result])
    check_all(path, {"k0": 1}, {"a": 9})


@pytest.mark.slow
def test_writers_that_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Both find the buckets by the rules, and add logs to the same file groups."""
    path = str(tmp_path / "t")
    options = {
        **RULES,
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    made = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}
    hudi_py.write(path, rows(range(4), 1), "upsert", options, **made)
    chosen = Options.resolve({**options, EXPRESSIONS: ""}, Scope.WRITE)
    data = rows(range(20), 2)
    write = plan_write(service_target(path, chosen), data.schema)
    result = run_task(write, TaskId(0, 1), data.to_batches())
    hudi_py.write(path, rows(range(10, 30), 3), "upsert", options)
    commit_write(write, [result])
    expected = {f"k{key}": 2 for key in range(10)} | {f"k{key}": 3 for key in range(10, 30)}
    check(path, expected, {"a": 5, "b": 2, "c": 2, "d": 3})
    with pytest.raises(ConfigError, match="rows that others add meanwhile would be lost"):
        hudi_py.open_table(path, options).rescale_buckets("a,2")
