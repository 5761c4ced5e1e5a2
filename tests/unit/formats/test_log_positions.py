"""Positions of a log block's records: bytes made by hand, damaged ones, and those of Apache Hudi's tables."""

from __future__ import annotations

import base64
import io
import json
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError
from hudi_py.formats.avro import decode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, decode_deletes, positions, read_blocks, read_content
from hudi_py.formats.log.positions import decode_positions
from hudi_py.model.names import parse_log_file_name
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import open_storage
from tests.golden.tables import Extracted, load
from tests.support.roaring import encode_positions

ZERO = "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA"
"""{0}, as Apache Hudi 1.2.0 writes it."""


def test_one_position() -> None:
    assert decode_positions(ZERO, 1).tolist() == [0]
    assert encode_positions([0]) == ZERO


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [],
        [0, 1, 2, 3, 65535, 65536],
        list(range(4096)),
        list(range(4097)),
        list(range(65536)),
        list(range(100, 300_000)),
        list(range(1, 200_000, 7)) + list(range(200_000, 200_500)),
        [7, 1 << 16, 3 << 16, (3 << 16) + 1, 9 << 16, (1 << 32) + 5, (1 << 33) + 65535],
        [1, (1 << 63) - 1],
    ],
    ids=lambda values: str(len(values)),
)
def test_every_form_of_container(values: list[int], runs: bool) -> None:
    found = decode_positions(encode_positions(values, runs=runs), len(values))
    assert found.dtype == np.int64
    assert found.tolist() == values
    assert runs or positions.encode_positions(found) == encode_positions(values)


@settings(deadline=None)
@given(
    st.sets(st.integers(0, 70_000), max_size=300) | st.sets(st.integers(0, (1 << 63) - 1), max_size=50), st.booleans()
)
def test_what_is_encoded_is_decoded(values: set[int], runs: bool) -> None:
    found = decode_positions(encode_positions(values, runs=runs), len(values))
    assert found.tolist() == sorted(values)
    assert runs or not values or positions.encode_positions(found) == encode_positions(values)


SAMPLES = [
    base64.b64decode(encode_positions(values, runs=runs))
    for values in ([5], range(40), [*range(5000), 70_000, 140_000, 210_000, *range(280_000, 280_009)], [1, 1 << 32])
    for runs in (False, True)
]


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(SAMPLES), st.data())
def test_damage_is_told(sample: bytes, data: st.DataObject) -> None:
    """Damaged bytes give the right number of ascending positions, or the library's error; nothing else."""
    damaged = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(damaged) - 1, 80)))
        damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(damaged), data.draw(st.integers(0, len(damaged)))]))
    count = data.draw(st.sampled_from([1, 2, 40, 5012]))
    try:
        found = decode_positions(base64.b64encode(damaged[:cut]).decode(), count)
    except CorruptFileError:
        return
    assert len(found) == count
    assert found[0] >= 0
    assert (np.diff(found) > 0).all()


def bucket(*parts: bytes) -> str:
    return base64.b64encode(struct.pack("<QI", 1, 0) + b"".join(parts)).decode()


@pytest.mark.parametrize(
    ("header", "count", "told"),
    [
        ("no base64!", 1, "RECORD_POSITIONS of the block"),
        ("é", 1, "RECORD_POSITIONS"),
        ("", 0, "0 of 8 bytes"),
        (ZERO, 2, "1 positions for 2 records"),
        (encode_positions(range(9)), 8, "9 positions or more for 8 records"),
        (base64.b64encode(base64.b64decode(ZERO) + b"\0").decode(), 1, "1 bytes after"),
        (base64.b64encode(struct.pack("<Q", 1 << 60)).decode(), 1, "buckets claimed"),
        (encode_positions([1 << 63]), 1, "upper half"),
        (bucket(struct.pack("<I", 12345), bytes(16)), 1, "cookie 12345"),
        (bucket(struct.pack("<II", 12346, 0), bytes(8)), 1, "0 containers"),
        (bucket(struct.pack("<II", 12346, 1 << 31), bytes(16)), 1 << 40, "containers"),
        (bucket(struct.pack("<IIHHI", 12346, 1, 0, 0, 12), bytes(2)), 1, "whose offset is 12"),
        (bucket(struct.pack("<IIHHIHH", 12346, 1, 0, 1, 16, 5, 5)), 2, "positions out of order"),
        (bucket(struct.pack("<IIHHHHIIHH", 12346, 2, 3, 0, 3, 0, 24, 26, 0, 1)), 2, "containers out of order"),
        (bucket(struct.pack("<IIHHI", 12346, 1, 0, 4999, 16), bytes(8192)), 5000, "0 bits in a container of 5000"),
        (bucket(struct.pack("<IBHHHHH", 12347, 1, 0, 1, 1, 0, 2)), 2, "1 runs with 3 positions in total; expected 2"),
        (
            bucket(struct.pack("<IBHHHHH", 12347, 1, 0, 1, 1, 65535, 1)),
            2,
            "1 runs with 2 positions",
        ),
        (
            bucket(struct.pack("<IBHHHHHHH", 12347, 1, 0, 3, 2, 4, 1, 5, 1)),
            4,
            "2 runs with 4 positions",
        ),
    ],
)
def test_what_is_refused(header: str, count: int, told: str) -> None:
    with pytest.raises(CorruptFileError, match=told):
        decode_positions(header, count, context="the block")


def test_no_more_memory_than_records() -> None:
    """Runs of whole containers, 65536 positions in 12 bytes each, where the block has few records."""
    header = encode_positions(range(20 << 16), runs=True)
    assert len(header) < 500
    tracemalloc.start()
    with pytest.raises(CorruptFileError, match="positions or more for 1000 records"):
        decode_positions(header, 1000)
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()


WITHOUT_POSITIONS = {
    "v8_mor_consistent_hashing",
    "v9_mor_bucket_logs_only",
    "v9_mor_global_simple_move",
    "v9_mor_record_index",
}
"""Tables whose writer did not know the rows: of an index by buckets or in the metadata table, or without base files."""


@pytest.mark.parametrize(
    "name",
    sorted(name for name, table in load().items() if table.table_type == "MERGE_ON_READ" and table.version >= 8),
)
def test_positions_of_apache_hudi(golden: Extracted, name: str) -> None:
    """The i-th position is the row of the block's i-th key in the base file that the block names."""
    storage = open_storage(str(golden(name)))
    checked = 0
    for info in storage.walk():
        if not (info.name.startswith(".") and ".log." in info.name) or info.path.startswith(".hoodie/"):
            continue
        for block in read_blocks(storage, info.path, info.size):
            header = block.header.get(HeaderKey.RECORD_POSITIONS)
            if header is None:
                continue
            content = read_content(storage, block)
            if block.type is BlockType.DELETE:
                keys = decode_deletes(content, context=info.path).keys
            elif block.type is BlockType.AVRO:
                schema = json.loads(block.header[HeaderKey.SCHEMA])
                keys = decode_log_content([content], schema, columns=[RECORD_KEY], context=info.path).column(0)
            else:
                keys = pq.read_table(pa.BufferReader(content), columns=[RECORD_KEY])[RECORD_KEY].combine_chunks()
            positions = decode_positions(header, len(keys), context=info.path)
            instant = block.header[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS]
            folder = info.path.rpartition("/")[0]
            log = parse_log_file_name(info.name)
            assert log is not None
            named = [other for other in storage.list(folder) if other.name.startswith(f"{log.file_id}_")]
            bases = [other for other in named if other.name.endswith(f"_{instant}.parquet")]
            if not bases:  # cleaned
                continue
            column = pq.read_table(io.BytesIO(storage.read(bases[0].path)), columns=[RECORD_KEY])[RECORD_KEY]
            assert pc.take(column, positions).to_pylist() == keys.to_pylist()
            checked += 1
    assert checked or name in WITHOUT_POSITIONS
