"""Rows that go to another partition than they ask for, through Spark: those made of two versions, and those of one key
in several partitions. Both ways to write are equal to `hudi_py.write` of the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from pyspark_hudi import write_table
from tests.support.choice import cases
from tests.unit.write import test_moving_merges, test_ties
from tests.unit.write.test_moving_merges import OF_CREATION, PARTIAL

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEWER = {**PARTIAL, "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
INDEXES = test_moving_merges.INDEXES
QUIET = {"hoodie.py.write.durable": "false", "hoodie.time.generator.max_expected_clock_skew_ms": "1"}
MERGED = (test_moving_merges.SCHEMA, test_moving_merges.FIRST, test_moving_merges.SECOND, test_moving_merges.THIRD)
TIED = (test_ties.SCHEMA, test_ties.FIRST, test_ties.SECOND, test_ties.FIRST)
DDL = {
    len(test_moving_merges.SCHEMA): "id string, ts long, p string, x int, y string, _hoodie_is_deleted boolean",
    len(test_ties.SCHEMA): "id string, ts long, p string, v long",
}


def stored(root: Path) -> list[dict[str, object]]:
    found = hudi_py.open_table(root).scan().to_table()
    assert hudi_py.open_table(root).metadata.verify().ok
    kept = [name for name in found.column_names if not name.startswith("_hoodie_") or name.endswith("partition_path")]
    return found.select(kept).sort_by([("id", "ascending"), ("p", "ascending")]).to_pylist()


@pytest.mark.parametrize(
    ("creation", "index", "kind"),
    cases(
        [
            (creation, index, kind)
            for creation in ("made", "chosen")
            for index in INDEXES
            for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
        ],
        "moving rows through spark",
        1,
    ),
)
def test_equal_to_the_core(spark: SparkSession, tmp_path: Path, creation: str, index: str, kind: str) -> None:
    schema, first, *later = MERGED if creation == "made" else TIED
    made = {**(PARTIAL if creation == "made" else NEWER), **QUIET, **INDEXES[index]}
    made |= {"hoodie.datasource.write.table.type": kind}
    after = {key: value for key, value in made.items() if key not in OF_CREATION}
    core, plain, spread = tmp_path / "core", tmp_path / "plain", tmp_path / "spread"

    def frame(rows: list[tuple[object, ...]]) -> DataFrame:
        whole = [row + (None,) * (len(schema) - len(row)) for row in rows]
        return spark.createDataFrame(whole, DDL[len(schema)])

    def to_core(rows: list[tuple[object, ...]], options: Mapping[str, str]) -> None:
        whole = [row + (None,) * (len(schema) - len(row)) for row in rows]
        data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in whole], schema)
        hudi_py.write(core, data, "upsert", options)

    for number, rows in enumerate([first, *later]):
        options = after if number else made
        to_core(rows, options)
        frame(rows).write.format("hudi-py").options(**options).mode("append").save(str(plain))
        write_table(frame(rows), str(spread), options={**options, "hoodie.py.local.max.bytes": "0"})
        expected = stored(core)
        assert len(expected) > number
        assert stored(plain) == expected
        assert stored(spread) == expected
