"""A metadata table that a write does not keep up goes, and is not dropped unasked."""

from __future__ import annotations

import pytest

from hudi_py.errors import ConfigError
from hudi_py.timeline.properties import update_table_config
from tests.support.hand_writes import (
    SETTINGS,
    begin,
    commit,
    data_files,
    new_table,
    plan,
    write_base,
)
from tests.support.sessions import changed


def with_metadata_table(storage, partitions: str) -> None:
    update_table_config(storage, {"hoodie.table.metadata.partitions": partitions})
    storage.put(".hoodie/metadata/.hoodie/hoodie.properties", b"x")
    storage.put(
        ".hoodie/.index_defs/index.json", b'{"indexDefinitions": {"column_stats": {"indexName": "column_stats"}}}'
    )


def test_the_metadata_table_goes_in_the_commit_that_outdates_it(storage):
    config = new_table(storage)
    with_metadata_table(storage, "column_stats,files,partition_stats")
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        assert storage.stat(".hoodie/metadata") is not None
        with pytest.warns(UserWarning, match="Dropped the metadata table"):
            result = commit(tx, [stat])
    assert result.dropped_metadata_partitions == ("column_stats", "files", "partition_stats")
    assert storage.stat(".hoodie/metadata") is None
    text = storage.read(".hoodie/hoodie.properties").decode()
    assert "metadata.partitions" not in text
    assert storage.read(".hoodie/.index_defs/index.json") == b'{\n  "indexDefinitions": {}\n}'


def test_indexes_made_on_purpose_are_not_dropped_unasked(storage):
    config = new_table(storage)
    with_metadata_table(storage, "files,record_index,secondary_index_x")
    config = load_config(storage)
    for act in (plan, begin):
        with pytest.raises(ConfigError, match="record_index, secondary_index_x"):
            act(storage, config)
    settings = changed(SETTINGS, DROP_INDEXES="true")
    with begin(storage, config, settings=settings) as tx, pytest.warns(UserWarning, match="record_index"):
        commit(tx, [])
    assert storage.stat(".hoodie/metadata") is None


def test_an_index_made_since_the_plan_stops_the_commit(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        with_metadata_table(storage, "files,record_index")
        with pytest.raises(ConfigError, match="record_index"):
            commit(tx, [write_base(tx, "a", "f")])
        tx.abort()
    assert storage.stat(".hoodie/metadata") is not None
    assert data_files(storage) == set()


def load_config(storage):
    from hudi_py.timeline.properties import load_table_config

    return load_table_config(storage)
