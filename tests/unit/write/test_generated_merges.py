"""Generated MERGE statements, one after the other on a table, compared with a model in Python."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.support.choice import SEED, cases
from tests.support.merges import COLUMNS, KEYS, Generator, row_of

OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.py.write.durable": "false"}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("v", pa.string()),
        ("n", pa.float64()),
        ("q", pa.int64()),
        ("p", pa.string()),
    ]
)


def check(path: Path, seed: str, count: int, version: int, kind: str, ordering: str | None, index: str) -> None:
    rnd = random.Random(seed)
    small = rnd.choice(["0", "104857600"])
    options = {**OPTIONS, "hoodie.index.type": index, "hoodie.parquet.small.file.limit": small}
    options["hoodie.spark.sql.merge.into.partial.updates"] = rnd.choice(["true", "false"])
    if index == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = "2"
    model = {key: row_of(rnd, key, 10) for key in rnd.sample(KEYS, 20)}
    hudi_py.write(
        path,
        pa.Table.from_pylist(list(model.values()), SCHEMA),
        "upsert",
        options,
        record_key="id",
        partition_by="p",
        ordering_by=ordering,
        table_type=kind,
        table_version=version,
    )
    table = hudi_py.open_table(path, options)
    # In logs, as in Apache Hudi, a late update sets the columns that no other update in them sets, and a late row whose
    # key a log has deleted loses against the row in the base file.
    generator = Generator(rnd, late=kind == "cow")
    for number in range(count):
        merge = generator.merge(11 + number)
        merge.run(table, pa.Table.from_pylist(list(merge.source), SCHEMA))
        model = merge.apply(model, ordered=ordering is not None)
        found = {row["id"]: row for row in table.scan(columns=COLUMNS).to_table().to_pylist()}
        assert found == model, f"statement {number} of {seed}: {merge.sql()}"
        if kind == "mor" and number % 12 == 11:
            table.compact()
    assert table.metadata.verify().ok


TABLES = list(product((6, 8, 9), ("cow", "mor"), ("ts", None), ("SIMPLE", "BUCKET")))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind", "ordering", "index"), cases(TABLES, "generated merges", 1))
def test_generated_merges(tmp_path: Path, version: int, kind: str, ordering: str | None, index: str) -> None:
    seed = f"{SEED} {version} {kind} {ordering} {index}"
    check(tmp_path / "t", seed, 6, version, kind, ordering, index)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("ordering", ["ts", None])
def test_two_hundred_generated_merges(tmp_path: Path, kind: str, ordering: str | None) -> None:
    check(tmp_path / "t", f"long {kind} {ordering}", 50, 9, kind, ordering, "SIMPLE")
