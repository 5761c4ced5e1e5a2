"""Statements in the tasks of an engine (`tests.support.spread`), compared with a model and with one process."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, DuplicateKeyError
from hudi_py.write.dml import spread as spread_module
from hudi_py.write.dml.distributed import delete_text, update_text
from tests.faults.tables import leftovers
from tests.support.choice import SEED, cases
from tests.support.merges import COLUMNS, KEYS, Generator, row_of
from tests.support.spread import merging, spread
from tests.unit.write.test_generated_merges import OPTIONS, SCHEMA

CASES = list(product((6, 8, 9), ("cow", "mor"), ("ts", None), ("SIMPLE", "BUCKET", "GLOBAL_SIMPLE")))


def check(folder: Path, seed: str, count: int, version: int, kind: str, ordering: str | None, index: str) -> None:
    """Statements in tasks, in one process, and by a model: the same rows, counts and operations."""
    rnd = random.Random(seed)
    options = {
        **OPTIONS,
        "hoodie.index.type": index,
        "hoodie.parquet.small.file.limit": rnd.choice(["0", "104857600"]),
        "hoodie.spark.sql.merge.into.partial.updates": rnd.choice(["true", "false"]),
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
@pytest.mark.parametrize(("version", "kind", "ordering", "index"), cases(CASES, "spread merges", 2))
def test_generated_merges(tmp_path: Path, version: int, kind: str, ordering: str | None, index: str) -> None:
    check(tmp_path, f"{SEED} {version} {kind} {ordering} {index}", 4, version, kind, ordering, index)


@pytest.mark.long
@pytest.mark.parametrize(("version", "kind", "ordering", "index"), CASES)
def test_many_generated_merges(tmp_path: Path, version: int, kind: str, ordering: str | None, index: str) -> None:
    check(tmp_path, f"long {version} {kind} {ordering} {index}", 10, version, kind, ordering, index)
