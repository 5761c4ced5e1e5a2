"""Content of savepoints and restores: that of a table of Apache Hudi is read, and written again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import Action
from hudi_py.storage import LocalStorage
from hudi_py.timeline.plans import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    RollbackMetadata,
    RollbackPartition,
    SavepointMetadata,
    decode_restore_metadata,
    decode_restore_plan,
    decode_savepoint,
    encode_restore_metadata,
    encode_restore_plan,
    encode_savepoint,
)
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline

TEXT = st.text(max_size=12)
NUMBER = st.integers(0, 2**60)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
INFOS = st.lists(st.builds(InstantInfo, TEXT, TEXT), max_size=3).map(tuple)


@st.composite
def rollbacks(draw: st.DrawFn) -> RollbackMetadata:
    paths = draw(st.lists(TEXT, max_size=2, unique=True))
    sizes = st.dictionaries(TEXT, NUMBER, max_size=2)
    parts = [RollbackPartition(path, draw(TEXTS), draw(TEXTS), draw(sizes), draw(sizes)) for path in paths]
    return RollbackMetadata(draw(TEXT), draw(NUMBER), draw(TEXT), draw(TEXT), tuple(parts))


def test_those_of_apache_hudi(golden_copy):
    storage = LocalStorage(str(golden_copy("v9_mor_savepoint_restore")))
    timeline = load_timeline(storage, load_table_config(storage))

    def content(name: str) -> bytes:
        return storage.read(timeline.layout.path(name))

    (saved,) = [i for i in timeline.completed if i.action is Action.SAVEPOINT]
    savepoint = decode_savepoint(content(saved.file_name))
    assert (savepoint.user, savepoint.comment, savepoint.created_ms) == ("golden", "before the bad load", 1795225858785)
    assert {partition: len(names) for partition, names in savepoint.files.items()} == {
        "city=lima": 2,
        "city=oslo": 2,
        "city=pune": 2,
    }
    assert decode_savepoint(encode_savepoint(savepoint)) == savepoint
    (done,) = [i for i in timeline.completed if i.action is Action.RESTORE]
    plan = decode_restore_plan(content(f"{done.time}.restore.requested"))
    assert plan == RestorePlan(
        saved.time,
        (InstantInfo("20261121015100919", "deltacommit"), InstantInfo("20261121015059079", "deltacommit")),
    )
    assert decode_restore_plan(encode_restore_plan(plan)) == plan
    restore = decode_restore_metadata(content(done.file_name))
    assert (restore.start_time, restore.time_taken_ms, restore.instants) == (done.time, 1604, plan.instants)
    deleted = {
        time: sum(len(part.deleted) for rollback in found for part in rollback.partitions)
        for time, found in restore.rollbacks.items()
    }
    assert deleted == {"20261121015100919": 3, "20261121015059079": 6}
    assert decode_restore_metadata(encode_restore_metadata(restore)) == restore


@given(st.builds(SavepointMetadata, TEXT, NUMBER, TEXT, st.dictionaries(TEXT, TEXTS, max_size=3)))
def test_savepoints_are_read_as_they_were_written(metadata):
    assert decode_savepoint(encode_savepoint(metadata)) == metadata


@given(st.builds(RestorePlan, TEXT, INFOS))
def test_plans_are_read_as_they_were_written(plan):
    assert decode_restore_plan(encode_restore_plan(plan)) == plan


@given(
    st.builds(RestoreMetadata, TEXT, NUMBER, INFOS, st.dictionaries(TEXT, st.lists(rollbacks(), max_size=2).map(tuple)))
)
def test_restores_are_read_as_they_were_written(metadata):
    assert decode_restore_metadata(encode_restore_metadata(metadata)) == metadata


@pytest.mark.parametrize("decode", [decode_savepoint, decode_restore_plan, decode_restore_metadata])
def test_other_bytes_are_refused(decode):
    with pytest.raises(CorruptFileError, match="the file x: expected an Avro container file"):
        decode(b"{}", "the file x")
