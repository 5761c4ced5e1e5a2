"""The core reads the tables of old releases as Apache Hudi 1.2.0 does."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import hudi_py
from hudi_py.model.instant import Action
from hudi_py.testing.rows import assert_rows_equal
from tests.golden.old.tables import OldQuery, extract, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("old")


@pytest.mark.parametrize("query", [pytest.param(query, id=query.id) for found in load().values() for query in found])
def test_rows_are_those_of_apache_hudi(folder: Path, query: OldQuery) -> None:
    table = hudi_py.open_table(str(extract(query.table, folder)))
    saved = [instant.time for instant in table.timeline.completed if instant.action is Action.SAVEPOINT]
    # What a savepoint keeps is there: it is read as the release which wrote it does, though 1.2.0 refuses it
    if query.newest is not None and "Cleaner cleaned up" in query.newest and query.as_of not in saved:
        with pytest.raises(hudi_py.HistoryCleanedError, match=str(query.as_of)):
            table.scan(as_of=query.as_of).to_table()
        return
    if query.as_of is not None:
        scan = table.scan(as_of=query.as_of)
    else:
        scan = table.scan(query_type=query.kind, begin=query.begin)
    rows = scan.to_table()
    assert rows.schema.equals(scan.schema)
    assert_rows_equal(rows, query.rows())


@pytest.mark.parametrize("name", [name for name in load() if name.endswith(("_cow", "_mor", "_layout_0"))])
def test_partitions_are_chosen_by_their_path(folder: Path, name: str) -> None:
    table = hudi_py.open_table(str(extract(name, folder)))
    rows = table.scan().to_table()
    for condition in ("city = 'oslo'", "city = 'rome'", "city = 'default'", "city is null"):
        scan = table.scan(filter=condition)
        chosen = [row for row in rows.to_pylist() if _matches(condition, row["city"])]
        assert sorted(row["id"] for row in scan.to_table().to_pylist()) == sorted(row["id"] for row in chosen)
        assert scan.count() == len(chosen)


def _matches(condition: str, city: str | None) -> bool:
    return city is None if condition == "city is null" else f"city = '{city}'" == condition


@pytest.mark.parametrize("name", ["v2_cow", "v2_mor_layout_0", "v3_mor", "v4_cow", "v5_12_mor"])
def test_they_are_not_written(folder: Path, name: str) -> None:
    path = extract(name, folder)
    before = sorted(path.rglob("*"))
    table = hudi_py.open_table(str(path))
    rows = table.scan().to_table().drop_columns([n for n in table.schema.names if n.startswith("_hoodie_commit")])
    for operation in ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite_table"):
        with pytest.raises(hudi_py.UnsupportedTableError, match=r"Cannot write to table .* upgrade it"):
            hudi_py.write(str(path), rows, operation)
    assert sorted(path.rglob("*")) == before


def test_a_compaction_that_runs_on_layout_0(folder: Path, tmp_path: Path) -> None:
    """Its plan is only in the auxiliary folder: the request was renamed when it began."""
    expected = hudi_py.open_table(str(extract("v2_mor_layout_0", folder))).scan().to_table()
    path = extract("v2_mor_layout_0", tmp_path)
    (requested,) = (path / ".hoodie").glob("*.compaction.requested")
    requested.rename(requested.with_suffix(".inflight"))
    assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), expected)


def test_times_of_14_and_17_digits(folder: Path) -> None:
    """They compare as texts: an instant of 14 digits comes before every one of 17 digits of its second."""
    table = hudi_py.open_table(str(extract("v2_mor", folder)))
    instants = [instant.time for instant in table.timeline.write_completed]
    assert {len(time) for time in instants} == {14}
    for before, time in itertools.pairwise(instants):
        expected = table.scan(as_of=time).to_table()
        readable = f"{time[:4]}-{time[4:6]}-{time[6:8]} {time[8:10]}:{time[10:12]}:{time[12:]}"
        for same in (time + "000", readable):
            assert_rows_equal(table.scan(as_of=same).to_table(), expected)
        assert_rows_equal(table.scan(as_of=before + "999").to_table(), table.scan(as_of=before).to_table())


@pytest.mark.parametrize("name", ["v2_mor", "v5_12_mor"])
def test_log_files_to_which_several_instants_appended(folder: Path, tmp_path: Path, name: str) -> None:
    """As on HDFS, where releases before 1.0 append to a log file for as long as it is small."""
    expected = hudi_py.open_table(str(extract(name, folder))).scan().to_table()
    path = extract(name, tmp_path)
    appended = 0
    for log in sorted(path.glob("*/.*.log.*"), key=lambda file: int(file.name.split(".log.")[1].partition("_")[0])):
        first = log.with_name(log.name.partition(".log.")[0] + ".log.1")
        appended += first.exists()
        with first.open("ab") as file:
            file.write(log.read_bytes())
        log.unlink()
    assert appended > 3
    assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), expected)


@pytest.mark.parametrize("version", ["0", "1", "7", "10"])
def test_other_versions_are_refused(tmp_path: Path, version: str) -> None:
    path = extract("v2_cow", tmp_path)
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    assert "hoodie.table.version=2\n" in text
    properties.write_text(text.replace("hoodie.table.version=2\n", f"hoodie.table.version={version}\n"))
    with pytest.raises(hudi_py.UnsupportedTableError, match=f"hoodie.table.version={version};"):
        hudi_py.open_table(str(path))


def test_a_table_without_version_is_refused(tmp_path: Path) -> None:
    path = extract("v2_cow", tmp_path)
    properties = path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=2\n", ""))
    with pytest.raises(hudi_py.UnsupportedTableError, match=r"hoodie.table.version=none"):
        hudi_py.open_table(str(path))
