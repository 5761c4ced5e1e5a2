"""`partition_stats` where files have none, or are on their way out."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_py.file_stats.files import DataFile
from hudi_py.metadata.table import PARTITION_STATS
from hudi_py.metadata_write.encoding.records import MetadataRecords
from hudi_py.metadata_write.partitions.partition_stats import PartitionStats, _Gathered, _was_overtaken
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import PartitionPath
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline, timeline_of
from hudi_py.transaction.protocols import TableChange
from hudi_py.view import load_view
from tests.support.kept_up import options, rows, write
from tests.support.renamed import renamed
from tests.support.statistics import Records, made, stored

AFTER = InstantTime("20990101000000000")


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"memory://{uuid.uuid4()}")


def source(storage: Storage) -> TableSource:
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    schema = read_commit_metadata(storage, timeline.layout, timeline.completed[-1]).extra["schema"]
    return TableSource(
        storage, config, timeline, load_view(TableState(storage, config, timeline)), schema, options(9, "mor")
    )


def stat_of(storage: Storage, partition: str) -> WriteStat:
    """A statistic of the partition's newest base file, as if it were written now."""
    (piece,) = source(storage).view.latest_slices(PartitionPath(partition))
    assert piece.base_file is not None
    return WriteStat(piece.file_id, piece.base_file.path, partition, file_size=piece.base_file.size)


def record_of(records: Records, column: str, partition: str) -> tuple[object, object, int, int]:
    (found,) = [
        record
        for (name, _), record in records.items()
        if name == PARTITION_STATS and (record["columnName"], record["fileName"]) == (column, partition)
    ]
    assert found["isTightBound"]
    return found["minValue"][1], found["maxValue"][1], found["valueCount"], found["nullCount"]


def changes(storage: Storage, *stats: WriteStat, operation: str = "UPSERT") -> Records:
    change = TableChange(AFTER, Action.DELTA_COMMIT, CommitMetadata(operation, stats))
    return made(PartitionStats().changes(source(storage), change))


def test_only_partitions_written_to_are_made_anew(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)))
    found = changes(storage, stat_of(storage, "a"))
    assert {record["fileName"] for record in found.values()} == {"a"}
    assert record_of(found, "id", "a") == (0, 2, 2, 0)


def test_a_file_that_does_not_tell_makes_room_for_all_values(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)))
    stat = stat_of(storage, "a")
    storage.put("a/other_0-1-0_20240101000000000.parquet", b"no parquet")
    other = replace(stat, path="a/other_0-1-0_20240101000000000.parquet", file_id="other")
    with pytest.warns(UserWarning, match="No statistics for the file"):
        found = changes(storage, stat, other)
    assert record_of(found, "id", "a") == (-(2**63), 2**63 - 1, 2, 0)
    low, high, *_ = record_of(found, "name", "a")
    assert (low, str(high)[0]) == ("", "\U0010ffff")
    storage.put(stat.path, b"no parquet".ljust(stat.file_size))
    with pytest.warns(UserWarning, match="No statistics for the file"):
        assert not [key for key in changes(storage, stat) if key[0] == PARTITION_STATS]


def test_columns_which_files_lack_may_have_had_another_name(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)).drop_columns(["name"]))
    stat = stat_of(storage, "a")
    table = source(storage)
    whole = '{"type":"record","name":"r","fields":[{"name":"id","type":"long"},{"name":"name","type":"string"}]}'
    change = TableChange(AFTER, Action.DELTA_COMMIT, CommitMetadata("UPSERT", (stat,)))
    found = made(PartitionStats().changes(replace(table, schema_json=whole), change))
    assert [record["nullCount"] for record in found.values() if record["columnName"] == "name"] == [2]
    storage.put(".hoodie/.schema/20240101000000000.schemacommit", b"{}")
    found = made(PartitionStats().changes(replace(table, schema_json=whole), change))
    assert record_of(found, "name", "a")[0] == ""


def test_a_new_base_file_takes_the_place_of_older_files(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)))
    write(storage, rows([0, 2], 5))
    (piece,) = source(storage).view.latest_slices(PartitionPath("a"))
    assert piece.base_file is not None
    assert len(piece.log_files) == 1
    # a copy under the name that a compaction of now would give it
    name = str(replace(piece.base_file.name, instant=AFTER))
    storage.put(f"a/{name}", renamed(storage.read(piece.base_file.path), name))
    found = changes(storage, WriteStat(piece.file_id, f"a/{name}", "a"), operation="COMPACT")
    assert record_of(found, "ts", "a") == (1, 1, 2, 0)
    # a log that completed later than the compaction was scheduled belongs to its slice
    early = str(replace(piece.base_file.name, instant=piece.log_files[0].name.instant))
    storage.put(f"a/{early}", renamed(storage.read(piece.base_file.path), early))
    found = changes(storage, WriteStat(piece.file_id, f"a/{early}", "a"), operation="COMPACT")
    assert record_of(found, "ts", "a") == (1, 5, 4, 0)


def test_other_actions_change_nothing(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)))
    for action in (Action.CLEAN, Action.ROLLBACK, Action.RESTORE):
        change = TableChange(AFTER, action, deleted={"a": ("x",)}, deleted_partitions=("a",))
        assert made(PartitionStats().changes(source(storage), change)) == {}


def test_the_standing_record_serves_where_files_only_come(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"hoodie.parquet.small.file.limit": "0"}
    asked: list[int] = []
    looked_up = _Gathered.look_up

    def look_up(gathered: _Gathered, files: Sequence[DataFile]) -> MetadataRecords:
        asked.append(len(files))
        return looked_up(gathered, files)

    monkeypatch.setattr(_Gathered, "look_up", look_up)
    for turn in range(4):
        write(storage, rows([2 * turn], turn), "insert", kind="cow", given=few)
    assert asked == [0, 0, 0, 0]
    last = {
        record["columnName"]: record
        for (name, _), record in stored(storage, source(storage).timeline.completed[-1].time).items()
        if name == PARTITION_STATS
    }
    assert (last["id"]["minValue"][1], last["id"]["maxValue"][1], last["id"]["valueCount"]) == (0, 6, 4)
    write(storage, rows([0], 9), kind="cow", given=few)
    assert asked[-1] == 3
    write(storage, rows([10], 10).append_column("more", pa.array([1], pa.int32())), "insert", kind="cow", given=few)
    assert asked[-1] == 4


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_files_that_were_replaced_count_no_longer(storage: MemoryStorage, kind: str) -> None:
    write(storage, rows(range(4)), kind=kind)
    write(storage, rows([10]), "insert_overwrite_table", kind=kind)
    found = stored(storage, source(storage).timeline.completed[-1].time)
    assert record_of(found, "id", "a") == (0, 10, 3, 0)  # they still do in the commit that replaces them
    write(storage, rows([12]), kind=kind, given={"hoodie.parquet.small.file.limit": "0"})
    found = stored(storage, source(storage).timeline.completed[-1].time)
    assert record_of(found, "id", "a") == (10, 12, 2, 0)


def test_the_standing_record_does_not_serve_where_commits_overtook_each_other() -> None:
    layout = Layout(2, ".hoodie/timeline")

    def overtaken(*completions: int) -> bool:
        """Whether it is so with these completion times, in order of requested times."""
        names = (f"{1000 + at}_{2000 + completed}.deltacommit" for at, completed in enumerate(completions))
        return _was_overtaken(timeline_of(layout, [file for name in names if (file := layout.parse(name))]))

    assert not overtaken()
    assert not overtaken(1, 2, 3)
    assert overtaken(1, 3, 2)
    assert overtaken(4, 1, 5)
