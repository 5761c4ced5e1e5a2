"""Apache Hudi's table functions in Spark SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from pyspark_hudi import register
from tests.connector.conftest import CONNECT
from tests.connector.tables import PARTITIONED, read, rows
from tests.golden.expectations import CDC, INCREMENTAL
from tests.golden.tables import Extracted, load

pytestmark = pytest.mark.spark

# What Apache Hudi's functions answer, as unit/read/test_relations.py says
EXPECTED = json.loads((Path(__file__).parents[1] / "unit" / "read" / "data" / "relations.json").read_text("utf-8"))


@pytest.fixture(scope="module", autouse=True)
def functions(spark: SparkSession) -> None:
    register(spark)


def ask(spark: SparkSession, function: str, path: object, *more: str) -> DataFrame:
    return spark.sql(f"SELECT * FROM {function}({', '.join([repr(str(path)), *more])})")


def listed(frame: DataFrame) -> list[list[Any]]:
    found = [row.asDict() for row in frame.collect()]
    for row in found:
        if "Base_File_Path" in row:
            row["Base_File_Path"] = row["Base_File_Path"].rsplit("/", 1)[-1]
    return sorted((list(row.values()) for row in found), key=repr)


def test_timeline_and_file_slices_as_apache_hudi_shows_them(spark: SparkSession, golden: Extracted) -> None:
    path = golden("v9_mor_archived")
    expected = EXPECTED["v9_mor_archived"]
    assert listed(ask(spark, "hudi_query_timeline", path)) == sorted(expected["timeline"], key=repr)
    assert listed(ask(spark, "hudi_filesystem_view", path)) == sorted(expected["files"], key=repr)
    archived = ask(spark, "hudi_query_timeline", path, "true")
    assert archived.where("State = 'COMPLETED'").count() == 31
    assert ask(spark, "hudi_query_timeline", path, "'false'").count() == 9
    assert ask(spark, "hudi_filesystem_view", path, "'*'").count() == 0
    empty = spark.sql(f"SELECT count(*) c FROM hudi_filesystem_view(path => '{path}', partition => 'none')")
    assert empty.first() == (0,)


@pytest.mark.classic_only
def test_metadata_has_the_listing_of_the_table(spark: SparkSession, golden: Extracted) -> None:
    path = golden("v9_cow_clustering")
    files = ask(spark, "hudi_metadata", path).where("type in (1, 2)").select("key", "type", "filesystemMetadata")
    found = {row["key"]: row["filesystemMetadata"] for row in files.collect()}
    partitions = {"city=lima", "city=oslo", "city=pune"}
    assert set(found) == {"__all_partitions__", *partitions}
    for partition in partitions:
        listed = {file.name: file.stat().st_size for file in Path(path, partition).glob("*.parquet")}
        assert {name: value["size"] for name, value in found[partition].items()} == listed


CHANGES = ("v6_mor_ops", "v9_cow_evolve_types", "v9_mor_cdc_op_key")


@pytest.mark.parametrize("name", CHANGES[:1] if CONNECT else CHANGES)
def test_changes_are_those_of_apache_hudi(spark: SparkSession, golden: Extracted, name: str) -> None:
    asked = {CDC: "cdc", INCREMENTAL: "latest_state"}
    first = {q.kind: q for q in reversed(load()[name].expected) if q.kind in asked and q.file and q.begin}
    assert first
    for kind, query in first.items():
        bounds = [repr("earliest" if query.begin == "000" else query.begin)] + [repr(query.end)] * bool(query.end)
        found = ask(spark, "hudi_table_changes", golden(name), repr(asked[kind]), *bounds).toArrow()
        assert found.column_names == query.rows().column_names
        assert_rows_equal(found, query.rows())


@pytest.mark.skipif(CONNECT, reason="rows are made in the same way there")
@pytest.mark.parametrize("name", ["v9_cow_all_types", "v9_mor_all_types"])
def test_every_type_comes_through(spark: SparkSession, golden: Extracted, name: str) -> None:
    plain = read(spark, str(golden(name)))
    changes = ask(spark, "hudi_table_changes", golden(name), "'latest_state'", "'earliest'")
    assert changes.schema == plain.schema
    assert_rows_equal(changes.toArrow(), plain.toArrow())


@pytest.mark.classic_only
def test_changes_of_a_range_with_options(spark: SparkSession, path: str) -> None:
    for n in range(3):
        hudi_py.write(path, [{"id": n, "p": "a", "ts": n, "v": n}], options=PARTITIONED)
    times = hudi_py.open_table(path).history().column("completion_time").to_pylist()
    call = f"hudi_table_changes('{path}', 'latest_state', begin => '{times[0]}', end => '{times[1]}')"
    assert rows(spark.sql(f"SELECT id FROM {call}")) == [(1,)]
    chosen = ask(spark, "hudi_table_changes", path, "'latest_state'", "'000'", "null", "map('columns', 'v,id')")
    assert chosen.columns == ["v", "id"]
    assert rows(chosen) == [(0, 0), (1, 1), (2, 2)]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW changed AS SELECT * FROM {call}")
    assert spark.sql("SELECT count(*) FROM changed a JOIN changed b USING (id)").first() == (1,)


REFUSED = (
    ("hudi_table_changes('{path}', 'latest', '000')", "does not support the format 'latest'.*latest_state and cdc"),
    ("hudi_table_changes('rel', 'cdc', '000')", "relative path 'rel'"),
    ("hudi_table_changes('{path}', 'latest_state', '000', null, 'x')", "options of hudi_table_changes must be a map"),
    ("hudi_query_timeline('/no/such/table')", "TableNotFoundError.*/no/such/table"),
    ("hudi_metadata('{path}', map('storag.x', '1'))", "Unknown option storag.x"),
    ("hudi_filesystem_view('{path}', cast(rand() as string))", "The argument 'partition' of .* must be a constant"),
)


def test_refusals_say_what_to_do(spark: SparkSession, path: str) -> None:
    hudi_py.write(path, [{"id": 1, "p": "a", "ts": 1, "v": 1}], options=PARTITIONED)
    # when the query is analysed: what fails as it runs has no message in its first line, whatever Spark's settings
    for call, message in REFUSED:
        with pytest.raises(AnalysisException, match=message):
            spark.sql(f"SELECT * FROM {call.format(path=path)}").schema  # noqa: B018
    files = [file for place in (".hoodie", ".hoodie/timeline") for file in Path(path, place).iterdir()]
    assert len([file for file in files if file.name.endswith((".requested", ".lock"))]) == 1
