"""Indexes which Apache Hudi keeps up through random writes: what they leave out never holds a row that matches.

The figures of a column grow with every write, so that files differ in their bounds. There are nulls, NaN, both zeros,
texts whose order differs between Java and Spark, and from the fourth write on a promoted and an added column.
"""

from __future__ import annotations

import datetime
import decimal
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.expressions import parse_filter
from hudi_py.read import read_split
from tests.golden.test_metadata import predicates
from tests.oracle.client import Oracle
from tests.support.choice import cases

pytestmark = pytest.mark.nightly  # tests/golden/test_metadata.py asks tables that Apache Hudi wrote the same

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
TEXTS = ["a", "b", "é", "\ue000x", "\U0001f600", "", "zz", "q'"]
OPTIONS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.write.auto.upgrade": "false",
}


def rows(rnd: random.Random, ids: list[int], at: int) -> pa.Table:
    """Rows of the number-th write."""

    def some(kind: pa.DataType, make: Any) -> pa.Array:
        return pa.array([None if rnd.random() < 0.15 else make() for _ in ids], kind)

    columns = {
        "id": pa.array([f"k{number:03}" for number in ids]),
        "ts": pa.array([at] * len(ids), pa.int64()),
        "part": pa.array([f"p{number % 3}" for number in ids]),
        "i": some(pa.int64() if at > 3 else pa.int32(), lambda: rnd.randint(-50, 50) + 20 * at),
        "d": some(pa.float64(), lambda: rnd.choice([rnd.uniform(-5, 5) + at, float("nan"), -0.0, 1e300])),
        "s": some(pa.string(), lambda: rnd.choice(TEXTS) + str(at)),
        "dt": some(pa.date32(), lambda: datetime.date(2020 + at % 5, rnd.randint(1, 12), 1)),
        "tm": some(pa.timestamp("us", "UTC"), lambda: START + datetime.timedelta(days=at, seconds=rnd.randint(0, 999))),
        "de": some(pa.decimal128(12, 2), lambda: decimal.Decimal(rnd.randint(-9999, 9999)).scaleb(-2) + at),
    }
    if at > 3:
        columns["x"] = some(pa.int64(), lambda: rnd.randint(0, 9) + at)
    return pa.table(columns)


def check(path: str, rnd: random.Random) -> int:
    """Compares what indexes leave out with the rows; how many slices were left out."""
    table = hudi_py.open_table(path)
    off = hudi_py.open_table(path, {"hoodie.metadata.enable": "false"})
    held = {
        (split.partition, split.file_id): pa.Table.from_batches(list(read_split(split)), split.output_schema)
        for split in off.scan().splits()
    }
    assert {(split.partition, split.file_id) for split in table.scan().splits()} == held.keys()
    # in one order, whatever the files are called, so that the same conditions and keys are asked for each time
    whole = pa.concat_tables(held.values()).sort_by("_hoodie_record_key")
    pruned = 0
    for column in whole.schema.names[5:]:
        for text in rnd.sample(asked := list(predicates(column, whole[column])), min(6, len(asked))):
            condition = parse_filter(text, whole.schema)
            assert condition is not None
            kept = {(split.partition, split.file_id) for split in table.scan(filter=text).splits()}
            for place in held.keys() - kept:
                assert condition.evaluate(held[place]).true_count == 0, f"{text} matches rows of {place}"
            pruned += len(held) - len(kept)
    for key in whole["_hoodie_record_key"].to_pylist()[::9]:
        found = table.scan(keys=[key]).to_table().num_rows
        assert found == pc.sum(pc.equal(whole["_hoodie_record_key"], key)).as_py()
    return pruned


@pytest.mark.parametrize(
    ("version", "kind", "more"),
    cases(
        [
            (9, "mor", {"hoodie.metadata.record.index.enable": "true"}),
            (9, "cow", {"hoodie.metadata.index.bloom.filter.enable": "true"}),
            (6, "mor", {}),
        ],
        "skipping",
        1,
    ),
)
def test_nothing_that_matches_is_left_out(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, more: dict[str, str]
) -> None:
    rnd = random.Random(f"{version} {kind}")
    path, options = str(tmp_path / "t"), {**OPTIONS, **more, "hoodie.write.table.version": str(version)}
    oracle.write(
        path, rows(rnd, list(range(40)), 1), "insert", key="id", ordering="ts", partition="part", type=kind,
        table_version=version, name="t", options=options,
    )  # fmt: skip
    pruned = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for at, operation in enumerate(["upsert", "delete", "upsert", "insert", "upsert"], 2):
            ids = rnd.sample(range(60), 12) if operation != "insert" else list(range(100, 106))
            oracle.write(path, rows(rnd, ids, at), operation, options=options)
            pruned += check(path, rnd)
    assert pruned > 0
