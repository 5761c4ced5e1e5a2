from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Iterable, Mapping

import fastavro
import pytest

from hudi_py.model.commit import CommitMetadata
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, MemoryStorage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.metadata import encode_commit_metadata
from hudi_py.timeline.records import encode_record
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.view import FileSystemView, StorageLister, filesystem_view, load_view

_NAMES = itertools.count()
P = PartitionPath("p")
_OPERATION = {
    "type": "record",
    "name": "Operation",
    "fields": [{"name": "fileId", "type": "string"}, {"name": "partitionPath", "type": "string"}],
}
COMPACTION_PLAN = {
    "type": "record",
    "name": "HoodieCompactionPlan",
    "fields": [{"name": "operations", "type": {"type": "array", "items": _OPERATION}}],
}


class Table:
    """A table of a version, made of file names."""

    def __init__(self, version: int, partitioned: bool = True) -> None:
        self.config = TableConfig({
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "1" if version == 6 else "2",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.partition.fields": "p" if partitioned else "",
        })  # fmt: skip
        self.version = version
        self.storage = MemoryStorage(f"view-{next(_NAMES)}")
        self.layout = layout_for(self.config)

    def instants(self, *names: str) -> Table:
        """Names of layout 2; the completion time is left out for version 6."""
        for name in names:
            head, dot, rest = name.partition(".")
            self.storage.put(self.layout.path(head.partition("_")[0] + dot + rest if self.version == 6 else name), b"")
        return self

    def files(self, *paths: str) -> Table:
        for path in paths:
            self.storage.put(path, b"x")
            if "/" in path:
                self.storage.put(path.rpartition("/")[0] + "/.hoodie_partition_metadata", b"")
        return self

    def compaction(self, instant: str, *file_ids: str, state: str = "requested") -> Table:
        out = io.BytesIO()
        operations = [{"fileId": file_id, "partitionPath": "p"} for file_id in file_ids]
        fastavro.writer(out, COMPACTION_PLAN, [{"operations": operations}])
        self.storage.put(self.layout.path(f"{instant}.compaction.requested"), out.getvalue())
        if state == "inflight":
            self.storage.put(self.layout.path(f"{instant}.compaction.inflight"), b"")
        return self

    def replaced(self, instant: str, completion: str, replaced: Mapping[str, tuple[str, ...]]) -> Table:
        metadata = CommitMetadata("INSERT_OVERWRITE", replaced=replaced)
        data = encode_commit_metadata(metadata, self.layout, action=Action.REPLACE_COMMIT, completed=True)
        self.storage.put(self.layout.path(self.layout.completed_name(instant, Action.REPLACE_COMMIT, completion)), data)
        return self

    def view(self) -> FileSystemView:
        return load_view(TableState(self.storage, self.config, load_timeline(self.storage, self.config)))


def shown(slices: list[FileSlice]) -> list[tuple[str, str, str | None, list[str]]]:
    """File id, base instant, instant of the base file, and `<instant>.<version>` of the logs."""
    return [
        (
            piece.file_id,
            piece.base_instant,
            piece.base_file.instant if piece.base_file else None,
            [f"{log.name.instant}.{log.name.version}" for log in piece.log_files],
        )
        for piece in slices
    ]


def at(instant: str) -> InstantTime:
    return InstantTime(instant)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_newest_base_file_of_each_group(version: int) -> None:
    table = Table(version).instants("10_11.commit", "20_21.commit", "30.commit.requested", "30.inflight")
    table.files("p/a_0-0-0_10.parquet", "p/a_0-0-1_20.parquet", "p/a_0-0-2_30.parquet", "p/b_0-0-0_10.parquet")
    view = table.view()
    assert shown(view.latest_slices(P)) == [("a", "20", "20", []), ("b", "10", "10", [])]
    assert shown(view.latest_slices(P, at("15"))) == [("a", "10", "10", []), ("b", "10", "10", [])]
    assert view.latest_slices(P, at("05")) == []
    assert view.latest_slices(PartitionPath("none")) == []
    assert view.latest_base_slices(P) == view.latest_slices(P)


@pytest.mark.parametrize("version", [6, 9])
def test_files_older_than_the_timeline_are_committed(version: int) -> None:
    table = Table(version).instants("20_21.commit").files("p/a_0-0-0_10.parquet", "p/b_0-0-0_25.parquet")
    assert shown(table.view().latest_slices(P)) == [("a", "10", "10", [])]


@pytest.mark.parametrize("version", [6, 9])
def test_other_files_are_left_out(version: int) -> None:
    table = Table(version).instants("10_11.deltacommit")
    table.files(
        "p/a_0-0-0_10.parquet", "p/a_0-0-0_10.orc", "p/notes.txt", "p/.hudi_py-1.tmp", "p/x.parquet",
        "p/.a_10.log.1_0-0-0.cdc", "p/.a_10.log.x_0-0-0", "p/.a_10.archive.1_0-0-0",
    )  # fmt: skip
    assert shown(table.view().latest_slices(P)) == [("a", "10", "10", [])]


def test_base_files_of_the_tables_own_format() -> None:
    table = Table(9).instants("10_11.commit").files("p/a_0-0-0_10.orc", "p/b_0-0-0_10.parquet")
    table.config = TableConfig({**table.config.properties, "hoodie.table.base.file.format": "ORC"})
    assert shown(table.view().latest_slices(P)) == [("a", "10", "10", [])]


def test_of_several_attempts_the_last_one_stands() -> None:
    table = Table(9).instants("10_11.commit")
    table.files("p/a_0-2-9_10.parquet", "p/a_0-1-5_10.parquet", "p/a_0-2-7_10.parquet")
    (piece,) = table.view().latest_slices(P)
    assert piece.base_file is not None
    assert piece.base_file.name.write_token == "0-2-9"


class TestVersion6:
    def test_logs_name_their_slice(self) -> None:
        table = Table(6).instants("10.deltacommit", "20.deltacommit", "30.commit", "40.deltacommit")
        table.files("p/a_0-0-0_10.parquet", "p/a_0-0-0_30.parquet")
        table.files("p/.a_10.log.1_0-1-1", "p/.a_30.log.2_0-1-1", "p/.a_30.log.10_0-1-1", "p/.a_30.log.1")
        view = table.view()
        assert shown(view.latest_slices(P)) == [("a", "30", "30", ["30.1", "30.2", "30.10"])]
        assert shown(view.latest_slices(P, at("25"))) == [("a", "10", "10", ["10.1"])]
        assert shown(view.latest_base_slices(P)) == [("a", "30", "30", [])]
        assert shown(view.latest_slices_for_write(P)) == [("a", "30", "30", ["30.1", "30.2", "30.10"])]

    def test_a_group_of_logs_only(self) -> None:
        table = Table(6).instants("10.deltacommit", "20.deltacommit.inflight")
        table.files("p/.a_10.log.1_0-1-1", "p/.b_20.log.1_0-1-1")
        view = table.view()
        assert shown(view.latest_slices(P)) == [("a", "10", None, ["10.1"])]
        assert view.latest_base_slices(P) == []

    def test_logs_from_before_a_downgrade(self) -> None:
        """Versions 8 and 9 put the delta commit's own instant into their names; a downgrade compacts them."""
        table = Table(6).instants("10.deltacommit", "20.deltacommit", "30.deltacommit", "40.commit", "50.deltacommit")
        table.files("p/a_0-0-0_10.parquet", "p/.a_20.log.1_0-1-1", "p/.a_30.log.1_0-1-1")
        table.files("p/a_0-0-9_40.parquet", "p/.a_40.log.1_0-1-1", "p/.b_20.log.1_0-1-1", "p/.b_30.log.1_0-1-1")
        view = table.view()
        logs = ("b", "20", None, ["20.1", "30.1"])
        assert shown(view.latest_slices(P)) == [("a", "40", "40", ["40.1"]), logs]
        assert shown(view.latest_slices(P, at("35"))) == [("a", "10", "10", ["20.1", "30.1"]), logs]

    def test_pending_compaction(self) -> None:
        table = (
            Table(6)
            .instants("10.deltacommit", "20.deltacommit", "40.deltacommit")
            .compaction("30", "a", state="inflight")
        )
        table.files("p/a_0-0-0_10.parquet", "p/a_0-0-9_30.parquet", "p/.a_10.log.1_0-1-1", "p/.a_30.log.1_0-1-1")
        table.files("p/b_0-0-0_10.parquet", "p/.b_10.log.1_0-1-1")
        view = table.view()
        assert view.pending_compaction == {("p", "a"): "30"}
        assert shown(view.latest_slices(P)) == [("a", "10", "10", ["10.1", "30.1"]), ("b", "10", "10", ["10.1"])]
        assert shown(view.latest_slices(P, at("25"))) == [("a", "10", "10", ["10.1"]), ("b", "10", "10", ["10.1"])]
        assert shown(view.latest_base_slices(P)) == [("a", "10", "10", []), ("b", "10", "10", [])]
        assert shown(view.latest_slices_for_write(P)) == [("a", "30", None, ["30.1"]), ("b", "10", "10", ["10.1"])]

    def test_compaction_scheduled_and_nothing_written_since(self) -> None:
        table = Table(6).instants("10.deltacommit").compaction("30", "a").files("p/a_0-0-0_10.parquet")
        view = table.view()
        assert shown(view.latest_slices(P)) == [("a", "10", "10", [])]
        assert shown(view.latest_slices_for_write(P)) == [("a", "30", None, [])]

    def test_compaction_done(self) -> None:
        table = (
            Table(6).instants("10.deltacommit", "30.commit", "40.deltacommit").compaction("30", "a", state="inflight")
        )
        table.files("p/a_0-0-0_10.parquet", "p/a_0-0-9_30.parquet", "p/.a_10.log.1_0-1-1", "p/.a_30.log.1_0-1-1")
        assert shown(table.view().latest_slices(P)) == [("a", "30", "30", ["30.1"])]

    def test_compaction_completed_after_the_pin(self) -> None:
        table = Table(6).instants("10.deltacommit", "40.deltacommit").compaction("30", "a", state="inflight")
        pin = load_timeline(table.storage, table.config).pin()
        table.instants("30.commit", "50.deltacommit")
        table.files("p/a_0-0-0_10.parquet", "p/a_0-0-9_30.parquet", "p/.a_10.log.1_0-1-1", "p/.a_30.log.1_0-1-1")
        seen = load_view(TableState(table.storage, table.config, load_timeline(table.storage, table.config).at(pin)))
        assert shown(seen.latest_slices(P)) == [("a", "10", "10", ["10.1", "30.1"])]


class TestVersion8AndLater:
    def test_logs_belong_to_the_newest_slice_they_completed_after(self) -> None:
        table = Table(9).instants(
            "10_11.deltacommit", "20_35.deltacommit", "25_26.deltacommit", "30_33.commit", "40_41.deltacommit"
        )
        table.files("p/a_0-0-0_10.parquet", "p/a_0-0-0_30.parquet")
        table.files("p/.a_20.log.1_0-1-1", "p/.a_25.log.1_0-1-1", "p/.a_40.log.1_0-1-1", "p/.a_40.log.2_0-1-1")
        view = table.view()
        # 20 began before the compaction at 30 was scheduled and completed after it
        assert shown(view.latest_slices(P)) == [("a", "30", "30", ["20.1", "40.1", "40.2"])]
        assert shown(view.latest_slices(P, at("30"))) == [("a", "30", "30", ["20.1"])]
        assert shown(view.latest_slices(P, at("29"))) == [("a", "10", "10", ["25.1"])]
        assert shown(view.latest_slices(P, at("24"))) == [("a", "10", "10", [])]

    def test_order_is_by_requested_time(self) -> None:
        table = Table(9).instants("10_11.deltacommit", "20_40.deltacommit", "30_35.deltacommit")
        table.files("p/a_0-0-0_10.parquet", "p/.a_30.log.1_0-1-1", "p/.a_20.log.1_0-1-1")
        assert shown(table.view().latest_slices(P)) == [("a", "10", "10", ["20.1", "30.1"])]

    def test_uncommitted_logs_are_hidden(self) -> None:
        table = Table(9).instants("10_11.deltacommit", "15.deltacommit.inflight", "20_21.deltacommit")
        table.files("p/a_0-0-0_10.parquet", "p/.a_15.log.1_0-1-1", "p/.a_17.log.1_0-1-1", "p/.a_20.log.1_0-1-1")
        table.files("p/.b_15.log.1_0-1-1", "p/.b_20.log.1_0-1-1")
        assert shown(table.view().latest_slices(P)) == [("a", "10", "10", ["20.1"]), ("b", "20", None, ["20.1"])]

    def test_a_group_of_logs_only(self) -> None:
        table = (
            Table(8)
            .instants("10_11.deltacommit", "20_21.deltacommit")
            .files("p/.a_20.log.1_0-1-1", "p/.a_10.log.1_0-1-1")
        )
        view = table.view()
        assert shown(view.latest_slices(P)) == [("a", "10", None, ["10.1", "20.1"])]
        assert shown(view.latest_slices(P, at("15"))) == [("a", "10", None, ["10.1"])]
        assert view.latest_base_slices(P) == []

    def test_an_uncommitted_base_file_opens_no_slice(self) -> None:
        table = Table(9).instants("10_11.deltacommit", "20.deltacommit.inflight", "30_31.deltacommit")
        table.files("p/a_0-0-0_10.parquet", "p/a_0-0-0_20.parquet", "p/.a_30.log.1_0-1-1")
        assert shown(table.view().latest_slices(P)) == [("a", "10", "10", ["30.1"])]

    def test_pending_compaction(self) -> None:
        table = Table(9).instants("10_11.deltacommit", "20_35.deltacommit", "25_26.deltacommit", "40_41.deltacommit")
        table.compaction("30", "a", state="inflight")
        table.files("p/a_0-0-0_10.parquet", "p/a_0-0-9_30.parquet")
        table.files("p/.a_20.log.1_0-1-1", "p/.a_25.log.1_0-1-1", "p/.a_40.log.1_0-1-1")
        view = table.view()
        assert shown(view.latest_slices(P)) == [("a", "10", "10", ["20.1", "25.1", "40.1"])]
        assert shown(view.latest_slices_for_write(P)) == [("a", "30", None, ["20.1", "40.1"])]
        assert shown(view.latest_slices(P, at("29"))) == [("a", "10", "10", ["25.1"])]
        assert shown(view.latest_base_slices(P)) == [("a", "10", "10", [])]

    def test_archived_logs_completed_at_their_own_time(self) -> None:
        table = Table(9).instants("50_51.deltacommit").files("p/a_0-0-0_10.parquet", "p/a_0-0-0_30.parquet")
        table.files("p/.a_20.log.1_0-1-1", "p/.a_40.log.1_0-1-1")
        assert shown(table.view().latest_slices(P)) == [("a", "30", "30", ["40.1"])]

    def test_pending_log_compaction_is_hidden(self) -> None:
        table = Table(9).instants(
            "10_11.deltacommit", "20_21.deltacommit", "30.logcompaction.requested", "30.logcompaction.inflight"
        )
        table.files("p/a_0-0-0_10.parquet", "p/.a_20.log.1_0-1-1", "p/.a_30.log.1_0-1-1")
        assert shown(table.view().latest_slices(P)) == [("a", "10", "10", ["20.1"])]


@pytest.mark.parametrize("version", [6, 9])
def test_replaced_groups(version: int) -> None:
    table = Table(version).instants("10_11.commit").replaced("20", "21", {"p": ("a",), "q": ("b",)})
    table.files("p/a_0-0-0_10.parquet", "p/b_0-0-0_10.parquet", "p/c_0-0-0_20.parquet")
    view = table.view()
    assert shown(view.latest_slices(P)) == [("b", "10", "10", []), ("c", "20", "20", [])]
    assert shown(view.latest_slices_for_write(P)) == [("b", "10", "10", []), ("c", "20", "20", [])]
    assert shown(view.latest_slices(P, at("20"))) == shown(view.latest_slices(P))
    assert shown(view.latest_slices(P, at("19"))) == [("a", "10", "10", []), ("b", "10", "10", [])]
    assert shown(view.latest_base_slices(P, at("19"))) == [("a", "10", "10", []), ("b", "10", "10", [])]


@pytest.mark.parametrize("version", [6, 9])
def test_pending_clustering(version: int) -> None:
    table = Table(version).instants("10_11.commit")
    plan = {
        "operationType": "CLUSTER",
        "clusteringPlan": {"inputGroups": [{"slices": [{"fileId": "a", "partitionPath": "p"}]}]},
    }
    name = table.layout.requested_name("20", Action.CLUSTERING)
    table.storage.put(table.layout.path(name), encode_record("HoodieRequestedReplaceMetadata", plan))
    table.storage.put(table.layout.path(table.layout.inflight_name("20", Action.CLUSTERING)), b"")
    table.files("p/a_0-0-0_10.parquet", "p/z_0-0-0_20.parquet")
    view = table.view()
    assert shown(view.latest_slices(P)) == [("a", "10", "10", [])]
    assert view.pending_clustering == {("p", "a"): "20"}


def test_a_view_travels() -> None:
    table = Table(9).instants("10_11.commit").files("p/a_0-0-0_10.parquet")
    view = table.view()
    before = view.latest_slices(P)
    assert pickle.loads(pickle.dumps(view)).latest_slices(P) == before


def test_a_partition_is_listed_once() -> None:
    table = Table(9).instants("10_11.commit").files("p/a_0-0-0_10.parquet")
    view = table.view()
    assert view.partitions() == ["p"]
    before = view.latest_slices(P)
    table.files("p/b_0-0-0_10.parquet", "q/b_0-0-0_10.parquet")
    assert view.latest_slices(P) == before
    assert view.partitions() == ["p"]


class _Turning(StorageLister):
    """Lists as a metadata table does, and the storage from a partition on, in which it finds damage."""

    is_storage = False

    def __init__(self, table: Table, damaged: str) -> None:
        super().__init__(table.storage, table.config)
        self.damaged = damaged
        self.prefetched: list[list[str]] = []
        self.forgotten: list[str] = []

    def prefetch(self, partitions: Iterable[PartitionPath]) -> int:
        self.prefetched.append(list(partitions))
        self.is_storage |= self.damaged in self.prefetched[-1]
        return 2 * len(self.prefetched[-1])

    def forget(self, partitions: Iterable[PartitionPath]) -> None:
        self.forgotten += partitions

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        found = super().files(partition)
        return found if self.is_storage else found[:-1]  # the last one is not in the metadata table


@pytest.mark.parametrize("damaged", ["", "p0", "p4"])
def test_many_partitions_are_listed_in_portions(monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    monkeypatch.setattr(filesystem_view, "_FIRST_PORTION", 2)
    monkeypatch.setattr(filesystem_view, "_PORTION_SIZE", 6)
    names = [f"p{number}" for number in range(7)]
    paths = [f"{name}/{file_id}_0-0-0_10.parquet" for name in names for file_id in "ab"]
    table = Table(9).instants("10_11.commit").files(*paths)
    lister = _Turning(table, damaged)
    state = TableState(table.storage, table.config, load_timeline(table.storage, table.config))
    view = load_view(state, lister)
    partitions = [PartitionPath(name) for name in names]
    found = view.in_portions(partitions, lambda some: [s for path in some for s in view.latest_slices(path)])
    groups = "ab" if damaged else "a"  # from one listing, not of each portion its own
    assert [(slice_.partition, slice_.file_id) for slice_ in found] == [
        (name, each) for name in names for each in groups
    ]
    first = [["p0", "p1"], ["p2", "p3", "p4"]] if damaged == "p4" else []
    assert lister.prefetched == [*first, ["p0", "p1"], ["p2", "p3", "p4"], ["p5", "p6"]]
    assert lister.forgotten[-7:] == names
    assert view._groups == {}


class TestStorageLister:
    def test_partitions_at_any_depth(self) -> None:
        table = Table(9)
        for folder in ("a=1/b=1", "a=1/b=2", "c", "d%2Fe ü", "a=1/b=2/inner"):
            table.storage.put(f"{folder}/.hoodie_partition_metadata", b"")
        table.storage.put("base format/.hoodie_partition_metadata.parquet", b"")
        table.storage.put("no partition/file.parquet", b"")
        table.storage.put(".hoodie/metadata/files/.hoodie_partition_metadata", b"")
        lister = StorageLister(table.storage, table.config)
        assert lister.partitions() == ["a=1/b=1", "a=1/b=2", "a=1/b=2/inner", "base format", "c", "d%2Fe ü"]

    def test_unpartitioned(self) -> None:
        table = Table(9, partitioned=False)
        assert StorageLister(table.storage, table.config).partitions() == [""]
        table.files("a_0-0-0_10.parquet", ".hoodie_partition_metadata", ".hoodie/x")
        lister = StorageLister(table.storage, table.config)
        assert lister.partitions() == [""]
        assert [info.path for info in lister.files(PartitionPath(""))] == [
            ".hoodie_partition_metadata",
            "a_0-0-0_10.parquet",
        ]

    def test_partitioned_and_empty(self) -> None:
        table = Table(9)
        assert StorageLister(table.storage, table.config).partitions() == []
