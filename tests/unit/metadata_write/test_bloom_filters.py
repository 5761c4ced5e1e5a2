"""`bloom_filters` as it is kept up: the filters of the footers."""

from __future__ import annotations

import pickle
import uuid

import pytest

from hudi_py.config import DEFAULTS
from hudi_py.formats.base.files import read_footer
from hudi_py.metadata import open_metadata
from hudi_py.metadata.keys import bloom_filter_key
from hudi_py.metadata.locations import bloom_filters
from hudi_py.metadata_write.partitions.bloom_filters import BloomFilters
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState, load_state
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.protocols import TableChange
from hudi_py.view import load_view
from tests.support.kept_up import rows, write
from tests.support.statistics import made

KEEP = {"hoodie.metadata.index.bloom.filter.enable": "true", "hoodie.parquet.small.file.limit": "0"}


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"memory://{uuid.uuid4()}")


def source(storage: Storage) -> TableSource:
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    view = load_view(TableState(storage, config, timeline))
    return TableSource(storage, config, timeline, view, "", DEFAULTS)


def base_files(storage: Storage) -> list[tuple[str, str]]:
    view = source(storage).view
    return [
        (partition, str(piece.base_file.name))
        for partition in view.partitions()
        for piece in view.every_slice(partition)
        if piece.base_file is not None
    ]


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.sampled(3)
def test_filters_are_those_of_the_footers(storage: MemoryStorage, version: int, kind: str, later: bool) -> None:
    for turn in range(3):
        given = KEEP if not later or turn == 2 else None
        write(storage, rows(range(turn, turn + 4), turn), version=version, kind=kind, given=given)
    metadata = open_metadata(load_state(storage))
    assert metadata is not None
    files = base_files(storage)
    assert len(files) > 2
    found = bloom_filters(metadata, files)
    for partition, name in files:
        footer = read_footer(storage, join_path(PartitionPath(partition), name))
        assert footer.bloom is not None
        assert found[partition, name].encode() == footer.bloom.encode()


def test_removals_name_base_files_only(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)), given=KEEP)
    (partition, name), *_ = base_files(storage)
    log = ".f-0_20240101000000000.log.1_0-1-0"
    change = TableChange(InstantTime("20990101000000000"), Action.CLEAN, deleted={partition: (name, log)})
    assert made(BloomFilters().changes(source(storage), change)) == {
        ("bloom_filters", bloom_filter_key(partition, name)): {
            "record": 4,
            "type": "",
            "timestamp": "20990101000000000",
            "bloomFilter": b"",
            "isDeleted": True,
        }
    }


def test_other_actions_change_nothing(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)), given=KEEP)
    change = TableChange(InstantTime("20990101000000000"), Action.ROLLBACK, deleted={"a": ("x",)})
    assert made(BloomFilters().changes(source(storage), change)) == {}
    assert pickle.loads(pickle.dumps(BloomFilters())) == BloomFilters()


def test_files_without_a_filter_have_no_record(storage: MemoryStorage) -> None:
    write(storage, rows(range(4)), given=KEEP)
    (partition, name), *rest = base_files(storage)
    storage.put(join_path(PartitionPath(partition), name), b"no parquet")
    with pytest.warns(UserWarning, match="No bloom filter is stored"):
        found = made(BloomFilters().initial(source(storage)))
    assert {key for _, key in found} == {bloom_filter_key(*file) for file in rest}
