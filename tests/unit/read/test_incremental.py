from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, HistoryCleanedError, UnsupportedTableError
from hudi_py.formats.base.parquet_writer import BaseFileWriter
from hudi_py.formats.log import HeaderKey
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action
from hudi_py.model.names import BaseFileName, FileId
from hudi_py.timeline.commits import InstantRange, read_commits
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from tests.unit.read.tables import FILE_ID, MadeTable, completion, deletes, instant, row
from tests.unit.timeline.archives import entry, put_archive, put_manifest, put_run

VERSIONS = [6, 9]
OTHER_ID = FILE_ID.replace("1", "2")


def made(path: Path, version: int = 9, **how: Any) -> MadeTable:
    table = MadeTable(str(path / "t"), version=version, **how)
    if version == 6:
        table.commit = _with_time(table, table.commit)  # type: ignore[method-assign]
    return table


def _with_time(table: MadeTable, commit: Any) -> Any:
    """Layout 1 knows completion times by modification times: those of writing are not the ones meant."""

    def commit_then(at: int, *, completed: int | None = None, **more: Any) -> None:
        commit(at, completed=completed, **more)
        for path in Path(table.uri, ".hoodie").glob(f"{instant(at)}.*"):
            if path.suffix in (".commit", ".deltacommit", ".replacecommit"):
                moment = datetime.strptime(completion(completed or at) + "+0000", "%Y%m%d%H%M%S%f%z").timestamp()
                os.utime(path, (moment, moment))

    return commit_then


def stat(path: str, **more: Any) -> WriteStat:
    name = path.rpartition("/")[2].lstrip(".")
    return WriteStat(name.partition("_")[0], path, path.rpartition("/")[0], **more)


def time(table: MadeTable, at: int) -> str:
    """Where the number-th write lies on the axis of the table's ranges."""
    return instant(at) if table.config.version == 6 else completion(at)


def read(
    table: MadeTable, begin: str | datetime | None = None, end: str | datetime | None = None, **how: Any
) -> list[tuple[str, str]]:
    """Key and name of the rows, sorted."""
    scan = hudi_py.open_table(table.uri).scan(query_type="incremental", begin=begin, end=end, **how)
    found = scan.to_table()
    assert found.schema.equals(scan.schema)
    assert scan.count() == found.num_rows
    return sorted(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


def three_commits(table: MadeTable) -> MadeTable:
    """Copy-on-write: a and b, then b changed, then a changed and c added in a group of its own."""
    first = table.base(1, [row("a", 1, "a1"), row("b", 1, "b1")])
    table.commit(1, stats=(stat(first),))
    rows = table.rows([row("a", 1, "a1")], 1), table.rows([row("b", 2, "b2")], 2)
    second = rewrite(table, 2, rows)
    table.commit(2, stats=(stat(second),))
    third = rewrite(table, 3, (table.rows([row("a", 3, "a3")], 3), rows[1]))
    other = table.base(3, [row("c", 3, "c3")], file_id=OTHER_ID)
    table.commit(3, stats=(stat(third), stat(other)))
    return table


def rewrite(table: MadeTable, at: int, parts: Sequence[Any], file_id: str = FILE_ID) -> str:
    """A base file which keeps rows of earlier commits as they were."""
    path = str(BaseFileName(FileId(file_id), "0-1-2", instant(at)))
    rows = pa.concat_tables(parts)
    with BaseFileWriter(table.storage, path, rows.schema, "{}", bloom=None) as writer:
        writer.write(rows)
    return path


@pytest.mark.parametrize("version", VERSIONS)
def test_ranges_are_open_below_and_closed_above(tmp_path: Path, version: int) -> None:
    table = three_commits(made(tmp_path, version, mor=False))
    one, two, three = (time(table, at) for at in (1, 2, 3))
    assert read(table, "000") == [("a", "a3"), ("b", "b2"), ("c", "c3")]
    assert read(table, one) == [("a", "a3"), ("b", "b2"), ("c", "c3")]
    assert read(table, two) == [("a", "a3"), ("c", "c3")]
    assert read(table, three) == []
    assert read(table, "000", one) == [("a", "a1"), ("b", "b1")]
    assert read(table, "000", two) == [("a", "a1"), ("b", "b2")]
    assert read(table, one, two) == [("b", "b2")]
    assert read(table, two, two) == []
    assert read(table, three, one) == []


def test_times_between_commits_and_readable_times(tmp_path: Path) -> None:
    table = three_commits(made(tmp_path, mor=False))
    assert read(table, "2024-01-01 01:15:00", "2024-01-01T02:45:00") == [("a", "a1"), ("b", "b2")]
    # completed at 02:30, begun at 02:00
    assert read(table, datetime(2024, 1, 1, 2, 0), "2024-01-01 02:29:59.999") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_without_begin_the_last_commit_of_the_range(tmp_path: Path, version: int) -> None:
    table = three_commits(made(tmp_path, version, mor=False))
    assert read(table) == [("a", "a3"), ("c", "c3")]
    assert read(table, end=time(table, 2)) == [("b", "b2")]
    assert read(table, end="000") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_filter_columns_keys_partitions_and_limit_apply(tmp_path: Path, version: int) -> None:
    table = three_commits(made(tmp_path, version, mor=False))
    opened = hudi_py.open_table(table.uri)
    scan = opened.scan(columns=["name"], filter="id < 'c'", query_type="incremental", begin="000")
    assert sorted(scan.to_table().to_pydict()["name"]) == ["a3", "b2"]
    assert read(table, "000", keys=["b", "x"]) == [("b", "b2")]
    assert read(table, "000", partitions=[]) == []
    assert opened.scan(query_type="incremental", begin="000", limit=2).count() == 2
    filters = {"hoodie.datasource.read.incr.filters": "id >= 'b', id < 'c'"}
    assert read(table, "000", options=filters) == [("b", "b2")]
    assert read(table, "000", filter="id < 'b'", options=filters) == []


def test_options_stand_for_arguments(tmp_path: Path) -> None:
    table = three_commits(made(tmp_path, mor=False))
    options = {"hoodie.datasource.query.type": "incremental", "read.start-commit": completion(1)}
    scan = hudi_py.open_table(table.uri, {**options, "read.end-commit": completion(2)}).scan()
    assert scan.to_table()["id"].to_pylist() == ["b"]
    with pytest.raises(ConfigError, match=r"begin='000' contradicts option read\.start-commit"):
        hudi_py.open_table(table.uri, options).scan(begin="000")
    with pytest.raises(ConfigError, match="as_of"):
        hudi_py.open_table(table.uri, options).scan(as_of=instant(2))
    with pytest.raises(ConfigError, match="begin"):
        hudi_py.open_table(table.uri).scan(begin="000")
    # as in Apache Hudi, options of ranges do not count in other queries
    assert hudi_py.open_table(table.uri, {"read.start-commit": "000"}).scan().count() == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_path_globs(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version, properties={"hoodie.table.partition.fields": "name"})
    for at, path in enumerate(("de/berlin", "de/bonn", "fr/paris"), 1):
        table.partition(path)
        table.commit(at, stats=(stat(table.base(at, [row(path, at, path)], partition=path)),))
    key = "hoodie.datasource.read.incr.path.glob"
    assert [name for name, _ in read(table, "000", options={key: "/de/*"})] == ["de/berlin", "de/bonn"]
    assert [name for name, _ in read(table, "000", options={key: "/{fr,de}/p*"})] == ["fr/paris"]
    assert read(table, "000", options={key: "/it/*"}) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_logs_of_the_range_are_merged_among_themselves(tmp_path: Path, version: int) -> None:
    """`MergeOnReadIncrementalRelationV2`, 1.2.0: what is before the range does not count."""
    table = made(tmp_path, version)
    table.commit(1, stats=(stat(table.base(1, [row("a", 10, "a1"), row("b", 10, "b1")])),))
    table.commit(2, stats=(stat(table.log(2, [row("a", 5, "late"), row("b", 11, "b2")], base_at=1)),))
    table.commit(3, stats=(stat(table.log(3, [row("c", 1, "c3")], deletes("b"), base_at=1, number=2)),))
    one, two = time(table, 1), time(table, 2)
    assert read(table, one, two) == [("a", "late"), ("b", "b2")]
    assert read(table, one) == [("a", "late"), ("c", "c3")]
    assert read(table, "000") == [("a", "a1"), ("c", "c3")]
    assert read(table, "000", two) == [("a", "a1"), ("b", "b2")]


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_from_before_the_range_outrank_nothing_in_it(tmp_path: Path, version: int) -> None:
    """The base file is one of the range, but its row of `a` was only copied into it."""
    table = made(tmp_path, version)
    table.commit(1, stats=(stat(table.base(1, [row("a", 10, "a1")])),))
    rows = table.rows([row("a", 10, "a1")], 1), table.rows([row("b", 1, "b2")], 2)
    table.commit(2, stats=(stat(rewrite(table, 2, rows)),), action=Action.COMMIT)
    table.commit(3, stats=(stat(table.log(3, [row("a", 5, "late")], base_at=2)),))
    assert read(table, time(table, 1)) == [("a", "late"), ("b", "b2")]
    assert read(table, "000") == [("a", "a1"), ("b", "b2")]


def test_a_log_file_which_later_commits_went_on_with(tmp_path: Path) -> None:
    """Table version 6: the size in a commit's metadata is that of then, and blocks after the range do not count."""
    table = made(tmp_path, 6)
    table.commit(1, stats=(stat(table.base(1, [row("a", 1, "a1")])),))
    path = table.log(2, [row("a", 2, "a2")], base_at=1)
    first = table.storage.read(path)
    table.log(3, [row("a", 3, "a3"), row("b", 3, "b3")], base_at=1)
    table.put_log(first + table.storage.read(path), 3, base_at=1)
    table.commit(2, stats=(stat(path, file_size=len(first)),))
    table.commit(3, stats=(stat(path, file_size=len(table.storage.read(path))),))
    assert read(table, instant(1), instant(2)) == [("a", "a2")]
    assert read(table, instant(1)) == [("a", "a3"), ("b", "b3")]
    assert read(table, instant(2)) == [("a", "a3"), ("b", "b3")]


def test_partial_updates_are_merged_over_the_base(tmp_path: Path) -> None:
    """Apache Hudi 1.2.0 returns such rows with bytes of other columns."""
    table = made(tmp_path)
    table.commit(1, stats=(stat(table.base(1, [row("a", 1, "a1"), row("b", 1, "b1")])),))
    partial = pa.schema([field for field in table.schema if field.name != "name"])
    changed = table.log(2, [{"id": "a", "ts": 2, "price": 9.0}], schema=partial, header={HeaderKey.IS_PARTIAL: "true"})
    table.commit(2, stats=(stat(changed),))
    scan = hudi_py.open_table(table.uri).scan(["id", "name", "price"], query_type="incremental", begin=completion(1))
    assert scan.to_table().to_pylist() == [{"id": "a", "name": "a1", "price": 9.0}]


@pytest.mark.parametrize("version", VERSIONS)
def test_replaced_groups_are_gone_and_rewritten_rows_come_once(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version, mor=False)
    first = table.base(1, [row("a", 1, "a1")])
    table.commit(1, stats=(stat(first),))
    # what a clustering does: rows keep their commit times
    moved = rewrite(table, 2, [table.rows([row("a", 1, "a1")], 1, file_id=OTHER_ID)], OTHER_ID)
    table.commit(2, action=Action.REPLACE_COMMIT, stats=(stat(moved),), replaced={"": (FILE_ID,)})
    assert read(table, "000") == [("a", "a1")]
    assert read(table, "000", time(table, 1)) == [("a", "a1")]
    assert read(table, time(table, 1)) == []
    third = "33333333-2222-3333-4444-555555555555-0"
    new = table.base(3, [row("z", 3, "z3")], file_id=third)
    table.commit(3, action=Action.REPLACE_COMMIT, stats=(stat(new),), replaced={"": (OTHER_ID,)})
    assert read(table, "000") == [("z", "z3")]
    assert read(table, time(table, 1), time(table, 2)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_which_the_answer_needs_is_gone(tmp_path: Path, version: int) -> None:
    table = three_commits(made(tmp_path, version, mor=False))
    one, two, three = (time(table, at) for at in (1, 2, 3))
    key = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
    off, on = {key: "false"}, {key: "true"}
    table.storage.delete(f"{FILE_ID}_0-1-2_{instant(1)}.parquet")
    assert read(table, "000", options=off) == [("a", "a3"), ("b", "b2"), ("c", "c3")], "only the newest is needed"
    assert read(table, "000", two, options=off) == [("a", "a1"), ("b", "b2")]
    with pytest.raises(HistoryCleanedError, match=f"from {one} to {one}"):
        read(table, "000", one, options=off)
    # of the newest state, a has changed since: the rows which Apache Hudi returns
    assert read(table, "000", two, options=on) == [("b", "b2")]
    table.storage.delete(f"{FILE_ID}_0-1-2_{instant(2)}.parquet")
    with pytest.raises(HistoryCleanedError, match="cleaned"):
        read(table, "000", two, options=off)
    assert read(table, "earliest", two) == []
    assert read(table, "earliest") == [("a", "a3"), ("b", "b2"), ("c", "c3")]
    default = {6: HistoryCleanedError, 9: None}[version]
    if default is not None:
        with pytest.raises(default):
            read(table, "000", two)
    else:
        assert read(table, "000", two) == [("b", "b2")]
    assert read(table, two, three) == [("a", "a3"), ("c", "c3")]


def test_texts_of_escaped_paths_in_the_fallback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As in any range: the text is that of the path. Only the newest state holds the rows here."""
    path = str(tmp_path / "t")
    options = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    rows = pa.table({"id": ["a"], "part": ["50%"]})
    written = [hudi_py.write(path, rows, "insert", options, record_key="id", partition_by="part")]
    hudi_py.write(path, pa.table({"id": ["b"], "part": ["50%"]}), "insert", options)
    (gone,) = Path(path, "50%25").glob(f"*_{written[0].instant}.parquet")
    gone.unlink()
    fallback = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    found = hudi_py.open_table(path).scan(query_type="incremental", begin="000", options=fallback).to_table()
    assert found["part"].to_pylist() == ["50%25", "50%25"]
    assert "files of the range are gone" in caplog.text
    assert "fallback.fulltablescan.enable=false makes this an error" in caplog.text


@pytest.mark.parametrize("version", VERSIONS)
def test_the_earliest_instant_is_the_first_that_can_be_read(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version, mor=False)
    table.commit(1, stats=(stat(table.base(1, [row("a", 1, "a1")])),))
    table.commit(2, stats=(stat(table.base(2, [row("b", 2, "b2")], file_id=OTHER_ID)),))
    table.commit(3, stats=(stat(table.base(3, [row("a", 3, "a3")])),))
    table.storage.delete(f"{FILE_ID}_0-1-2_{instant(1)}.parquet")
    end = time(table, 2)
    assert read(table, "earliest", end) == [("b", "b2")]
    with pytest.raises(HistoryCleanedError, match=f"up to this end is {end}"):
        read(table, "000", end, options={"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"})
    with pytest.raises(ConfigError, match="earliest"):
        read(table, "000", "earliest")


def archive(table: MadeTable, paths: Mapping[int, Sequence[str]]) -> None:
    """Moves commits into the archive."""
    if table.config.version == 6:
        put_archive(
            table.storage,
            *[[entry(instant(at), paths={"": list(found)}, at=completion(at))] for at, found in paths.items()],
        )
    else:
        runs = []
        for at in paths:
            name = table.layout.completed_name(instant(at), Action.COMMIT, completion(at))
            metadata = table.storage.read(table.layout.path(name))
            instants = {"instantTime": instant(at), "completionTime": completion(at), "action": "commit"}
            runs.append(put_run(table.storage, [{**instants, "metadata": metadata}]))
        put_manifest(table.storage, 1, runs)
    for at in paths:
        table.storage.delete(table.layout.path(table.layout.completed_name(instant(at), Action.COMMIT, completion(at))))


@pytest.mark.parametrize("version", VERSIONS)
def test_archived_commits_count(tmp_path: Path, version: int) -> None:
    table = three_commits(made(tmp_path, version, mor=False))
    one, two = time(table, 1), time(table, 2)
    archive(table, {at: [f"{FILE_ID}_0-1-2_{instant(at)}.parquet"] for at in (1, 2)})
    off = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"}
    assert read(table, "000", options=off) == [("a", "a3"), ("b", "b2"), ("c", "c3")]
    assert read(table, one, options=off) == [("a", "a3"), ("b", "b2"), ("c", "c3")]
    assert read(table, "000", one, options=off) == [("a", "a1"), ("b", "b1")]
    assert read(table, one, two, options=off) == [("b", "b2")]
    assert read(table, two, options=off) == [("a", "a3"), ("c", "c3")]
    assert read(table, "earliest") == [("a", "a3"), ("b", "b2"), ("c", "c3")]
    opened = hudi_py.open_table(table.uri)
    assert opened.instants().num_rows == 1
    assert opened.instants(archived=True)["instant"].to_pylist() == [instant(at) for at in (1, 2, 3)]
    assert opened.history(archived=True)["num_files"].to_pylist() == [1, 1, 2]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_archive_is_read_only_where_a_range_reaches_it(tmp_path: Path, version: int) -> None:
    table = three_commits(made(tmp_path, version, mor=False))
    archive(table, {1: [f"{FILE_ID}_0-1-2_{instant(1)}.parquet"]})
    timeline = load_timeline(table.storage, table.config)

    def times(begin: str | None, end: str | None = None, **how: Any) -> list[tuple[str, bool]]:
        commits = read_commits(TableState(table.storage, table.config, timeline), InstantRange(begin, end), **how)
        return [(commit.time, commit.archived) for commit in commits]

    assert times(None) == [(instant(1), True), (instant(2), False), (instant(3), False)]
    assert times(None, archived=False) == [(instant(2), False), (instant(3), False)]
    if version == 6:
        put_archive(table.storage, [entry("", "")], number=2)  # would be refused
        assert times(time(table, 2)) == [(instant(3), False)]


def test_an_archived_commit_which_took_long(tmp_path: Path) -> None:
    """Ranges are on completion times, the archive takes commits away by requested time."""
    table = made(tmp_path, mor=False)
    table.commit(1, completed=4, stats=(stat(table.base(1, [row("a", 1, "a1")])),))
    table.commit(2, stats=(stat(table.base(2, [row("b", 2, "b2")], file_id=OTHER_ID)),))
    name = table.layout.completed_name(instant(1), Action.COMMIT, completion(4))
    metadata = table.storage.read(table.layout.path(name))
    entry_of_one = {"instantTime": instant(1), "completionTime": completion(4), "action": "commit"}
    put_manifest(table.storage, 1, [put_run(table.storage, [{**entry_of_one, "metadata": metadata}])])
    table.storage.delete(table.layout.path(name))
    off = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"}
    assert read(table, completion(2), options=off) == [("a", "a1")]


def test_holes_of_tables_before_version_8(tmp_path: Path) -> None:
    table = made(tmp_path, 6)
    table.commit(1, stats=(stat(table.base(1, [row("a", 1, "a1")])),))
    table.pending(2)
    table.commit(3, completed=5, stats=(stat(table.base(3, [row("c", 3, "c3")], file_id=OTHER_ID)),))
    key = "hoodie.read.timeline.holes.resolution.policy"
    for begin in ("000", instant(3)):
        with pytest.raises(ConfigError, match=f"{instant(2)} is pending"):
            read(table, begin)
    assert read(table, "000", options={key: "BLOCK"}) == [("a", "a1")]
    assert read(table, "000", instant(3), options={"hoodie.datasource.read.handle.hollow.commit": "block"}) == [
        ("a", "a1")
    ]
    by_transition = {key: "USE_TRANSITION_TIME"}
    assert read(table, completion(1), options=by_transition) == [("c", "c3")]
    assert read(table, "000", completion(4), options=by_transition) == [("a", "a1")]


def test_a_pending_write_is_no_hole_while_nothing_is_later(tmp_path: Path) -> None:
    table = made(tmp_path, 6)
    table.commit(1, stats=(stat(table.base(1, [row("a", 1, "a1")])),))
    table.pending(2)
    assert read(table, "000") == [("a", "a1")]


def test_tables_since_version_8_have_no_holes(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.commit(1, completed=4, stats=(stat(table.base(1, [row("a", 1, "a1")])),))
    table.pending(2)
    table.commit(3, stats=(stat(table.base(3, [row("c", 3, "c3")], file_id=OTHER_ID)),))
    assert read(table, "000", completion(3)) == [("c", "c3")]
    assert read(table, completion(3)) == [("a", "a1")]


def test_the_schema_is_that_of_now_or_of_the_end(tmp_path: Path) -> None:
    table = made(tmp_path, mor=False)
    table.commit(1, stats=(stat(table.base(1, [row("a", 1, "a1")])),))
    wider = table.schema.append(pa.field("more", pa.string()))
    new = table.base(2, [{**row("b", 2, "b2"), "more": "x"}], file_id=OTHER_ID, schema=wider)
    table.commit(2, stats=(stat(new),), schema=wider)
    opened = hudi_py.open_table(table.uri)
    scan = opened.scan(query_type="incremental", begin="000", end=completion(1))
    assert scan.schema.names[-1] == "more"
    assert scan.to_table()["more"].to_pylist() == [None]
    options = {"hoodie.datasource.read.schema.use.end.instanttime": "true"}
    scan = opened.scan(query_type="incremental", begin="000", end=completion(1), options=options)
    assert scan.schema.names[-1] == "price"


def test_tables_without_meta_fields_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path, properties={"hoodie.populate.meta.fields": "false"})
    with pytest.raises(UnsupportedTableError, match="populate.meta.fields"):
        read(table, "000")


def test_rules_of_another_version_are_refused(tmp_path: Path) -> None:
    table = three_commits(made(tmp_path, mor=False))
    key = "hoodie.datasource.read.incr.table.version"
    assert len(read(table, "000", options={key: "8"})) == 3
    with pytest.raises(ConfigError, match=f"{key} = '6'"):
        read(table, "000", options={key: "6"})


def test_a_table_without_commits(tmp_path: Path) -> None:
    table = made(tmp_path)
    scan = hudi_py.open_table(table.uri).scan(query_type="incremental", begin="000")
    assert scan.to_table().num_rows == 0
