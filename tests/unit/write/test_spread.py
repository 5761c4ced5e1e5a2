"""Statements in the tasks of an engine (`tests.support.spread`), compared with a model and with one process."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, DuplicateKeyError
from hudi_py.storage import open_storage
from hudi_py.transaction.metadata_drop import drop_metadata_table
from hudi_py.write.dml import spread as spread_module
from hudi_py.write.dml.distributed import Delete, Update
from tests.faults.tables import leftovers
from tests.support.choice import SEED, cases
from tests.support.merges import COLUMNS, KEYS, Generator, row_of
from tests.support.spread import merging, spread
from tests.unit.write.test_generated_merges import OPTIONS, SCHEMA

CASES = list(product((6, 8, 9), ("cow", "mor"), ("ts", None), ("SIMPLE", "BUCKET", "GLOBAL_SIMPLE")))
ORDERED = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a large table and source: many tasks, and keys that choose no files."""
    monkeypatch.setattr(spread_module, "_TASK_BYTES", 300)
    monkeypatch.setattr(spread_module, "_EXACT_KEYS", 0)


def check(folder: Path, seed: str, count: int, version: int, kind: str, ordering: str | None, index: str) -> None:
    """Statements in tasks, in one process, and by a model: the same rows, counts and operations."""
    rnd = random.Random(seed)
    options = {
        **OPTIONS,
        "hoodie.index.type": index,
        "hoodie.parquet.small.file.limit": rnd.choice(["0", "104857600"]),
        "hoodie.spark.sql.merge.into.partial.updates": rnd.choice(["true", "false"]),
        "hoodie.parquet.max.file.size": rnd.choice(["900", "125829120"]),
        "hoodie.bucket.index.num.buckets": "2",
    }
    model = {key: row_of(rnd, key, 10) for key in rnd.sample(KEYS, 20)}
    tables = []
    for name in ("one", "spread"):
        rows = pa.Table.from_pylist(list(model.values()), SCHEMA)
        hudi_py.write(
            folder / name,
            rows,
            "upsert",
            options,
            record_key="id",
            partition_by="p",
            ordering_by=ordering,
            table_type=kind,
            table_version=version,
        )
        tables.append(hudi_py.open_table(folder / name, options))
    generator = Generator(rnd, late=kind == "cow")
    for number in range(count):
        merge = generator.merge(11 + number)
        source = pa.Table.from_pylist(list(merge.source), SCHEMA)
        one = merge.run(tables[0], source)
        done = merge.by(merging(source, merge.on, folder / "spread", options, seed=f"{seed} {number}"))
        model = merge.apply(model, ordered=ordering is not None)
        for table in tables:
            found = {row["id"]: row for row in table.scan(columns=COLUMNS).to_table().to_pylist()}
            assert found == model, f"statement {number} of {seed} on {table}: {merge.sql()}"
        assert counts(done) == counts(one)
    histories = [table.history().column("operation").to_pylist() for table in tables]
    assert histories[0] == histories[1]
    assert tables[1].metadata.verify().ok
    assert not leftovers(folder / "spread")


def counts(result: hudi_py.WriteResult) -> tuple[Any, ...]:
    return result.operation, result.num_inserted, result.num_updated, result.num_deleted


@pytest.mark.slow
@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize(("version", "kind", "ordering", "index"), cases(CASES, "spread merges", 2))
def test_generated_merges(tmp_path: Path, version: int, kind: str, ordering: str | None, index: str) -> None:
    check(tmp_path, f"{SEED} {version} {kind} {ordering} {index}", 4, version, kind, ordering, index)


@pytest.mark.long
@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize(("version", "kind", "ordering", "index"), CASES)
def test_many_generated_merges(tmp_path: Path, version: int, kind: str, ordering: str | None, index: str) -> None:
    check(tmp_path, f"long {version} {kind} {ordering} {index}", 10, version, kind, ordering, index)


def make(path: Path, options: dict[str, str], **keys: Any) -> hudi_py.Table:
    rows = [row_of(random.Random(f"row {key}"), key, 10) for key in KEYS]
    hudi_py.write(path, pa.Table.from_pylist(rows, SCHEMA), "insert", options, **{**ORDERED, **keys})
    return hudi_py.open_table(path, options)


def rows_of(table: hudi_py.Table) -> list[dict[str, Any]]:
    columns = [*COLUMNS, "_hoodie_record_key", "_hoodie_partition_path"]
    return sorted(table.scan(columns=columns).to_table().to_pylist(), key=repr)


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize(
    ("kind", "keys", "more"),
    cases(
        [
            ("cow", {}, {}),
            ("mor", {}, {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}),
            ("cow", {"record_key": None, "ordering_by": None}, {}),
            ("mor", {"record_key": None, "ordering_by": None}, {}),
            ("mor", {}, {"hoodie.table.cdc.enabled": "true"}),
            ("cow", {}, {"hoodie.table.cdc.enabled": "true"}),
        ],
        "spread updates",
        1,
    ),
)
def test_update_and_delete(tmp_path: Path, kind: str, keys: dict[str, Any], more: dict[str, str]) -> None:
    options = {**OPTIONS, **more}
    one, other = (make(tmp_path / name, options, **keys, table_type=kind) for name in ("one", "other"))
    values = {"v": "concat(v, '!')", "n": "n * 2 + 0.5D"}
    condition = "q IN (0, 1) OR v IS NULL OR p = 'y'"
    done = spread(tmp_path / "other", Update(values, condition), options)
    assert counts(done) == counts(one.update(values, condition))
    gone = spread(tmp_path / "other", Delete("n > 1.0D"), options)
    assert counts(gone) == counts(one.delete_where("n > 1.0D"))
    if keys:  # they differ
        assert [{**row, "_hoodie_record_key": ""} for row in rows_of(other)] == [
            {**row, "_hoodie_record_key": ""} for row in rows_of(one)
        ]
    else:
        assert rows_of(other) == rows_of(one)
    if "hoodie.table.cdc.enabled" in more:
        changes = [changes_of(table) for table in (one, other)]
        assert changes[0] == changes[1] != []
    assert other.history().column("operation").to_pylist() == ["INSERT", "UPSERT_PREPPED", "DELETE_PREPPED"]
    assert not leftovers(tmp_path / "other")


def changes_of(table: hudi_py.Table) -> list[Any]:
    """Operations and images of all changes, without meta columns, which name files."""
    found = []
    for row in table.scan(query_type="cdc", begin="000").to_table().to_pylist():
        images = [(json.loads(row[name] or "{}") or {}).items() for name in ("before", "after")]
        found.append([row["op"], *([each for each in image if each[0][0] != "_"] for image in images)])
    return sorted(found, key=repr)


def source(*rows: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{**row_of(random.Random(0), key, 20), "v": v} for key, v in rows], SCHEMA)


@pytest.mark.usefixtures("divided")
def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    table, path = make(tmp_path / "t", OPTIONS), tmp_path / "t"
    before = rows_of(table)
    twice = merging(source((1, "a"), (2, "b"), (1, "c")).select(["id", "v"]), "id", path, OPTIONS)
    with pytest.raises(DuplicateKeyError, match="several rows of the source match the row with the key '1'"):
        twice.when_matched_update({"v": "s.v"}).execute()
    with pytest.raises(ConfigError, match="inserts the record key '2' where ON compares '102'"):
        merging(source((2, "b")), "t.id = s.id + 100", path, OPTIONS).when_not_matched_insert_all().execute()
    with pytest.raises(ConfigError, match="cannot be evaluated"):
        spread(path, Update({"q": "1 DIV (id - 3)"}, None), OPTIONS)

    def fail() -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        spread(path, Delete("true"), OPTIONS, before_commit=fail)
    assert rows_of(hudi_py.open_table(path)) == before
    assert len(hudi_py.open_table(path).history()) == 1
    assert not leftovers(path)


def test_what_others_commit_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    options = {
        **OPTIONS,
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    table = make(tmp_path / "t", options)

    def meddle() -> None:
        table.update({"v": "'other'"}, "id = 5")

    merge = merging(source((5, "mine")), "id", tmp_path / "t", options, before_commit=meddle)
    with pytest.raises(ConflictError):
        merge.when_matched_update_all().execute()
    assert table.scan(["v"], "id = 5").to_table().to_pylist() == [{"v": "other"}]


def test_an_index_that_another_writer_drops_is_a_conflict(tmp_path: Path) -> None:
    options = {
        **OPTIONS,
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.index.type": "SIMPLE",  # the plan of a merge looks keys up in the record index all the same
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    path = tmp_path / "t"
    make(path, options)

    def drop() -> None:
        drop_metadata_table(open_storage(str(path)), drop_indexes=True)

    merge = merging(source((900, "new")), "id", path, options, before_commit=drop)
    with pytest.raises(ConflictError, match="has dropped the metadata partition record_index"):
        merge.when_not_matched_insert_all().execute()


@pytest.mark.usefixtures("divided")
def test_of_equal_new_rows_the_same_one_counts_as_in_one_process(tmp_path: Path) -> None:
    rows = source(*((900 + number % 4, f"{number}") for number in range(24)))
    one = make(tmp_path / "one", OPTIONS)
    one.merge(rows, "id").when_not_matched_insert_all().execute()
    path = tmp_path / "tasks"
    make(path, OPTIONS)
    merging(rows, "id", path, OPTIONS, tasks=5).when_not_matched_insert_all().execute()
    assert rows_of(hudi_py.open_table(path)) == rows_of(one)


def test_one_process_runs_what_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    make(path, OPTIONS)
    tasks: list[int] = []
    whole = spread_module.run_spread_task

    def noted(*given: Any) -> Any:
        tasks.append(1)
        return whole(*given)

    monkeypatch.setattr("tests.support.spread.run_spread_task", noted)
    for less, spreads in ((0, False), (1, True)):
        size = hudi_py.open_table(path).scan(filter="p = 'x'").plan().size
        options = {**OPTIONS, "hoodie.py.local.max.bytes": str(size - less)}
        assert spread(path, Update({"v": "'n'"}, "p = 'x'"), options).num_updated == 10
        assert bool(tasks) is spreads
    tasks.clear()
    most = {"hoodie.py.local.max.bytes": str(1 << 30), "hoodie.py.staging.max.bytes": "10"}
    merging(source((5, "m")), "id", path, {**OPTIONS, **most}).when_matched_update_all().execute()
    assert tasks


def test_what_one_process_runs_is_not_begun_for_tasks_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path / "t", OPTIONS)
    options = {**OPTIONS, "hoodie.py.local.max.bytes": str(1 << 30)}
    merge = merging(source((5, "m")), "id", tmp_path / "t", options).when_matched_update_all()
    with caplog.at_level("DEBUG", logger="hudi_py.transaction.session"):
        done = merge.execute()
    locked = [record.getMessage().rpartition(", to ")[2] for record in caplog.records if ", to " in record.getMessage()]
    assert locked == ["begin a write", f"commit the write {done.instant}"]
