"""Procedures that show something of a table: Apache Hudi's rows and ours, of one table that both have changed.

Where their order is that of Java's hash tables, the rows are compared without it. docs/differences says what Apache
Hudi's procedures get wrong, which is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hudi_py
from pyspark_hudi import register_sql, sql
from tests.oracle.client import Oracle, OracleError

OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
NAME = "proc_t"


def write(path: str, ids: Sequence[int], ts: int, **more: Any) -> str:
    rows = [
        {"id": each, "ts": ts, "part": "ab"[each % 2], "price": each * 1.5, "none": None if each % 4 else "x"}
        for each in ids
    ]
    result = hudi_py.write(path, rows, options={**OPTIONS, **more.pop("options", {})}, **more)
    assert result.instant is not None
    return result.instant


def made(tmp_path: Path, version: int, kind: str, options: dict[str, str] | None = None) -> str:
    path = str(tmp_path / "t")
    new = {"record_key": "id", "ordering_by": "ts", "partition_by": "part", "table_type": kind}
    write(path, range(1, 7), 1, options={"hoodie.write.table.version": str(version), **(options or {})}, **new)
    return path


@pytest.fixture
def name(spark: SparkSession) -> str:
    sql(spark, f"DROP TABLE IF EXISTS {NAME}")
    return NAME


def compare(spark: SparkSession, oracle: Oracle, path: str, calls: Sequence[str], *, ordered: bool) -> None:
    for call in calls:
        expected = oracle.call(path, call.replace("TABLE", "table => '{table}'"), ordered=True)
        found = [row.asDict() for row in sql(spark, "CALL " + call.replace("TABLE", f"table => '{NAME}'")).collect()]
        if "show_rollback_detail" not in call:  # log blocks are undone by others, without deleting a file
            assert expected, call
        assert [list(row) for row in found[:1]] == [list(row) for row in expected[:1]], call
        if not ordered:
            found, expected = sorted(found, key=repr), sorted(expected, key=repr)
        assert found == expected, call


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), [(9, "cow"), pytest.param(6, "mor", marks=pytest.mark.long)])
def test_procedures_that_show_actions(
    spark: SparkSession, oracle: Oracle, tmp_path: Path, name: str, version: int, kind: str
) -> None:
    path = made(tmp_path, version, kind)
    undone = [write(path, [2, 3], 2)]
    table = hudi_py.open_table(path)
    table.rollback(undone[0])
    undone.append(write(path, [2, 3], 3))
    if version == 9:  # this procedure has no option for the version of the table
        oracle.call(path, f"rollback_to_instant(table => '{{table}}', instant_time => '{undone[1]}')")
    else:
        table.rollback(undone[1])
    write(path, [2, 3], 4)
    if version == 9:
        oracle.call(path, "run_clean(table => '{table}', retain_commits => 1)")
    write(path, range(1, 7), 5)
    if kind == "mor":
        table.compact()
    write(path, [1], 6)
    table.clean(options={"hoodie.clean.commits.retained": "1"})
    register_sql(spark, name, path)
    rolled = [row[0] for row in sql(spark, f"CALL show_rollbacks('{NAME}')").collect()]
    calls = [
        "show_rollbacks(TABLE)",
        "show_rollbacks(TABLE, limit => 1)",
        "show_cleans(TABLE)",
        "show_clean_plans(TABLE)",
    ]
    calls += ["show_cleans(TABLE, limit => 1, filter => 'total_files_deleted > 0')"]
    calls += [f"show_timeline(TABLE, limit => 1, startTime => '{undone[0]}', endTime => '9')"]
    calls += ["show_timeline(TABLE, filter => \"rollback_info is not null and action = 'rollback'\")"]
    calls += [
        f"commits_compare(TABLE, path => '{path}')",
        "show_file_status(TABLE, partition => 'a', file => 'parquet')",
    ]
    compare(spark, oracle, path, calls, ordered=True)
    calls = [f"show_rollback_detail(TABLE, instant_time => '{time}')" for time in rolled]
    compare(spark, oracle, path, ["show_cleans_metadata(TABLE)", *calls], ordered=False)


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), pytest.param(6, "cow", marks=pytest.mark.long)])
def test_procedures_that_show_files(
    spark: SparkSession, oracle: Oracle, tmp_path: Path, name: str, version: int, kind: str
) -> None:
    path = made(tmp_path, version, kind, {"hoodie.metadata.index.column.stats.enable": "true"})
    second = write(path, [2, 3, 4], 2)
    write(path, [7, 8], 3)
    rows = hudi_py.open_table(path).scan(filter="id = 2").to_table()
    oracle.write(path, rows.select(["id", "ts", "part", "price", "none"]))
    register_sql(spark, name, path)
    # of logs, Apache Hudi shows those of later instants, too
    until = f", max_instant => '{second if kind == 'cow' else '9'}'"
    view = [
        "",
        ", path_regex => 'a'",
        ", path_regex => '{b,c}'",
        ", path_regex => '[!b]*'",
        until,
        f"{until}, include_max => true",
    ]
    view += [", filter => \"partition = 'b'\""]
    calls = [f"show_fsview_all(TABLE{more})" for more in view] + [
        f"show_fsview_latest(TABLE{more})" for more in view[:2]
    ]
    calls += [
        "show_fsview_latest(TABLE, merge => false, partition_path => 'b')",
        "stats_file_sizes(TABLE, limit => 99)",
    ]
    calls += ["validate_metadata_table_files(TABLE, verbose => true)"]
    calls += ["show_metadata_table_column_stats(TABLE, targetColumns => 'id,price,none')"]
    if kind == "mor":
        logs = (f"{path}/{pattern}" for pattern in ("a/.*log*", "{a,c}/.[!_]*log.?_*", r"\\a/.*log*"))
        calls += [f"show_logfile_records(TABLE, log_file_path_pattern => '{each}')" for each in logs]
    compare(spark, oracle, path, calls, ordered=False)
    compare(spark, oracle, path, ["show_metadata_table_files(TABLE, partition => 'a')"], ordered=True)
    if kind == "mor":
        call = f"show_logfile_metadata(TABLE, log_file_path_pattern => '{path}/a/.*log*')"
        expected = oracle.call(path, call.replace("TABLE", "table => '{table}'"))
        found = [row.asDict() for row in sql(spark, "CALL " + call.replace("TABLE", f"'{NAME}'")).collect()]
        for row in (*expected, *found):
            row["header_metadata"] = json.loads(row["header_metadata"])
        assert sorted(found, key=repr) == sorted(expected, key=lambda row: row["instant_time"])


@pytest.mark.nightly
def test_overlaps_and_the_metadata_table(spark: SparkSession, oracle: Oracle, tmp_path: Path, name: str) -> None:
    """Apache Hudi finds overlaps in tables without partitions only."""
    path = str(tmp_path / "t")
    options = {"hoodie.metadata.index.column.stats.enable": "true"}
    write(path, range(1, 7), 1, options=options, record_key="id", ordering_by="ts")
    write(path, range(5, 12), 2)
    write(path, [20], 3)
    register_sql(spark, name, path)
    call = "show_metadata_column_stats_overlap(TABLE, targetColumns => 'id,price,part')"
    compare(spark, oracle, path, [call], ordered=True)
    with pytest.raises(OracleError, match="not empty"):
        oracle.call(path, "create_metadata_table(table => '{table}')")
    for procedure, word in (("delete", "Deleted"), ("create", "Created"), ("init", "Initialized")):
        ((text,),) = sql(spark, f"CALL {procedure}_metadata_table('{NAME}')").collect()
        assert text.startswith(f"{word} Metadata Table ")
        assert oracle.check(path)["problems"] == []
    ((text,),) = [tuple(row.values()) for row in oracle.call(path, "init_metadata_table(table => '{table}')")]
    ((ours,),) = sql(spark, f"CALL init_metadata_table('{NAME}')").collect()
    assert ours.partition(" (")[0] == text.partition(" (")[0]
