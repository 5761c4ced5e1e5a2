"""Timeline and file slices with Apache Hudi's columns; what Apache Hudi 1.2.0 answered is in data/relations.json.

The answers are those of `SELECT * FROM hudi_query_timeline(path)` and `hudi_filesystem_view(path, '*')` (unpartitioned
tables: without the second argument) over the golden tables, folders of paths left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.inspect.relations import FILE_SLICE_SCHEMA, TIMELINE_SCHEMA, file_slice_relation, timeline_relation
from hudi_py.storage import open_storage
from hudi_py.timeline.state import TableState, load_state
from tests.golden.tables import Extracted

EXPECTED = json.loads((Path(__file__).parent / "data" / "relations.json").read_text("utf-8"))


def opened(path: Path) -> TableState:
    return load_state(open_storage(str(path)))


def rows(table: pa.Table) -> list[list[Any]]:
    return sorted([*map(list, (row.values() for row in table.to_pylist()))], key=repr)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_timeline_is_apache_hudis(golden: Extracted, name: str) -> None:
    found = timeline_relation(opened(golden(name)))
    assert found.schema == TIMELINE_SCHEMA
    assert rows(found) == sorted(EXPECTED[name]["timeline"], key=repr)
    assert found.column("Timestamp").to_pylist() == sorted(found.column("Timestamp").to_pylist())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_file_slices_are_apache_hudis(golden: Extracted, name: str) -> None:
    found = file_slice_relation(opened(golden(name)))
    assert found.schema == FILE_SLICE_SCHEMA
    at = FILE_SLICE_SCHEMA.get_field_index("Base_File_Path")
    paths = [Path(path.removeprefix("file://")) for path in found.column(at).to_pylist()]
    assert all(path.is_file() for path in paths)
    short = found.set_column(at, "Base_File_Path", pa.array([path.name for path in paths]))
    assert rows(short) == sorted(EXPECTED[name]["files"], key=repr)


@pytest.mark.parametrize(
    ("pattern", "count"), [("*", 15), ("city=*", 15), ("city=lima", 5), ("*/*", 0), ("", 0), ("city", 0)]
)
def test_a_pattern_chooses_partitions(golden: Extracted, pattern: str, count: int) -> None:
    assert file_slice_relation(opened(golden("v9_cow_clustering")), pattern).num_rows == count


@pytest.mark.parametrize("name", ["v9_mor_archived", "v6_cow_archived"])
def test_archived_instants_come_first_and_once(golden: Extracted, name: str) -> None:
    active = timeline_relation(opened(golden(name))).to_pylist()
    every = timeline_relation(opened(golden(name)), archived=True).to_pylist()
    assert every[-len(active) :] == active
    archived = every[: -len(active)]
    assert archived
    assert {row["State"] for row in archived} == {"COMPLETED"}
    times = [row["Timestamp"] for row in every]
    assert times == sorted(set(times))
    assert any(row["Total_Records_Written"] > 0 for row in archived)
    assert all((row["Total_Bytes_Written"] == -1) == (row["Action"] == "clean") for row in archived)


def test_a_pending_instant_has_no_completion_time(golden: Extracted) -> None:
    (pending,) = (row for row in timeline_relation(opened(golden("v9_mor_inflight"))).to_pylist()[-1:])
    assert (pending["State"], pending["Completion_Time"]) == ("INFLIGHT", None)
    assert pending["Total_Updated_Records_Written"] == 8  # as planned, when the write began
