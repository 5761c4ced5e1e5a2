"""Rows made of two versions where the index spans all partitions: they move to the partition that they are made with.
The same rows by Apache Hudi and by us into equal tables, then by turns into one."""

from __future__ import annotations

import random
import shutil
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import cases

pytestmark = pytest.mark.slow

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.parquet.small.file.limit": "0"}
RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
INDEXES = {
    "simple": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"},
    "bloom": {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.update.partition.path": "true"},
    "record": {**RECORD_INDEX, "hoodie.record.index.update.partition.path": "true"},
    "record stays": {**RECORD_INDEX, "hoodie.record.index.update.partition.path": "false"},
}
PAYLOADS = {
    "PartialUpdateAvroPayload": True,
    "OverwriteNonDefaultsWithLatestAvroPayload": False,
}
"""Whether the greater ordering value wins."""
SCHEMA = pa.schema(
    {"id": pa.string(), "ts": pa.int64(), "p": pa.string(), "n": pa.int64(), "text": pa.string(), "x": pa.float64()}
)
CASES = list(product(PAYLOADS, (6, 8, 9), ("cow", "mor"), INDEXES))


def row(rnd: random.Random, key: str, ts: int) -> dict[str, object]:
    def maybe(value: object) -> object:
        return value if rnd.random() < 0.6 else None

    return {
        "id": key,
        "ts": ts,
        "p": rnd.choice("abc"),
        "n": maybe(rnd.randint(1, 99)),
        "text": maybe(f"t{rnd.randint(0, 99)}"),
        "x": maybe(rnd.randint(0, 99) / 4),
    }


@pytest.mark.parametrize(("name", "version", "kind", "index"), cases(CASES, "merges that move", 1))
def test_the_same_rows(oracle: Oracle, tmp_path: Path, name: str, version: int, kind: str, index: str) -> None:
    rnd = random.Random(f"{name} {version} {kind} {index}")
    ours, theirs = tmp_path / "t", tmp_path / "other" / "t"
    payload = {
        "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{name}",
        "hoodie.parquet.small.file.limit": "0",
    }
    options = {**INDEXES[index], **payload}

    def rows(at: int, count: int) -> pa.Table:
        """Late ones and new keys among them; some keys twice, in several partitions, the newer row last."""
        keys = [f"k{number}" for number in range(40)]
        chosen = rnd.sample(keys, count)
        made = [row(rnd, key, 10 * at + rnd.randint(-15, 5) if at > 1 else 10) for key in chosen]
        again = [row(rnd, each["id"], each["ts"] + 1) for each in made[:5]] if at > 1 else []  # type: ignore[arg-type,operator]
        return pa.Table.from_pylist([*made, *again], SCHEMA)

    hudi_py.write(
        ours,
        rows(1, 25),
        options={**QUICK, **options},
        record_key="id",
        ordering_by="ts",
        partition_by="p",
        table_type=kind,
        table_version=version,
    )
    shutil.copytree(ours, theirs)
    table = hudi_py.open_table(ours, {**QUICK, **INDEXES[index]})

    # of a row that stays, Apache Hudi shows the partition that it is in
    names = [name for name in SCHEMA.names if name != "p" or "stays" not in index]

    def of(found: pa.Table) -> list[dict[str, object]]:
        return found.select([*names, "_hoodie_partition_path"]).sort_by("id").to_pylist()  # type: ignore[no-any-return]

    for at in (2, 3):
        given = rows(at, 20)
        table.upsert(given)
        oracle.write(theirs, given, options=options)
        expected = of(oracle.read(theirs))
        assert of(table.scan().to_table()) == expected
    assert of(oracle.read(ours)) == expected
    oracle.write(ours, rows(4, 20), options=options)
    table.upsert(rows(5, 20))
    expected = of(oracle.read(ours))
    assert of(table.scan().to_table()) == expected
    assert len({each["id"] for each in expected}) == len(expected)
    assert table.metadata.verify().ok
    if kind == "mor":
        table.compact()
        assert of(table.scan().to_table()) == expected
