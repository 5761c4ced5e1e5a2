"""Generated MERGE statements, each by Apache Hudi's SQL on one table and by us on another, with the same rows after it.

Left out is what Apache Hudi 1.2.0 does otherwise, see docs/differences.md: clauses for rows that the source does not
match, several clauses of one kind, rows of the source with a lower ordering value. Merge on read it refuses columns of
the table in expressions, mixes up the values of partial updates out of the table's order, or merged into small files,
and takes a row that a log has deleted for one of the table. Conditions of deletes have no `IS NULL OR ... LIKE`, which
it evaluates wrongly. In merge-on-read tables of version 6 it wants updates to set the key.
Without ordering field, merges that update nothing ignore deletes, and insert rows that match.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import SEED, cases
from tests.support.merges import COLUMNS, KEYS, Generator, row_of
from tests.unit.write.test_generated_merges import OPTIONS, SCHEMA

pytestmark = pytest.mark.long


def check(
    oracle: Oracle,
    folder: Path,
    seed: str,
    count: int,
    version: int,
    kind: str,
    key: str | None = "id",
    ordering: str | None = "ts",
) -> None:
    """`key` None: keys are generated."""
    rnd = random.Random(seed)
    ours, theirs = folder / "t", folder / "other" / "t"
    partial = rnd.choice(["true", "false"])
    options = {
        **OPTIONS,
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.spark.sql.merge.into.partial.updates": partial,
    }
    model = {key: row_of(rnd, key, 10) for key in rnd.sample(KEYS, 20)}
    hudi_py.write(
        ours,
        pa.Table.from_pylist(list(model.values()), SCHEMA),
        "upsert" if key else "insert",
        options,
        record_key=key,
        partition_by="p",
        ordering_by=ordering,
        table_type=kind,
        table_version=version,
    )
    shutil.copytree(ours, theirs)
    table = hudi_py.open_table(ours, options)
    generator = Generator(rnd, target=kind == "cow", several=False, late=False)
    given = {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
    gone: set[int] = set()
    expected = [model[each] for each in sorted(model)]
    for number in range(count):
        merge = generator.merge(11 + number)
        if kind == "mor":
            given["hoodie.parquet.small.file.limit"] = "0"
            merge = replace(merge, source=tuple(row for row in merge.source if row["id"] not in gone))
            if not merge.source:
                continue
        updates = [clause for clause in merge.clauses if clause.action == "update"]
        if version == 6 and kind == "mor" and key and any(clause.values is not None for clause in updates):
            continue
        if ordering is None and not updates:
            continue
        merge.run(table, pa.Table.from_pylist(list(merge.source), SCHEMA))
        oracle.sql(merge.sql(), theirs, given)
        before, model = model, merge.apply(model, ordered=ordering is not None)
        gone |= before.keys() - model.keys()
        expected = [model[key] for key in sorted(model)]
        for whose in (hudi_py.open_table(theirs), table):  # Apache Hudi's own reader takes as long as its statement
            found = whose.scan(columns=COLUMNS).to_table().sort_by("id").to_pylist()
            assert found == expected, f"{whose}, statement {number} of {seed}: {merge.sql()}"
    for path in (theirs, ours):
        assert oracle.read(path).select(COLUMNS).sort_by("id").to_pylist() == expected, f"{path} of {seed}"


TABLES = [(9, "mor"), (8, "mor"), (9, "cow"), (6, "cow")]


@pytest.mark.parametrize(("version", "kind"), cases(TABLES, "generated merges by Apache Hudi", 1))
def test_generated_merges(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    check(oracle, tmp_path, f"{SEED} {version} {kind}", 8, version, kind)


@pytest.mark.parametrize("batch", range(5))
@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_two_hundred_generated_merges(oracle: Oracle, tmp_path: Path, version: int, kind: str, batch: int) -> None:
    check(oracle, tmp_path, f"long {version} {kind} {batch}", 10, version, kind)


@pytest.mark.parametrize(("key", "ordering"), [("id", "ts"), ("id", None), (None, None)])
@pytest.mark.parametrize(("version", "kind"), list(product((6, 8, 9), ("cow", "mor"))))
def test_generated_merges_of_any_table(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, key: str | None, ordering: str | None
) -> None:
    seed = f"any {version} {kind} {key} {ordering}"
    check(oracle, tmp_path, seed, 6, version, kind, key, ordering)
