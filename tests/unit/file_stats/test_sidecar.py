"""Sidecars tell exactly which keys a write brings into each file group or takes out of it; so do the files."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import CorruptFileError
from hudi_py.file_stats.keys import KeyReader, base_file_changes, log_file_changes
from hudi_py.file_stats.ranges import ColumnRanges
from hudi_py.file_stats.sidecar import Sidecar, SidecarContent, SidecarSettings, read_sidecar
from hudi_py.merge import CommittedInstants, LogSpec, merge_settings
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.files import LogFile
from hudi_py.model.names import parse_log_file_name
from hudi_py.read.snapshot import open_snapshot
from hudi_py.storage import MemoryStorage, open_storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import load_view

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.metadata.enable": "false"}
_FOLDER = "s"


def _rows(keys: list[int], ts: list[int], deleted: list[bool]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "p": pa.array([f"p{key % 2}" for key in keys], pa.string()),
            "ts": pa.array(ts, pa.int64()),
            "_hoodie_is_deleted": pa.array(deleted, pa.bool_()),
        }
    )


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> MemoryStorage:
    """Where sidecars are kept which a write would remove when it is over."""
    storage = MemoryStorage(str(uuid.uuid4()))
    monkeypatch.setattr(
        WriteTransaction, "keep_sidecar", lambda self, sidecar, path: sidecar.save(storage, _FOLDER, path)
    )
    monkeypatch.setattr(MetadataTableWriter, "sidecar", lambda *_: SidecarSettings(keys=True))
    return storage


class _Groups:
    """The slices of a table by file id, and how to read their keys."""

    def __init__(self, path: str) -> None:
        self.storage = open_storage(path)
        self.config = load_table_config(self.storage)
        self.timeline = load_timeline(self.storage, self.config)
        view = load_view(TableState(self.storage, self.config, self.timeline))
        self.slices = {
            slice_.file_id: slice_ for part in view.partitions() for slice_ in view.latest_slices_for_write(part)
        }
        schema = open_snapshot(TableState(self.storage, self.config, self.timeline)).schema
        committed = CommittedInstants.of(self.config, self.timeline)
        self.reader = KeyReader(self.storage, schema, LogSpec(merge_settings(self.config), committed))

    def keys(self, file_id: str) -> set[str]:
        slice_ = self.slices.get(file_id)  # type: ignore[call-overload]
        return set() if slice_ is None else {key for part in self.reader.of_slice(slice_) for key in part.to_pylist()}


def _told(content: SidecarContent) -> tuple[set[str], set[str]]:
    assert content.has_keys
    rows = [row for batch in content.key_batches() for row in batch.to_pylist()]
    return {row["key"] for row in rows if not row["removed"]}, {row["key"] for row in rows if row["removed"]}


def _sets(changes: Any) -> tuple[set[str], set[str]]:
    return set(changes.added.to_pylist()), set(changes.removed.to_pylist())


@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (9, "cow"), (6, "mor"), (9, "mor")])
@pytest.mark.sampled(3)
def test_every_change_of_keys_is_told(
    tmp_path: Path, kept: MemoryStorage, version: int, kind: str, ordering: str | None
) -> None:
    chance = random.Random(f"{version}{kind}{ordering}")
    path = str(tmp_path / "t")
    table: dict[str, Any] = {"record_key": "k", "partition_by": "p", "table_type": kind, "table_version": version}
    if ordering:
        table["ordering_by"] = ordering
    data = _rows(list(range(12)), [10] * 12, [False] * 12)
    hudi_py.write(path, data, "insert", QUICK, **table)
    for turn in range(6):
        before = _Groups(path)
        keys = chance.sample(range(20), 6)
        operation = chance.choice(["upsert", "upsert", "upsert", "delete", "insert"])
        if operation == "insert":
            keys = [100 * (turn + 1) + key for key in keys[:2]]
        marks = [operation == "upsert" and chance.random() < 0.4 for _ in keys]
        options = dict(QUICK)
        if chance.random() < 0.3:
            options["hoodie.parquet.small.file.limit"] = "0"
        hudi_py.write(path, _rows(keys, [chance.randrange(5, 16) for _ in keys], marks), operation, options)
        after = _Groups(path)
        metadata = read_commit_metadata(after.storage, after.timeline.layout, after.timeline.write_completed[-1])
        for stat in metadata.stats:
            was, now = before.keys(stat.file_id), after.keys(stat.file_id)
            content = read_sidecar(kept, _FOLDER, stat.path)
            assert content is not None
            added, removed = _told(content)
            assert now - was <= added <= now, (turn, operation)
            assert was - now <= removed, (turn, operation)
            assert not removed & now, (turn, operation)
            assert _sets(_derived(after.reader, before, stat)) == (now - was, was - now), (turn, operation)


def _derived(reader: KeyReader, before: _Groups, stat: Any) -> Any:
    name = stat.path.rpartition("/")[2]
    log = parse_log_file_name(name)
    if log is None:
        return base_file_changes(
            reader, stat.path, f"{stat.partition_path}/{stat.prev_base_file}" if stat.prev_base_file else None
        )
    slice_ = before.slices[stat.file_id]
    return log_file_changes(reader, slice_, LogFile(slice_.partition, log, stat.file_size))


def test_ranges_of_log_records_are_told(tmp_path: Path, kept: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ("_hoodie_record_key", "ts", "p", "no such column")
    monkeypatch.setattr(MetadataTableWriter, "sidecar", lambda *_: SidecarSettings(columns=wanted))
    path = str(tmp_path / "t")
    hudi_py.write(path, _rows([2, 4, 6], [1] * 3, [False] * 3), "insert", QUICK, record_key="k", table_type="mor")
    hudi_py.write(path, _rows([2, 4, 6], [7, 5, 9], [False, False, True]), "upsert", QUICK)
    (info,) = [info for info in kept.walk() if ".log." in info.name]
    content = SidecarContent(kept.read(info.path), "test")
    assert not content.has_keys
    assert content.ranges is not None
    rows = {row["column"]: row for row in ColumnRanges(content.ranges).rows.to_pylist()}
    assert list(rows) == ["_hoodie_record_key", "ts", "p"]
    assert (rows["ts"]["low"]["whole"], rows["ts"]["high"]["whole"], rows["ts"]["values"]) == (5, 7, 2)
    assert (rows["_hoodie_record_key"]["low"]["text"], rows["_hoodie_record_key"]["high"]["text"]) == ("2", "4")


def test_without_settings_there_are_no_sidecars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a sidecar was written")

    monkeypatch.setattr(Sidecar, "save", fail)
    hudi_py.write(str(tmp_path / "t"), _rows([1], [1], [False]), "upsert", QUICK, record_key="k", table_type="mor")
    hudi_py.write(str(tmp_path / "t"), _rows([1], [2], [False]), "upsert", QUICK)


def test_keys_and_ranges_are_told_apart() -> None:
    storage = MemoryStorage(str(uuid.uuid4()))
    ranges = pa.record_batch({"column": ["a"], "nulls": [3]}).replace_schema_metadata({"own": "x"})
    sidecar = Sidecar()
    sidecar.add_keys(pa.array(["1", "2"]))
    sidecar.add_keys(pa.array(["3"]), removed=True)
    sidecar.set_ranges(ranges)
    sidecar.save(storage, "f", "file.parquet")
    content = read_sidecar(storage, "f", "file.parquet")
    assert content is not None
    assert _told(content) == ({"1", "2"}, {"3"})
    assert content.ranges is not None
    assert content.ranges.to_pydict() == ranges.to_pydict()
    assert content.ranges.schema.metadata[b"own"] == b"x"

    only = Sidecar()
    only.set_ranges(ranges)
    only.save(storage, "f", "log")
    content = read_sidecar(storage, "f", "log")
    assert content is not None
    assert (content.has_keys, list(content.key_batches())) == (False, [])
    nothing = Sidecar()
    nothing.begin_keys()
    nothing.save(storage, "f", "same")
    content = read_sidecar(storage, "f", "same")
    assert content is not None
    assert (content.has_keys, list(content.key_batches()), content.ranges) == (True, [], None)


def test_missing_and_damaged_sidecars() -> None:
    storage = MemoryStorage(str(uuid.uuid4()))
    assert read_sidecar(storage, "f", "none") is None
    assert read_sidecar(storage, "", "none") is None
    storage.put("f/bad.arrow", b"no Arrow stream at all")
    content = read_sidecar(storage, "f", "bad")
    assert content is not None
    with pytest.raises(CorruptFileError, match=r"f/bad\.arrow"):
        assert content.has_keys
