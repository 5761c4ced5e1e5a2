"""The metadata table of a table whose data files are lost."""

from __future__ import annotations

import uuid
import warnings

import pytest

from hudi_py.errors import CorruptFileError
from hudi_py.metadata_write.maintenance.rebuild import rebuild
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.model.names import PartitionPath
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import load_state
from hudi_py.view import load_view
from tests.support.kept_up import options, rows, write
from tests.unit.metadata_write.test_verify import EVERYTHING, context, make


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"memory://{uuid.uuid4()}")


def newest(storage: Storage, ending: str, partition: str = "a") -> str:
    """A file of the newest slice of a partition."""
    view = load_view(load_state(storage))
    slices = view.latest_slices(PartitionPath(partition))
    logs = [log.path for each in slices for log in each.log_files]
    return logs[-1] if ending == "log" else next(each.base_file.path for each in slices if each.base_file is not None)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gone", "short"])
@pytest.mark.parametrize(("version", "kind", "ending"), [(6, "mor", "log"), (8, "cow", "parquet"), (9, "mor", "log")])
@pytest.mark.sampled(3)
def test_lost_data_files_are_reported_and_not_made_permanent(
    version: int, kind: str, ending: str, how: str, storage: MemoryStorage
) -> None:
    make(storage, version, kind, 3)
    path = newest(storage, ending)
    content, before = storage.read(path), load_table_config(storage).metadata_partitions
    storage.delete(path)
    if how == "short":
        storage.put(path, content[:-5])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Rows are missing or old|No (statistics|bloom filter is stored) for the file")
        report = verify(context(storage))
    assert not report.ok
    (lost,) = report.lost_files
    assert lost.startswith(f"{path}, which the completed ")
    assert lost.endswith(
        "wrote, is missing" if how == "gone" else f"has {len(content) - 5} of its {len(content)} bytes"
    )
    assert "data files are lost" in str(report)
    assert not next(each for each in report.partitions if each.partition == "files").ok
    for names in (None, ["record_index"]):
        with pytest.raises(CorruptFileError, match=f"it would hide that data files are lost: {path}"):
            rebuild(context(storage), names=names)
    assert load_table_config(storage).metadata_partitions == before
    storage.put(path, content)
    assert verify(context(storage)).ok
    assert rebuild(context(storage))
    assert verify(context(storage)).ok


@pytest.mark.parametrize("version", [6, 9])
def test_lost_data_files_of_a_table_without_metadata_table(version: int, storage: MemoryStorage) -> None:
    """A write does not make a metadata table that would hide the loss."""
    given = options(version, "cow", {"hoodie.metadata.enable": "false"}).values
    for turn in range(2):
        write(storage, rows(range(4), turn), version=version, kind="cow", given=given)
    write(storage, rows([0, 2], 4), version=version, kind="cow", given=given)
    path = newest(storage, "parquet", "b")
    content = storage.read(path)
    storage.delete(path)
    report = verify(context(storage))
    assert not report.ok
    assert report.reason
    assert len(report.lost_files) == 1
    with pytest.warns(UserWarning, match=f"is not created, as it would hide that files are lost: {path}"):
        write(storage, rows([0, 2], 5), version=version, kind="cow", given=EVERYTHING)
    assert not load_table_config(storage).metadata_partitions
    storage.put(path, content)
    write(storage, rows([0, 2], 6), version=version, kind="cow", given=EVERYTHING)
    assert "files" in load_table_config(storage).metadata_partitions
    assert verify(context(storage)).ok
