"""Records split by file group and sorted, in memory and spilled."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.metadata.keys import file_groups
from hudi_py.metadata_write.encoding.records import MetadataRecords
from hudi_py.metadata_write.table.delta import GroupBuffer

KEYS = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=40)
CHUNKS = st.lists(st.tuples(st.sampled_from(["a", "b"]), KEYS, KEYS), max_size=5)


def chunk(partition: str, keys: list[str], deleted: list[str], **more: object) -> MetadataRecords:
    values = pa.array([key.encode() + b"!" for key in keys], pa.binary())
    return MetadataRecords(partition, pa.array(keys, pa.string()), values, pa.array(deleted, pa.string()), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("held_bytes", [0, pytest.param(1 << 20, marks=pytest.mark.slow)])
@given(chunks=CHUNKS, count=st.integers(1, 5))
def test_every_record_is_in_its_group_once(held_bytes, chunks, count):
    expected: dict[tuple[str, str, int], list[tuple[bytes, bytes | None]]] = {}
    with GroupBuffer(lambda partition, prefix: (f"p{partition}", count), held_bytes) as buffer:
        for partition, keys, deleted in chunks:
            gone = [key for key in deleted if key not in keys]
            buffer.add(chunk(partition, keys, gone))
            numbers = file_groups([*keys, *gone], count).tolist()
            values = [key.encode() + b"!" for key in keys] + [None] * len(gone)
            for key, value, number in zip([*keys, *gone], values, numbers, strict=True):
                expected.setdefault((partition, f"p{partition}", number), []).append((key.encode(), value))
        found = {
            key: list(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
            for key, rows in buffer.groups()
        }
    assert list(found) == sorted(found)
    assert {key: sorted(rows, key=str) for key, rows in found.items()} == {
        key: sorted(rows, key=str) for key, rows in expected.items()
    }
    for rows in found.values():
        assert [key for key, _ in rows] == sorted(key for key, _ in rows)


def test_a_group_that_is_named_takes_all():
    with GroupBuffer(lambda partition, prefix: (prefix or "p", 10), 0) as buffer:
        buffer.add(chunk("record_index", ["b", "a"], [], group=3))
        buffer.add(chunk("record_index", ["c"], ["d"], group=3))
        buffer.add(chunk("record_index", ["a"], [], group=0, prefix="record-index-x"))
        groups = {key: rows["key"].to_pylist() for key, rows in buffer.groups()}
    assert groups == {
        ("record_index", "p", 3): [b"a", b"b", b"c", b"d"],
        ("record_index", "record-index-x", 0): [b"a"],
    }


def test_large_groups_are_written_side_by_side_and_told_in_order():
    count = 40_000
    keys = [f"{number:06}" for number in range(count)]
    with GroupBuffer(lambda partition, prefix: ("p", 3), 0) as buffer:
        buffer.add(chunk("a", keys[: count // 2], []))
        buffer.add(chunk("a", keys[count // 2 :], []))
        buffer.add(chunk("b", ["x"], []))
        told = buffer.write(lambda number, key, rows: (number, key, rows.num_rows))
    assert [(number, key) for number, key, _ in told] == [
        (0, ("a", "p", 0)),
        (1, ("a", "p", 1)),
        (2, ("a", "p", 2)),
        (3, ("b", "p", told[3][1][2])),
    ]
    assert sum(rows for _, _, rows in told) == count + 1
