"""The record index of a table against its rows."""

from __future__ import annotations

import hudi_py
from hudi_py.metadata import open_metadata
from hudi_py.metadata.locations import partition_groups, places_of
from hudi_py.metadata.records import NO_FIELDS
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.storage import open_storage
from hudi_py.timeline.state import load_state

Place = tuple[str, str, str]
"""Record key, partition path, file id."""


def indexed(path: str, *, by_partition: bool = False) -> list[Place]:
    """What the index has, sorted; an index by partition is looked into by the table's partitions."""
    storage = open_storage(path)
    metadata = open_metadata(load_state(storage))
    assert metadata is not None
    groups = metadata.file_groups(RECORD_INDEX)
    if by_partition:
        partitions = hudi_py.open_table(path).partitions()["partition"].to_pylist()
        assert set(groups) >= {partition_groups(partition) for partition in partitions}
    found: list[Place] = []
    for prefix in groups:
        keys = metadata.records(RECORD_INDEX, NO_FIELDS, group_prefix=prefix).keys
        distinct = keys.unique()
        places = places_of(metadata, distinct, prefix)
        found += zip(distinct.to_pylist(), places.partitions.to_pylist(), places.file_ids.to_pylist(), strict=True)
    return sorted(place for place in found if place[1] is not None)


def stored(path: str) -> list[Place]:
    """Where the rows of the table are, sorted."""
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    rows = hudi_py.open_table(path).scan(columns, options={"hoodie.metadata.enable": "false"}).to_table()
    keys, partitions, names = (rows[name].to_pylist() for name in columns)
    return sorted(zip(keys, partitions, (name.partition("_")[0] for name in names), strict=True))
