"""The metadata table, kept up within writes: its partitions, what they list, what becomes of foreign ones."""

from __future__ import annotations

import json
import pickle
import uuid
import warnings
from itertools import product

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import Action, InstantTime, State
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run_all
from hudi_py.storage import FolderStorage, LocalStorage, MemoryStorage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.session import WriteTarget
from tests.support.choice import cases
from tests.support.sessions import record, roll_back, session_of
from tests.unit.metadata_write.memory_tables import (
    QUICK,
    check_listing,
    clock,
    own_timeline,
    read,
    rows,
    timeline,
    write,
    writer,
)

KINDS = [
    (version, kind, partitioned) for version in (6, 8, 9) for kind in ("cow", "mor") for partitioned in (True, False)
]
INDEXES = {
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}


@pytest.fixture
def storage():
    return MemoryStorage(f"metadata-{uuid.uuid4()}")


def partitions(storage) -> tuple[str, ...]:
    return load_table_config(storage).metadata_partitions


def definitions(storage) -> dict:
    return json.loads(storage.read(".hoodie/.index_defs/index.json"))["indexDefinitions"]


@pytest.mark.parametrize(("version", "kind", "partitioned"), cases(KINDS, "a new table", 4))
def test_a_new_table_gets_what_apache_hudi_gives_it(storage, version, kind, partitioned):
    write(storage, rows(range(6), 1), version=version, kind=kind, partitioned=partitioned)
    expected = ["column_stats", "files"]
    if partitioned and version >= 8:
        expected.append("partition_stats")
    assert list(partitions(storage)) == expected
    initial = [instant.time for instant in own_timeline(storage).completed if instant.time.startswith("0")]
    first = 0 if version >= 8 else 10
    assert initial == [f"{first + number:017}" for number in range(len(expected))]
    assert definitions(storage)["column_stats"]["version"] == ("V2" if version == 9 else "V1")
    assert definitions(storage)["column_stats"]["sourceFields"] == [
        "_hoodie_commit_time",
        "_hoodie_partition_path",
        "_hoodie_record_key",
        "id",
        "name",
        "ts",
        "p",
    ]


@pytest.mark.parametrize(("version", "kind", "partitioned"), cases(KINDS, "it lists", 4))
def test_it_lists_what_the_storage_has(storage, version, kind, partitioned):
    made = {"version": version, "kind": kind, "partitioned": partitioned}
    state: dict[int, int] = {}
    steps = [("upsert", range(6), 1), ("upsert", range(4, 9), 2), ("delete", range(2), 3), ("insert", range(20, 22), 4)]
    steps += [("insert_overwrite_table", range(3), 5), ("upsert", range(1, 5), 6)]
    for operation, ids, ts in steps:
        write(storage, rows(ids, ts), operation, **made)
        if operation == "insert_overwrite_table":
            state = {}
        for number in ids:
            state.pop(number, None) if operation == "delete" else state.update({number: ts})
        check_listing(storage)
        assert read(storage) == state
    data, own = timeline(storage), own_timeline(storage)
    for instant in data.completed:
        mirrored = own.find(instant.time, Action.DELTA_COMMIT)
        assert mirrored is not None
        assert mirrored.completed
        if version >= 8:
            assert mirrored.completion_time < instant.completion_time


@pytest.mark.parametrize("version", [6, 8, 9])
def test_its_properties_are_those_of_apache_hudi(storage, version):
    write(storage, rows(range(2), 1), version=version)
    own = load_table_config(FolderStorage(storage, ".hoodie/metadata"))
    assert (own.version, own.name, own.base_file_format, own.table_type) == (
        version,
        "t_metadata",
        "HFILE",
        "MERGE_ON_READ",
    )
    assert own.record_key_fields == ("key",)
    assert not own.populates_meta_fields
    assert own.payload_class == "org.apache.hudi.metadata.HoodieMetadataPayload"
    assert own.merge_strategy_id == "00000000-0000-0000-0000-000000000000"
    if version >= 8:
        assert (own.merge_mode, own.keygen_type) == ("CUSTOM", "HOODIE_TABLE_METADATA")
    else:
        assert own.keygen_class == "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"


@pytest.mark.parametrize("version", [6, 9])
def test_it_is_made_from_what_a_table_holds(storage, version):
    write(storage, rows(range(6), 1), version=version, options={"hoodie.metadata.enable": "false"})
    write(storage, rows(range(2), 2), version=version, options={"hoodie.metadata.enable": "false"})
    assert partitions(storage) == ()
    write(storage, rows(range(3), 3), version=version, options=INDEXES)
    assert {"files", "column_stats", "bloom_filters", "record_index"} <= set(partitions(storage))
    check_listing(storage)
    assert read(storage) == {0: 3, 1: 3, 2: 3, 3: 1, 4: 1, 5: 1}


def test_indexes_are_added_to_a_table_and_stay_without_being_named(storage):
    write(storage, rows(range(6), 1))
    write(storage, rows(range(6), 2), options=INDEXES)
    write(storage, rows(range(7), 3))
    assert partitions(storage) == ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")
    assert definitions(storage)["record_index"]["indexOptions"] == {"isPartitioned": "false"}
    times = {instant.time for instant in timeline(storage).completed}
    assert times <= {instant.time for instant in own_timeline(storage).completed}
    check_listing(storage)


def test_an_index_whose_option_is_false_is_dropped(storage):
    write(storage, rows(range(6), 1), options=INDEXES)
    given = {"hoodie.metadata.index.column.stats.enable": "false", "hoodie.metadata.record.index.enable": "false"}
    write(storage, rows(range(3), 2), options={**given, "hoodie.metadata.auto.delete.partitions": "false"})
    assert "column_stats" in partitions(storage)
    write(storage, rows(range(3), 3), options=given)
    assert partitions(storage) == ("bloom_filters", "files")
    assert set(definitions(storage)) == set()
    assert storage.stat(".hoodie/metadata/column_stats") is None
    check_listing(storage)


def test_it_is_dropped_where_it_is_switched_off(storage):
    write(storage, rows(range(6), 1))
    write(storage, rows(range(3), 2), options={"hoodie.metadata.enable": "false"})
    assert partitions(storage) == ()
    assert storage.stat(".hoodie/metadata") is None
    write(storage, rows(range(3), 3))
    check_listing(storage)


def test_it_is_not_made_without_the_files_of_a_table_that_has_some(storage):
    write(storage, rows(range(6), 1), options={"hoodie.metadata.enable": "false"})
    with pytest.raises(ConfigError, match="auto.initialize"):
        write(storage, rows(range(6), 2), options={"hoodie.metadata.auto.initialize": "false"})


def test_a_record_index_that_waits_for_the_second_write(storage):
    options = {**INDEXES, "hoodie.metadata.record.level.index.defer.init": "true"}
    write(storage, rows(range(6), 1), options=options)
    assert "record_index" not in partitions(storage)
    write(storage, rows(range(6), 2), options=options)
    assert "record_index" in partitions(storage)
    check_listing(storage)


@pytest.mark.parametrize("version", [6, 9])
def test_one_that_was_left_behind_is_made_anew(storage, version):
    write(storage, rows(range(6), 1), version=version, options=INDEXES)
    kept = load_table_config(storage).properties["hoodie.table.metadata.partitions"]
    held = {info.path: storage.read(info.path) for info in storage.walk(".hoodie/metadata")}
    write(
        storage,
        rows(range(2), 2),
        version=version,
        options={"hoodie.metadata.enable": "false", "hoodie.py.drop.indexes": "true"},
    )
    for path, data in held.items():
        storage.put(path, data)
    update_table_config(storage, {"hoodie.table.metadata.partitions": kept})
    with pytest.warns(UserWarning, match="is rebuilt"):
        write(storage, rows(range(1), 3), version=version)
    assert ",".join(partitions(storage)) == kept
    check_listing(storage)
    assert read(storage) == {0: 3, 1: 2, 2: 1, 3: 1, 4: 1, 5: 1}


@pytest.mark.filterwarnings("ignore:The metadata table of .* is not used")
@pytest.mark.parametrize("version", [6, 9])
def test_one_without_instants_is_made_anew_though_a_service_has_failed_on_it(storage, version):
    """As an upgrade of the metadata table that Apache Hudi was killed in leaves it. The rollback of what the service
    began there is the only instant then."""
    for ts in range(3):
        write(storage, rows(range(6), ts), version=version, kind="cow", options=INDEXES)
    for info in list(storage.walk(".hoodie/metadata/.hoodie")):
        if "commit" in info.name:
            storage.delete(info.path)
    chosen = Options.resolve({"hoodie.clean.commits.retained": "1"}, defaults={})
    with pytest.warns(UserWarning, match="is damaged, and the next write rebuilds it"):
        run_all(Cleaning(), ServiceContext.of(WriteTarget(storage, chosen, writer(), clock=clock(storage))))
    write(storage, rows(range(1), 3), version=version, kind="cow", options=INDEXES)
    check_listing(storage)
    assert verify(ServiceContext.of(WriteTarget(storage, chosen, writer()))).ok


def foreign(storage) -> None:
    """Makes the table one with a secondary and an expression index."""
    names = ("secondary_index_name", "expr_index_day")
    known = load_table_config(storage).metadata_partitions
    update_table_config(storage, {"hoodie.table.metadata.partitions": ",".join((*known, *names))})
    content = json.loads(storage.read(".hoodie/.index_defs/index.json"))
    for name in names:
        storage.put(f".hoodie/metadata/{name}/.hoodie_partition_metadata", b"x")
        content["indexDefinitions"][name] = {"indexName": name}
    storage.put(".hoodie/.index_defs/index.json", json.dumps(content).encode())


def test_foreign_indexes_refuse_a_write(storage):
    write(storage, rows(range(6), 1), options=INDEXES)
    foreign(storage)
    before = sorted((info.path, info.size) for info in storage.walk())
    with pytest.raises(ConfigError, match="Cannot write to .*secondary_index_name, expr_index_day"):
        write(storage, rows(range(2), 2))
    assert sorted((info.path, info.size) for info in storage.walk()) == before


def test_foreign_indexes_alone_are_dropped_where_that_is_allowed(storage):
    write(storage, rows(range(6), 1), options=INDEXES)
    foreign(storage)
    write(storage, rows(range(2), 2), options={"hoodie.py.drop.indexes": "true"})
    assert partitions(storage) == ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")
    assert set(definitions(storage)) == {"column_stats", "record_index"}
    assert storage.stat(".hoodie/metadata/expr_index_day") is None
    check_listing(storage)


@pytest.mark.parametrize("dropping", [False, True])
def test_a_compaction_says_that_foreign_indexes_are_dropped_only_where_they_are(storage, dropping):
    """It changes neither keys nor values: secondary indexes stay true, and Apache Hudi 1.2.0 reads files of which an
    expression index knows nothing."""
    for ts in (1, 2):
        write(storage, rows(range(6), ts), kind="mor")
    foreign(storage)
    options = {"hoodie.py.drop.indexes": str(dropping).lower()}
    chosen = Options.resolve(options, defaults={})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run_all(
            Compaction(always=True),
            ServiceContext.of(WriteTarget(storage, chosen, writer(options), clock=clock(storage))),
        )
    assert [str(each.message).partition(" of ")[0] for each in told] == (
        ["Dropped the indexes secondary_index_name, expr_index_day"] if dropping else []
    )
    assert ("expr_index_day" in partitions(storage)) is not dropping
    check_listing(storage)


def test_the_writer_pickles():
    made = writer(INDEXES)
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert isinstance(again, MetadataTableWriter)


# -- rollbacks


def unpublished(storage) -> InstantTime:
    """The newest write without its completed file: what a writer leaves that dies before that."""
    newest = timeline(storage).last_completed
    storage.delete(timeline(storage).layout.path(newest.file_name))
    return newest.time


@pytest.mark.parametrize(("version", "kind"), cases(product((6, 8, 9), ("cow", "mor")), "recorded", 3))
def test_a_write_that_was_recorded_and_not_completed_is_undone(storage, version, kind):
    made = {"version": version, "kind": kind, "options": INDEXES}
    write(storage, rows(range(6), 1), **made)
    before = check_listing(storage)
    write(storage, rows(range(4, 9), 2), **made)
    failed = unpublished(storage)
    assert read(storage) == dict.fromkeys(range(6), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pending = timeline(storage).find(failed)
        assert pending is not None
        roll_back(session_of(storage, writer(INDEXES), clock=clock(storage)), pending)
    own = own_timeline(storage)
    assert own.find(failed, Action.DELTA_COMMIT) is None
    rollbacks = [instant for instant in own.completed if instant.action is Action.ROLLBACK]
    mirrored = [instant.time for instant in timeline(storage).completed if instant.action is Action.ROLLBACK]
    assert [instant.time for instant in rollbacks] == [time + ("006" if version == 6 else "") for time in mirrored]
    after = check_listing(storage)
    if version >= 8:
        assert after == before
        assert not [info for info in storage.walk(".hoodie/metadata") if f"_{failed}" in info.name]
    else:
        assert [i.time for i in own.completed if i.action is Action.DELTA_COMMIT][-1] == mirrored[0]
    assert read(storage) == dict.fromkeys(range(6), 1)
    write(storage, rows(range(4, 9), 3), **made)
    check_listing(storage)
    assert read(storage) == {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 9), 3)}


@pytest.mark.parametrize("version", [6, 9])
def test_recording_again_takes_the_place_of_the_first_time(storage, version):
    """As when a compaction is run anew under its instant, with other files."""
    write(storage, rows(range(6), 1), version=version)
    write(storage, rows(range(3), 2), version=version)
    layout = timeline(storage).layout
    newest = timeline(storage).last_completed
    commit = read_commit_metadata(storage, layout, newest)
    content = storage.read(layout.path(newest.file_name))
    storage.delete(layout.path(newest.file_name))
    change = TableChange(newest.time, newest.action, commit)
    for _ in range(2):
        record(storage, writer(), change, clock(storage))
    storage.put(layout.path(newest.file_name), content)
    check_listing(storage)
    assert read(storage) == {0: 2, 1: 2, 2: 2, 3: 1, 4: 1, 5: 1}


@pytest.mark.parametrize("version", [6, 9])
def test_a_delta_commit_that_broke_off_is_undone_by_the_next_write(storage, version):
    write(storage, rows(range(6), 1), version=version)
    own = own_timeline(storage)
    newest = [instant for instant in own.completed if instant.action is Action.DELTA_COMMIT][-1]
    layout = own.layout
    folder = FolderStorage(storage, ".hoodie/metadata")
    folder.delete(layout.path(newest.file_name))
    assert own_timeline(storage).find(newest.time, Action.DELTA_COMMIT).state is State.INFLIGHT
    failed = unpublished(storage)
    assert failed == newest.time
    pending = timeline(storage).find(failed)
    assert pending is not None
    roll_back(session_of(storage, writer(), clock=clock(storage)), pending)
    assert own_timeline(storage).find(failed, Action.DELTA_COMMIT) is None
    write(storage, rows(range(3), 2), version=version)
    check_listing(storage)
    assert read(storage) == dict.fromkeys(range(3), 2)


def test_a_metadata_table_that_is_no_use_is_made_anew(storage):
    write(storage, rows(range(6), 1))
    storage.delete(".hoodie/metadata/.hoodie/hoodie.properties")
    with pytest.warns(UserWarning, match="is rebuilt"):
        write(storage, rows(range(6), 2))
    check_listing(storage)


def test_others_drop_it_as_before(storage):
    write(storage, rows(range(6), 1))
    record(storage, DropMetadata(), TableChange(InstantTime("1"), Action.COMMIT), clock(storage))
    assert partitions(storage) == ()


def test_folders_of_a_metadata_table_are_those_that_java_lists(tmp_path):
    write(LocalStorage(str(tmp_path)), rows(range(2), 1))
    own = tmp_path / ".hoodie" / "metadata" / ".hoodie"
    assert (own / "timeline" / "history").is_dir()
    assert QUICK  # the options of these tables


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 9])
def test_columns_that_are_added_to_the_statistics_are_there_of_older_files_too(storage, version):
    """Ranges of the new files alone would be taken for those of whole partitions."""
    key = "hoodie.metadata.index.column.stats.column.list"
    write(storage, rows(range(4), 1), version=version, options={key: "id", **INDEXES})
    write(storage, rows(range(2, 6), 2), version=version, options={key: "id"})
    before = partitions(storage)
    assert "ts" not in definitions(storage)["column_stats"]["sourceFields"]
    write(storage, rows([4], 3), version=version, options={key: "id,ts"})
    assert {"id", "ts"} <= set(definitions(storage)["column_stats"]["sourceFields"])
    assert set(partitions(storage)) == set(before)
    context = ServiceContext.of(WriteTarget(storage, Options.resolve({}, defaults={}), writer()))
    assert verify(context).ok
    for ts, expected in [(1, [0, 1]), (2, [2, 3, 5]), (3, [4])]:
        found = hudi_py.open_table(storage.uri).scan(columns=["id"], filter=f"ts = {ts}").to_table()
        assert sorted(found["id"].to_pylist()) == expected
    # nothing is made anew where no column is added
    there = {instant.time for instant in own_timeline(storage).completed}
    write(storage, rows([4], 4), version=version, options={key: "id"})
    added = {instant.time for instant in own_timeline(storage).completed} - there
    assert added == {timeline(storage).write_completed[-1].time}
