"""What verifying finds, and what rebuilding and dropping make of it."""

from __future__ import annotations

import shutil
import uuid
import warnings
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.metadata_write.maintenance import services
from hudi_py.metadata_write.maintenance.rebuild import drop, rebuild
from hudi_py.metadata_write.maintenance.verify import PartitionCheck, VerifyReport, verify
from hudi_py.metadata_write.partitions.column_stats import StatsCheck
from hudi_py.metadata_write.partitions.partition_stats import PartitionStatsCheck
from hudi_py.metadata_write.partitions.registry import with_dependants
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import Action
from hudi_py.services.archive import archive
from hudi_py.services.clean import Cleaning
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.pending import plan_report
from hudi_py.services.planned.service import run_all
from hudi_py.services.recovery.rollback import rollback
from hudi_py.storage import LocalStorage, MemoryStorage, Storage
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.instants import inflight_path
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.golden import tables
from tests.support.kept_up import clock_of, maintain, options, own, own_instants, rows, write
from tests.support.renamed import renamed
from tests.unit.metadata_write import memory_tables

EVERYTHING = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.metadata.compact.max.delta.commits": "4",
}


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"memory://{uuid.uuid4()}")


def context(storage: Storage, given: dict[str, str] | None = None) -> ServiceContext:
    version = load_table_config(storage).version
    chosen = options(version, "mor", {**EVERYTHING, **(given or {})})
    metadata = MetadataTableWriter(chosen)
    return ServiceContext.of(WriteTarget(storage, chosen, metadata, clock=clock_of(storage)))


def found(report: VerifyReport) -> dict[str, tuple[int, int, int]]:
    return {each.partition: (each.missing, each.wrong, each.superfluous) for each in report.partitions}


def make(storage: Storage, version: int, kind: str, writes: int = 6) -> None:
    for turn in range(writes):
        write(storage, rows(range(turn, turn + 5), turn), version=version, kind=kind, given=EVERYTHING)
    write(storage, rows(range(2)), "delete", version=version, kind=kind, given=EVERYTHING)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (8, "cow"), (9, "mor")])
@pytest.mark.sampled(2)
def test_what_is_kept_up_is_right(version: int, kind: str, storage: MemoryStorage) -> None:
    make(storage, version, kind)
    report = verify(context(storage))
    assert report.ok, report.partitions
    assert report.to_dict()["ok"]
    assert "files: 3 records" in repr(report)
    partitions = load_table_config(storage).metadata_partitions
    assert set(found(report)) == set(partitions)
    assert {"files", "column_stats", "bloom_filters", "record_index"} <= set(partitions)
    assert set(found(report).values()) == {(0, 0, 0)}
    records = {each.partition: each.records for each in report.partitions}
    assert records["files"] == 3
    assert records["record_index"] == 8
    assert found(verify(context(storage), names=["files"])) == {"files": (0, 0, 0)}


@pytest.mark.parametrize("name", ["v9_mor_logcompaction", "v6_mor_compaction_pending", "v6_mor_rollback",
                                  "v8_mor_rollback", "v6_mor_inflight", "v9_cow_partitioned_rli",
                                  "v9_mor_secondary_index"])  # fmt: skip
def test_tables_of_apache_hudi_are_right(name: str, tmp_path: Path) -> None:
    storage = LocalStorage(str(tables.load()[name].extract(tmp_path)))
    report = verify(context(storage))
    assert report.ok, report.partitions
    assert report.partitions


def test_the_record_index_of_apache_hudi_may_lack_what_came_back_after_a_delete(tmp_path: Path) -> None:
    storage = LocalStorage(str(tables.load()["v9_mor_long_unicode_keys"].extract(tmp_path)))
    report = verify(context(storage))
    assert {name: counts for name, counts in found(report).items() if any(counts)} == {"record_index": (3, 0, 0)}
    assert rebuild(context(storage), names=["record_index"]) == ("record_index",)
    assert verify(context(storage)).ok


def test_a_column_is_new_to_one_partition_only(tmp_path: Path) -> None:
    """A commit tells of the partitions which it writes to: there is nothing to be told of the new column in others."""
    path, given = str(tmp_path / "t"), {"hoodie.metadata.index.column.stats.enable": "true"}
    old = pa.table({"id": ["1", "2"], "part": ["a", "b"]})
    hudi_py.write(path, old, options=given, record_key="id", partition_by="part")
    hudi_py.write(path, pa.table({"id": ["1"], "part": ["a"], "extra": ["new"]}), options=given)
    metadata = hudi_py.open_table(path).metadata
    assert set(found(metadata.verify()).values()) == {(0, 0, 0)}
    assert metadata.verify().ok
    # a record that has values to tell of must be there
    shutil.copytree(tmp_path / "t" / "b", tmp_path / "t" / "c")
    missing = found(metadata.verify("partition_stats"))["partition_stats"][0]
    assert missing == len(["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path", "id", "part"])


@pytest.mark.parametrize("others", ["", "3"])
def test_a_compaction_writes_nulls_alone_behind_a_later_request(others: str, tmp_path: Path) -> None:
    """The bounds in its footer, 0 to 0, are Apache Hudi's default; the record of the later request has precedence."""
    path, given = str(tmp_path / "t"), {"hoodie.metadata.index.column.stats.enable": "true"}

    def write(ids: str, n: int | None, operation: str = "upsert") -> None:
        rows = pa.table({"id": list(ids), "part": ["a"] * len(ids), "n": pa.array([n] * len(ids), pa.int32())})
        hudi_py.write(path, rows, operation, given, record_key="id", partition_by="part", table_type="mor")

    write("12", 5)
    if others:  # a file group with values
        write(others, 7, "bulk_insert")
    write("12", None)
    compaction = hudi_py.open_table(path).compaction
    plan = compaction.schedule()
    write("12", None)
    assert compaction.run(plan).num_file_groups == 1
    table = hudi_py.open_table(path)
    assert set(found(table.metadata.verify()).values()) == {(0, 0, 0)}, table.metadata.verify()
    assert table.scan(filter="n IS NULL").count() == 2
    assert table.scan(filter="n >= 5").count() == len(others)


@pytest.mark.filterwarnings("ignore:No statistics are stored for the file")
def test_a_zero_of_a_row_is_no_default(tmp_path: Path) -> None:
    path, given = tmp_path / "t", {"hoodie.metadata.index.column.stats.enable": "true"}
    rows = pa.table({"id": ["1", "2"], "part": ["a", "b"], "n": [5, 0]})
    hudi_py.write(path, rows, options=given, record_key="id", partition_by="part")
    (file,) = (path / "b").glob("*.parquet")
    name = f"{uuid.uuid4()}-0_{file.name.partition('_')[2]}"
    (path / "a" / name).write_bytes(renamed(file.read_bytes(), name))
    (check,) = hudi_py.open_table(path).metadata.verify("partition_stats").partitions
    assert "wrong: n of a: the range 5 to 5 does not cover 0 to 5" in check.examples


@pytest.mark.parametrize(("old", "new"), [(pa.int32(), pa.int64()), (pa.float32(), pa.float64())])
def test_a_column_has_become_a_wider_one(tmp_path: Path, old: pa.DataType, new: pa.DataType) -> None:
    """Statistics of files that were written before keep their type, and those of partitions that stand."""
    path, given = str(tmp_path / "t"), {"hoodie.metadata.index.column.stats.enable": "true"}

    def rows(parts: str, kind: pa.DataType) -> pa.Table:
        numbers = pa.array(range(1, len(parts) + 1)).cast(kind)
        return pa.table({"id": list(parts), "part": list(parts), "n": numbers})

    hudi_py.write(path, rows("ab", old), options=given, record_key="id", partition_by="part", table_type="mor")
    hudi_py.write(path, rows("ab", old), options=given)
    hudi_py.write(path, rows("a", new), options=given)
    report = hudi_py.open_table(path).metadata.verify()
    assert set(found(report).values()) == {(0, 0, 0)}, report
    assert hudi_py.open_table(path).scan(filter="n = 2").to_table()["id"].to_pylist() == ["b"]


def test_differences_are_found_and_mended(storage: MemoryStorage) -> None:
    make(storage, 9, "cow", 3)
    names = [info.path for info in storage.list("a") if info.name.endswith(".parquet")]
    # a file that is gone, one that is new and of another size, and one that no statistics know
    data = storage.read(names[0])
    storage.delete(names[0])
    changed = names[1]
    storage.put(changed, storage.read(changed) + b"x")
    copied = f"a/{uuid.uuid4()}-0_{names[0].rpartition('/')[2].partition('_')[2]}"
    storage.put(copied, renamed(data, copied.rpartition("/")[2]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No (statistics|bloom filter is stored) for the file")
        report = verify(context(storage))
    assert not report.ok
    of_files = next(each for each in report.partitions if each.partition == "files")
    assert of_files.wrong == 1
    (example,) = of_files.examples
    assert "is missing" in example
    assert "no longer exists" in example
    assert "bytes, not" in example
    of_columns = next(each for each in report.partitions if each.partition == "column_stats")
    gone, new = names[0].rpartition("/")[2], copied.rpartition("/")[2]
    assert any(each.startswith("superfluous: ") and each.endswith(f" of {gone}") for each in of_columns.examples)
    assert any(each.startswith("missing: ") and each.endswith(f" of {new}") for each in of_columns.examples)
    counts = found(report)
    assert counts["column_stats"][0] > 0
    assert counts["column_stats"][2] > 0
    assert counts["bloom_filters"][:1] == (1,)
    storage.put(changed, storage.read(changed)[:-1])
    with pytest.warns(UserWarning, match="is in several file groups"):  # the copied file has keys of another one
        made = rebuild(context(storage))
    assert made == ("files", "column_stats", "bloom_filters", "record_index", "partition_stats")
    assert verify(context(storage)).ok


def test_bounds_that_were_stored_otherwise_are_no_differences(tmp_path: Path) -> None:
    """Decimals of a log with the scale that the column had then, and what an overwrite has replaced: both are stored as
    bytes."""
    path = tmp_path / "t"
    options = {"hoodie.metadata.index.column.stats.enable": "true"}
    for operation, texts, kind in (
        ("upsert", {"a": "3.00", "b": "7.00"}, pa.decimal128(10, 2)),
        ("upsert", {"a": "1.10"}, pa.decimal128(10, 2)),
        ("upsert", {"b": "2.1234"}, pa.decimal128(14, 4)),
        ("insert_overwrite", {"b": "-1.5"}, pa.decimal128(14, 4)),
    ):
        numbers = pa.array(map(Decimal, texts.values()), kind)
        data = pa.array([number.encode() + b"\x80" for number in texts.values()])
        table = pa.table({"id": list(texts), "p": ["p"] * len(texts), "ts": [1] * len(texts), "d": numbers, "x": data})
        how = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}
        hudi_py.write(path, table, operation, options, **how)
        report = hudi_py.open_table(path).metadata.verify()
        assert report.ok, str(report)


def test_what_harms_and_what_does_not() -> None:
    assert PartitionCheck("files", 3).ok
    assert not PartitionCheck("files", 3, superfluous=1).ok
    assert not PartitionCheck("record_index", 3, superfluous=1).ok
    assert PartitionCheck("column_stats", 3, superfluous=1).ok
    assert not PartitionCheck("column_stats", 3, missing=1).ok
    assert not PartitionCheck("bloom_filters", 3, wrong=1).ok


def test_names_are_checked(storage: MemoryStorage) -> None:
    make(storage, 9, "mor", 1)
    with pytest.raises(ConfigError, match=r"partition 'x'.* no such partition; it has bloom_filters, .*record_index"):
        verify(context(storage), names=["x"])
    with pytest.raises(ConfigError, match="no index of this name; make it with Table.index"):
        rebuild(context(storage), names=["secondary_index_x"])
    with pytest.raises(ConfigError, match="no such partition"):
        drop(context(storage), ["x"])
    drop(context(storage), ["files", "record_index"])
    assert load_table_config(storage).metadata_partitions == ()
    assert verify(context(storage)).reason == "the table has no metadata table"
    with pytest.raises(ConfigError, match=r"partition 'files' of .* of memory:.* no such partition; it has none"):
        verify(context(storage), names=["files"])
    with pytest.raises(
        ConfigError, match=r"rebuild the partition \['files'\] .* hudi-py does not maintain it; it maintains files"
    ):
        rebuild(context(storage), names=[["files"]])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=r"the table has none; name 'files'"):
        rebuild(context(storage))
    with pytest.raises(ConfigError, match="none is named; it has none"):
        drop(context(storage), [])
    with pytest.raises(ConfigError, match="name 'files' too"):
        rebuild(context(storage), names=["column_stats"])
    with pytest.raises(ConfigError, match="it needs column_stats"):
        rebuild(context(storage), names=["files", "partition_stats"])
    assert rebuild(context(storage), names=["files", "column_stats"]) == ("files", "column_stats")
    assert verify(context(storage)).ok


def test_what_is_refused_rolls_back_no_failed_write(tmp_path: Path) -> None:
    path = tables.load()["v6_mor_inflight"].extract(tmp_path)
    before = sorted(path.rglob("*"))
    partitions = hudi_py.open_table(str(path)).metadata
    with pytest.raises(ConfigError, match="hudi-py does not maintain it"):
        partitions.rebuild("vector_index_x")
    with pytest.raises(ConfigError, match="no such partition"):
        partitions.drop("secondary_index_x")
    assert sorted(path.rglob("*")) == before
    partitions.rebuild("files")
    assert [file for file in path.rglob("*.rollback") if "metadata" not in file.parts]


def test_what_is_dropped_takes_along_what_needs_it(storage: MemoryStorage) -> None:
    assert with_dependants(["column_stats"], ["files", "column_stats", "partition_stats"]) == (
        "column_stats",
        "partition_stats",
    )
    assert with_dependants(["record_index"], ["record_index", "secondary_index_x", "files"]) == (
        "record_index",
        "secondary_index_x",
    )
    make(storage, 9, "mor", 2)
    assert drop(context(storage), ["column_stats"]) == ("column_stats", "partition_stats")
    assert {info.name for info in own(storage).list("") if info.is_dir} == {
        ".hoodie",
        "bloom_filters",
        "files",
        "record_index",
    }
    with pytest.raises(ConfigError, match="including record_index; name them too"):
        drop(context(storage), ["files"])
    assert verify(context(storage)).ok
    write(storage, rows(range(3), 9), given=EVERYTHING)
    assert "partition_stats" in load_table_config(storage).metadata_partitions
    assert verify(context(storage)).ok


def test_an_index_that_is_not_kept_up_is_not_lost_by_rebuilding(storage: MemoryStorage) -> None:
    make(storage, 9, "mor", 1)
    partitions = ",".join([*load_table_config(storage).metadata_partitions, "secondary_index_x"])
    update_table_config(storage, {"hoodie.table.metadata.partitions": partitions})
    assert verify(context(storage)).unchecked == ("secondary_index_x",)
    with pytest.raises(ConfigError, match="cannot rebuild secondary_index_x"):
        rebuild(context(storage))
    assert drop(context(storage), ["secondary_index_x"]) == ("secondary_index_x",)
    assert rebuild(context(storage), names=["files"])[0] == "files"


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 9])
def test_a_partition_made_after_archiving_leaves_the_others_as_they_are(version: int, storage: MemoryStorage) -> None:
    tidy = {**EVERYTHING, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
            "hoodie.clean.commits.retained": "1"}  # fmt: skip
    for turn in range(12):
        # the index over one key only is written in the first commit alone
        write(storage, rows([0] if turn else range(8), turn), version=version, kind="cow", given=tidy)
        archive(ServiceContext.of(WriteTarget(storage, options(version, "cow", tidy), NoMetadata())))
    first = own_instants(storage)[0].time
    assert not first.startswith("00000000000000")
    assert verify(context(storage)).ok
    rebuild(context(storage), names=["bloom_filters"])
    assert own_instants(storage)[0].time == first
    assert verify(context(storage)).ok
    write(storage, rows(range(3), 20), version=version, kind="cow", given=tidy)
    assert verify(context(storage)).ok


def test_logs_of_version_6_that_were_rolled_back_are_not_missed_once_their_writes_are_archived(
    storage: MemoryStorage,
) -> None:
    """The log stays, a rollback block behind it: whether its write is before the timeline tells nothing then."""
    tidy = {**EVERYTHING, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
            "hoodie.clean.commits.retained": "1"}  # fmt: skip
    for turn in range(3):
        write(storage, rows(range(5), turn), version=6, given=tidy)
    undone = load_timeline(storage, load_table_config(storage)).write_completed[-1]
    assert rollback(context(storage), undone.time).num_rollback_blocks
    for turn in range(3, 8):
        write(storage, rows(range(5), turn), version=6, given=tidy)
    assert verify(context(storage)).ok
    archive(ServiceContext.of(WriteTarget(storage, options(6, "mor", tidy), NoMetadata())))
    assert load_timeline(storage, load_table_config(storage)).instants[0].time > undone.time
    assert verify(context(storage)).ok


@pytest.mark.parametrize("version", [6, 9])
def test_what_a_killed_clean_has_deleted_is_not_wrong(version: int, storage: MemoryStorage) -> None:
    for turn in range(4):
        write(storage, rows(range(5), turn), version=version, kind="cow", given=EVERYTHING)
    working = context(storage, {"hoodie.clean.commits.retained": "1"})
    assert Cleaning().schedule(working).instant is not None
    planned = set(plan_report(working.state())["files"].combine_chunks().flatten().to_pylist())
    one, *others = [info.path for info in storage.walk() if info.name in planned]
    kept = next(info.path for info in storage.walk("a") if info.name.endswith(".parquet") and info.name not in planned)
    assert others
    storage.delete(one)
    assert verify(context(storage)).ok
    content = storage.read(kept)
    storage.delete(kept)
    assert not verify(context(storage), names=["files"]).ok
    storage.put(kept, content)
    run_all(Cleaning(), working)
    assert verify(context(storage)).ok


@pytest.mark.parametrize("version", [8, 9])
def test_a_log_compaction_may_complete_behind_a_write(version: int, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    given = options(version, "mor", {"hoodie.log.compaction.blocks.threshold": "2"}).values
    for turn in range(3):
        hudi_py.write(path, rows(range(4), turn), "upsert", given)
    plans = hudi_py.open_table(path, {"hoodie.log.compaction.blocks.threshold": "2"}).log_compaction
    planned = plans.schedule()
    hudi_py.write(path, rows(range(4), 3), "upsert", given)
    assert plans.run(planned).num_log_files == 4  # of two file groups
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.parametrize(
    ("values", "nulls", "lost"), [(5, 2, ""), (4, 1, ""), (4, 0, "nulls"), (2, 2, "values"), (0, 0, "nulls")]
)
def test_counts_of_a_partition_tell_of_nulls_and_values(values: int, nulls: int, lost: str) -> None:
    def record(values: int, nulls: int) -> dict[str, object]:
        return {"minValue": None, "maxValue": None, "valueCount": values, "nullCount": nulls, "isTightBound": True}

    told = PartitionStatsCheck.range_difference(record(5, 2), record(values, nulls))
    assert told.startswith(f"expected {lost}, found") if lost else not told


def test_a_pending_plan_loses_what_was_dropped_since(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    for turn in range(3):
        write(storage, rows(range(4), turn), given=EVERYTHING, maintained=False)
    eager = options(9, "mor", {"hoodie.metadata.compact.max.delta.commits": "1"})

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(services, "compact_base_file", broken)
        with pytest.raises(RuntimeError):
            maintain(storage, eager, clock_of(storage))
    rebuild(context(storage), names=["bloom_filters"])
    drop(context(storage), ["column_stats"])
    (report,) = maintain(storage, eager, clock_of(storage))[:1]
    assert report.service == "compaction"
    assert all(instant.completed for instant in own_instants(storage))
    assert [i.action for i in own_instants(storage)].count(Action.COMMIT) >= 1
    assert verify(context(storage)).ok


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"member7": {"value": 19724}}, {"member1": {"value": 19724}}),
        ({"member8": {"value": Decimal("0.25")}}, {"member5": {"value": (25 * 10**13).to_bytes(7, "big")}}),
    ],
)
def test_days_and_decimals_as_old_releases_keep_them(ours: dict[str, object], theirs: dict[str, object]) -> None:
    def record(bound: dict[str, object]) -> dict[str, object]:
        return {"columnName": "c", "minValue": bound, "maxValue": bound, "valueCount": 1, "nullCount": 0}

    assert StatsCheck.range_difference(record(ours), record(theirs)) == ""
    (kind,) = theirs
    other = {kind: {"value": 19725 if kind == "member1" else b"\x01"}}
    assert "expected the range" in StatsCheck.range_difference(record(ours), record(other))


@pytest.mark.parametrize("version", [6, 9])
def test_a_savepoint_that_broke_off_hides_no_files_of_its_commit(version: int) -> None:
    """It is pending, at the time of a completed commit, whose rows a listing made anew now would lose."""
    storage = MemoryStorage(f"broken-savepoint-{version}")
    for ts in (1, 2):
        memory_tables.write(
            storage, memory_tables.rows(range(4 * ts), ts), version=version, options={"hoodie.metadata.enable": "false"}
        )
    commit = memory_tables.timeline(storage).write_completed[-1]
    begun = inflight_path(memory_tables.timeline(storage).layout, commit.time, Action.SAVEPOINT)
    storage.put_if_absent(begun, b"")
    memory_tables.write(storage, memory_tables.rows([100], 3), version=version)
    assert hudi_py.open_table(storage.uri).metadata.verify().ok
    memory_tables.check_listing(storage)
    assert memory_tables.read(storage) == {**dict.fromkeys(range(8), 2), 100: 3}
    storage.delete(begun)
    memory_tables.check_listing(storage)
    assert memory_tables.read(storage) == {**dict.fromkeys(range(8), 2), 100: 3}
