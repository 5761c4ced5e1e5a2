"""The rows of Apache Hudi's procedures that show something of a table. The oracle's test_procedures compares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, TableNotFoundError
from hudi_py.inspect.procedures import SHOWN, procedure_report
from tests.support import archives

BARE = {"hoodie.metadata.enable": "false", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def shown(path: Path, name: str, /, **given: Any) -> list[tuple[Any, ...]]:
    """With names of columns as Apache Hudi's."""
    report = procedure_report(str(path), Options.resolve({}, Scope.READ), name, given)
    assert report.schema == SHOWN[name].columns
    return [tuple(row.values()) for row in report.to_pylist()]


def write(path: Path, ids: list[int], ts: int, kind: str = "cow", **options: str) -> str:
    rows = [{"id": each, "ts": ts, "part": "ab"[each % 2], "price": each * 1.5} for each in ids]
    new = {} if path.exists() else {"record_key": "id", "ordering_by": "ts", "partition_by": "part", "table_type": kind}
    result = hudi_py.write(str(path), rows, options={**BARE, **options}, **new)  # type: ignore[arg-type]
    assert result.instant is not None
    return result.instant


@pytest.fixture
def acted(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A table with two rollbacks, a savepoint, and a clean; and the instants of these actions."""
    path, times = tmp_path / "t", {}
    times["first"] = write(path, [1, 2, 3], 1)
    times["second"] = write(path, [1, 2], 2)
    for name in ("undone", "undone too"):
        times[name] = write(path, [1], 3)
        hudi_py.open_table(path).rollback(times[name])
    times["last"] = write(path, [1, 2, 3], 4)
    table = hudi_py.open_table(path, options=BARE)
    times["clean"] = str(table.clean(options={"hoodie.clean.commits.retained": "1"}).instant)
    table.savepoint()
    return path, times


def test_cleans(acted: tuple[Path, dict[str, str]]) -> None:
    path, times = acted
    ((time, completed, action, started, _, deleted, earliest, newest, version),) = shown(path, "show_cleans")
    assert (time, action, started, deleted, earliest) == (times["clean"], "clean", time, 2, times["last"])
    assert (newest, version) == (times["last"], 2)
    assert completed > time
    parts = shown(path, "show_cleans_metadata")
    assert [row[4:10] for row in parts] == [(part, "KEEP_LATEST_COMMITS", 1, 1, 0, False) for part in "ab"]
    assert shown(path, "show_cleans_metadata", limit=1) == parts[:1]
    assert shown(path, "show_clean_plans") == [
        (time, "COMPLETED", "clean", earliest, newest, "KEEP_LATEST_COMMITS", 2, 2, 0, None)
    ]
    (file,) = {row[0] for row in shown(path, "show_file_status", partition="a", file=times["first"])}
    assert file == "deleted"


def test_rollbacks(acted: tuple[Path, dict[str, str]]) -> None:
    path, times = acted
    found = shown(path, "show_rollbacks")
    assert [row[1:3] for row in found] == [(times["undone"], 1), (times["undone too"], 1)]  # the oldest first
    assert shown(path, "show_rollbacks", limit=1) == found[:1]
    ((time, undone, part, file, succeeded),) = shown(path, "show_rollback_detail", instant_time=found[1][0])
    assert (time, undone, part, succeeded) == (found[1][0], f"[{times['undone too']}]", "b", True)
    assert file.endswith(f"_{times['undone too']}.parquet")
    with pytest.raises(ConfigError, match="no completed rollback of this time; CALL show_rollbacks"):
        shown(path, "show_rollback_detail", instant_time=times["first"])


def test_timeline(acted: tuple[Path, dict[str, str]]) -> None:
    path, times = acted
    found = shown(path, "show_timeline")
    assert [row[1] for row in found] == [
        *("clean", "savepoint", "commit", "rollback", "rollback", "commit", "commit"),
    ]
    assert {row[2] for row in found} == {"COMPLETED"}
    assert [row[7] for row in found if row[1] == "rollback"] == [
        f"Rolled back: {times['undone too']}",
        f"Rolled back: {times['undone']}",
    ]
    assert shown(path, "show_timeline", limit=2) == found[:2]
    assert shown(path, "show_timeline", limit=1, startTime=times["second"], endTime=times["last"]) == found[1:-1]
    assert shown(path, "show_timeline", limit=9, startTime=times["last"]) == found[:3]


def test_the_archived_timeline(acted: tuple[Path, dict[str, str]]) -> None:
    path, times = acted
    cleans = shown(path, "show_cleans"), shown(path, "show_clean_plans")
    last = [write(path, [1], ts) for ts in (5, 6, 7, 8)][-1]
    table = hudi_py.open_table(path, options=BARE)
    table.delete_savepoint(times["last"])
    keeping = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    assert table.archive(options=keeping).num_instants
    assert shown(path, "show_cleans") == shown(path, "show_rollbacks") == []
    archived = {"showArchived": True}
    assert (shown(path, "show_cleans", **archived), shown(path, "show_clean_plans", **archived)) == cleans
    found = shown(path, "show_timeline", **archived)
    assert found[0][:1] + found[0][6:] == (last, "ACTIVE", None)
    by_time = {row[0]: row for row in found}
    first = times["first"]
    text = f"{first[4:6]}-{first[6:8]} {first[8:10]}:{first[10:12]}:{first[12:14]}"
    assert by_time[first][1:5] + by_time[first][6:] == ("commit", "COMPLETED", text, text, "ARCHIVED", None)
    assert next(row[7] for row in found if row[1] == "rollback") == f"Rolled back: {times['undone too']}"
    exported = shown(path, "export_instants")
    assert exported[0][0] == f"{first}.commit"
    assert json.loads(exported[0][1])["partitionToWriteStats"].keys() == {"a", "b"}
    assert len(exported) == len(found)
    assert shown(path, "export_instants", limit=1, desc=True) == exported[-1:]
    assert {name.rpartition(".")[2] for name, _ in shown(path, "export_instants", actions="clean")} == {"clean"}
    with pytest.raises(ConfigError, match="of the action 'cleaning'; actions are commit"):
        shown(path, "export_instants", actions="cleaning")
    assert shown(path, "show_file_status", partition="a", file=first)[0][:4] == (
        *("deleted", "clean", times["clean"], "archived"),
    )


def test_timelines_are_compared(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write(one, [1], 1)
    later = [write(two, [1], 1), write(two, [1], 2)]
    assert shown(one, "commits_compare", path=str(two)) == [
        (f"Source one is behind by 2 commits. Commits to catch up - [{later[0]}, {later[1]}]",)
    ]
    (ahead,) = shown(two, "commits_compare", path=str(one))
    assert ahead[0].startswith("Source two is ahead by 2 commits")


def test_file_slices(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = write(path, [1, 2], 1, "mor")
    second = write(path, [1, 2], 2, "mor")
    hudi_py.open_table(path, options=BARE).compaction.schedule()
    third = write(path, [1], 3, "mor")
    found = shown(path, "show_fsview_all")
    assert [(row[0], row[3] == "", row[5]) for row in found] == [("a", False, 1), ("b", True, 1), ("b", False, 1)]
    assert [row[2] for row in found][::2] == [first, first]
    assert f"_{third}.log" in found[1][7]
    assert found[0][3].startswith(f"file:{path}/a/")
    assert found[0][7].startswith(f"[HoodieLogFile(pathStr=file:{path}/a/.")
    assert shown(path, "show_fsview_all", path_regex="[b-z]", limit=1) == found[1:2]
    assert [row[5] for row in shown(path, "show_fsview_all", max_instant=second)] == [0, 0]
    assert [row[5] for row in shown(path, "show_fsview_all", max_instant=second, include_max=True)] == [1, 1]
    merged = shown(path, "show_fsview_latest")
    assert [(row[0], row[2], row[5]) for row in merged] == [("a", first, 1), ("b", first, 2)]
    size, base, logs = merged[1][7], merged[1][4], merged[1][6]
    assert (size, merged[1][8], merged[1][9], merged[1][10]) == (logs, 0, logs / base, 0.0)
    newest = shown(path, "show_fsview_latest", merge=False, partition_path="b")
    assert [(row[3], row[5], row[9], row[11]) for row in newest] == [("", 1, -1.0, "[]")]
    with pytest.raises(ConfigError, match="include_in_flight => true is not supported; CALL show_timeline"):
        shown(path, "show_fsview_all", include_in_flight=True)
    with pytest.raises(ConfigError, match="give one of them"):
        shown(path, "show_fsview_latest", path_regex="a", partition_path="b")


def test_replaced_file_groups_are_no_file_slices(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [1, 2], 1)
    rows = [{"id": 2, "ts": 2, "part": "a", "price": 1.0}]
    newest = hudi_py.write(str(path), rows, operation="insert_overwrite", options=BARE).instant
    assert [row[2] for row in shown(path, "show_fsview_all", path_regex="a")] == [newest]


def test_sizes_of_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = write(path, [1, 2, 3], 1)
    sizes = sorted(each.stat().st_size for each in path.glob("?/*.parquet"))
    write(path, [1], 2)
    found = shown(path, "stats_file_sizes")
    assert [row[0] for row in found][::2] == [first, "ALL"]
    low, high = sizes
    assert found[0][1:8] == (low, low, (low + high) / 2, (low + high) / 2, high, high, 2)
    assert found[-1][7] == 3
    assert shown(path, "stats_file_sizes", partition_path="b")[-1][7] == 2
    assert shown(path, "stats_file_sizes", partition_path="none") == [("ALL", 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0)]


def test_logs(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [1, 2, 3], 1, "mor")
    second = write(path, [1, 3], 2, "mor")
    third = hudi_py.write(str(path), [{"id": 1, "ts": 3, "part": "b"}], operation="delete", options=BARE).instant
    for pattern in (f"{path}/b/.*log*", f"file:{path}/*/.*.log.*", "b/.*"):
        found = shown(path, "show_logfile_metadata", log_file_path_pattern=pattern)
        assert [row[:3] for row in found] == [(second, 2, "AVRO_DATA_BLOCK"), (third, 1, "DELETE_BLOCK")]
    assert json.loads(found[0][3])["INSTANT_TIME"] == second
    records = shown(path, "show_logfile_records", log_file_path_pattern=f"{path}/b/.*log*")
    assert [json.loads(text)["id"] for (text,) in records] == [1, 3]
    assert '"ts": 2, "part": "b", "price": 4.5}' in records[1][0]
    assert shown(path, "show_logfile_metadata", log_file_path_pattern="/elsewhere/*") == []
    with pytest.raises(ConfigError, match="'/elsewhere/\\*' matches none; give a path in a partition"):
        shown(path, "show_logfile_records", log_file_path_pattern="/elsewhere/*")
    with pytest.raises(ConfigError, match="merge => true is not supported; query the table"):
        shown(path, "show_logfile_records", log_file_path_pattern="*/*", merge=True)
    with pytest.raises(ConfigError, match="without log_file_path_pattern; give"):
        shown(path, "show_logfile_records")


def test_the_metadata_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    on = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    write(path, [1, 2, 4], 1, **on)
    write(path, [6, 8], 2, **on, **{"hoodie.parquet.small.file.limit": "0"})
    names = sorted(each.name for each in path.glob("a/*.parquet"))
    assert shown(path, "show_metadata_table_files", partition="a") == [(name,) for name in names]
    assert shown(path, "show_metadata_table_files") == []
    stats = dict(shown(path, "show_metadata_table_stats"))
    assert int(stats["files.baseFileCount"]) + int(stats["files.logFileCount"]) > 0
    ranges = shown(path, "show_metadata_table_column_stats", partition="a", targetColumns="price")
    assert [row[0] for row in ranges] == names
    assert sorted(row[1:] for row in ranges) == [("price", "3.0", "6.0", 0), ("price", "9.0", "12.0", 0)]
    assert {row[1] for row in shown(path, "show_metadata_table_column_stats")} == {"id", "ts", "part", "price"}
    overlap = shown(path, "show_metadata_column_stats_overlap", partition="a", targetColumns="id,part")
    assert overlap == [("a", "id", 1.0, 1, 2, 1, 1, 1, 1, 4), ("a", "part", 2.0, 2, 2, 2, 2, 2, 2, 1)]
    assert shown(path, "validate_metadata_table_files") == []
    assert len(shown(path, "validate_metadata_table_files", verbose=True)) == 3
    lost = path / "a" / names[0]
    size = lost.stat().st_size
    lost.unlink()
    (path / "a" / names[0].replace("_0-", "_9-")).write_bytes(b"not Parquet")
    assert sorted(row[2:] for row in shown(path, "validate_metadata_table_files")) == [
        (False, True, 0, size),
        (True, False, 11, 0),
    ]
    ((bad,),) = shown(path, "show_invalid_parquet")
    assert bad == f"file:{path}/a/{names[0].replace('_0-', '_9-')}"
    assert shown(path, "show_invalid_parquet", partitions="b") == []
    with pytest.raises(ConfigError, match="needDelete => true is not supported"):
        shown(path, "show_invalid_parquet", needDelete=True)


def test_what_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "t", [1], 1)
    with pytest.raises(TableNotFoundError, match="does not name 'files'; create it with CALL create_metadata_table"):
        shown(tmp_path / "t", "show_metadata_table_stats")
    with pytest.raises(ConfigError, match="Cannot show the procedure 'show_nothing'; supported: show_compaction"):
        shown(tmp_path / "t", "show_nothing")
    with pytest.raises(ConfigError, match="limit => '7'; expected a whole number"):
        shown(tmp_path / "t", "show_cleans", limit="7")
    with pytest.raises(ConfigError, match="the table is partitioned; give partition"):
        shown(tmp_path / "t", "show_file_status", file="x")
    assert shown(tmp_path / "t", "show_file_status", file="x", partition="b") == [("unknown", "", "", "", "")]


@pytest.mark.parametrize("version", ["6", "9"])
def test_compactions(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t"
    write(path, [1, 2, 3], 1, "mor", **{"hoodie.write.table.version": version})
    assert shown(path, "show_compaction") == []
    times = []
    for ts, ids in ((2, [1, 2]), (3, [1])):
        write(path, ids, ts)
        table = hudi_py.open_table(path, options=BARE)
        times.append(str(table.compaction.schedule()))
        if ts == 2:
            table.compaction.run()
    assert shown(path, "show_compaction") == [(times[1], 1, "REQUESTED"), (times[0], 2, "COMPLETED")]
    assert shown(path, "show_compaction", limit=1) == [(times[1], 1, "REQUESTED")]
    write(tmp_path / "cow", [1], 1)
    with pytest.raises(ConfigError, match="COPY_ON_WRITE, which has no logs"):
        shown(tmp_path / "cow", "show_compaction")


BOOTSTRAPPED = Path(__file__).parent / "data" / "bootstrap" / "tables.tar.gz"


def test_bootstrap_index(tmp_path: Path) -> None:
    archives.extract(BOOTSTRAPPED, tmp_path)
    path, base = tmp_path / "mor9", "/data/bootstrap/source"
    oslo, rome = (
        (
            "city=oslo",
            "34e0e70d-c708-471a-ab66-aa4d0a6a845c",
            base,
            "city=oslo",
            f"file:{base}/city=oslo/part-0.parquet",
        ),
        (
            "city=rome",
            "c18669cf-36f1-42e2-9275-4b25a04ae4dc",
            base,
            "city=rome",
            f"file:{base}/city=rome/part-0.parquet",
        ),
    )
    assert shown(path, "show_bootstrap_mapping") == [oslo, rome]
    assert shown(path, "show_bootstrap_mapping", desc=True, limit=1) == [rome]
    assert shown(path, "show_bootstrap_mapping", sort_by="file_id", desc=True) == [rome, oslo]
    assert shown(path, "show_bootstrap_mapping", partition_path="city=rome") == [rome]
    assert shown(path, "show_bootstrap_mapping", partition_path="city=rome", file_ids=oslo[1]) == []
    assert shown(path, "show_bootstrap_mapping", partition_path="city=oslo", file_ids=f"x, {oslo[1]}") == [oslo]
    assert shown(path, "show_bootstrap_partitions") == [("city=oslo",), ("city=rome",)]
    assert shown(tmp_path / "cow6", "show_bootstrap_partitions") == [("",)]
    for given, wrong in (
        ({"file_ids": oslo[1]}, "they are looked up in a partition"),
        ({"partition_path": "city=x"}, "does not have it; it has: city=oslo, city=rome"),
        ({"sort_by": "x"}, "supported: partition, file_id"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            shown(path, "show_bootstrap_mapping", **given)
    write(tmp_path / "t", [1], 1)
    with pytest.raises(ConfigError, match="was not bootstrapped"):
        shown(tmp_path / "t", "show_bootstrap_partitions")


def test_folders(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [1, 2, 3], 1)
    (path / "b/empty").mkdir()
    ((folders, files, size, text, name, consumed, quota, space),) = shown(path / "a", "show_fs_path_detail", path="x")
    assert size == sum(each.stat().st_size for each in (path / "a").iterdir())
    assert (folders, files, consumed, quota, space) == (1, 2, size, -1, -1)
    assert (name, text) == (f"file:{path}/a", f"{size / 1024:.2f}KB")
    below = shown(path, "show_fs_path_detail", path="x", is_sub=True)
    assert [row[2] for row in below] == sorted((row[2] for row in below), reverse=True)
    by_name = {row[4].rpartition("/")[2]: row for row in below}
    assert by_name.keys() == {"a", "b", ".hoodie"}
    assert by_name["b"][0] == 2
    assert shown(tmp_path / "t" / "[ab]", "show_fs_path_detail", path="x", sort=False, limit=1)[0][1] == 2
    assert len(shown(tmp_path / "*" / "{a,b}", "show_fs_path_detail", path="x")) == 2
    assert shown(tmp_path / "none*", "show_fs_path_detail", path="x") == []
    ((folders, files, *_),) = shown(path / ".hoodie/hoodie.properties", "show_fs_path_detail", path="x")
    assert (folders, files) == (0, 1)
    with pytest.raises(ConfigError, match="there is no such file or folder"):
        shown(tmp_path / "none", "show_fs_path_detail", path="x")
    with pytest.raises(ConfigError, match="takes no wildcards"):
        shown(tmp_path / "*", "show_fs_path_detail", path="x", is_sub=True)


def test_folders_in_memory() -> None:
    uri = "memory://folders/t"
    hudi_py.write(uri, [{"id": 1, "p": "a"}], record_key="id", partition_by="p")
    report = procedure_report(uri, Options.resolve({}, Scope.READ), "show_fs_path_detail", {"path": uri})
    assert [row["storage_path"] for row in report.to_pylist()] == [uri]
    assert report["path_num"][0].as_py() > 3
