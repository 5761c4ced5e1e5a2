"""HFiles of any keys and values come back; damaged ones give entries or an error, nothing else."""

from __future__ import annotations

import io

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.errors import HudiError
from hudi_py.formats.hfile import HFileWriter, read_hfile
from hudi_py.formats.keys.bloom import BloomConfig
from tests.support.hfiles import build_hfile

ENTRIES = st.dictionaries(st.binary(max_size=200), st.binary(max_size=60), max_size=40)
SHAPES = st.tuples(st.sampled_from([1, 50, 1 << 20]), st.sampled_from([1, 2]), st.booleans(), st.integers(1, 4))


def build(entries: dict[bytes, bytes], shape: tuple[int, int, bool, int]) -> bytes:
    block_bytes, codec, hbase, levels = shape
    return build_hfile(sorted(entries.items()), block_bytes=block_bytes, codec=codec, hbase=hbase, levels=levels)


@given(ENTRIES, SHAPES, st.lists(st.binary(max_size=4), max_size=5))
@settings(deadline=None, max_examples=80)
def test_round_trip_and_look_ups(
    entries: dict[bytes, bytes], shape: tuple[int, int, bool, int], others: list[bytes]
) -> None:
    file = read_hfile(build(entries, shape))
    found = file.scan()
    assert dict(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)) == entries
    wanted = [*others, *list(entries)[::3]]
    some = file.lookup(wanted)
    assert some.keys.to_pylist() == sorted(set(wanted) & entries.keys())
    for prefixes in (others, *([prefix] for prefix in others)):
        with_prefix = sorted(key for key in entries if key.startswith(tuple(prefixes)))
        assert file.lookup_prefixes(prefixes).keys.to_pylist() == with_prefix


@given(
    ENTRIES,
    SHAPES,
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6),
    st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_damage_is_an_error_or_other_entries(
    entries: dict[bytes, bytes], shape: tuple[int, int, bool, int], changes: list[tuple[float, int]], head: bool
) -> None:
    data = bytearray(build(entries, shape))
    span = len(data) - 4096 + 120 if head else len(data)  # the trailer is mostly padding
    for place, byte in changes:
        data[int(place * span)] = byte
    try:
        file = read_hfile(bytes(data))
        file.scan()
        file.lookup(list(entries))
        file.lookup_prefixes([b"a", b"bc"])
        file.bloom_filter()
    except HudiError:
        pass


@given(
    st.dictionaries(st.text(max_size=200).map(str.encode), st.binary(max_size=60), max_size=40),
    st.sampled_from([1, 50, 200, 1 << 20]),
    st.sampled_from(["GZ", "NONE"]),
    st.lists(st.integers(0, 40), max_size=4),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_what_is_written_comes_back_whatever_the_batches(
    entries: dict[bytes, bytes], block_bytes: int, compression: str, cuts: list[int], base: bool
) -> None:
    ordered = sorted(entries.items())
    keys = pa.array([key for key, _ in ordered], pa.binary())
    values = pa.array([value for _, value in ordered], pa.binary())
    sink = io.BytesIO()
    writer = HFileWriter(
        sink,
        schema_json='"bytes"',
        compression=compression,  # type: ignore[arg-type]
        block_bytes=block_bytes,
        bloom=BloomConfig(num_entries=10) if base else None,
    )
    ends = sorted({*cuts, len(ordered)})
    for begin, end in zip([0, *ends], ends, strict=False):
        writer.add(keys[begin:end], values[begin:end])
    assert writer.close() == len(sink.getvalue())
    file = read_hfile(sink.getvalue())
    found = file.scan()
    assert list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)) == ordered
    assert file.lookup([key for key, _ in ordered[::3]]).keys.to_pylist() == [key for key, _ in ordered[::3]]
    if base:
        bloom = file.bloom_filter()
        assert bloom is not None
        assert bloom.might_contain(keys.cast(pa.string())).all()
