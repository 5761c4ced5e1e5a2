"""ORC base files as hudi-py writes them; what Apache Hudi reads in them is asked in tests/oracle/test_orc.py."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from hudi_py.errors import ConfigError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro import arrow_schema, avro_schema
from hudi_py.formats.base.files import open_base_file
from hudi_py.formats.base.orc import AVRO_SCHEMA, OrcBaseFile, open_orc
from hudi_py.formats.base.orc_writer import (
    CODECS,
    MAX_TAIL_BYTES,
    OrcFileWriter,
    OrcLayout,
    readable_stripes,
    tail_with_pairs,
)
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.storage import MemoryStorage

SMALL = BloomConfig(num_entries=100)
AT = datetime(2024, 7, 1, 12, 0, 0, 123456, timezone.utc)
INSIDE = pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us")), ("x", pa.int32())])
NAIVE = AT.replace(tzinfo=None)
TABLE = pa.table(
    {
        "_hoodie_record_key": ["b", "a", "c", "d"],
        "t": pa.array([AT, None, datetime(1969, 12, 30, 23, 59, 59, 0, timezone.utc), AT], INSIDE[0].type),
        "n": pa.array([NAIVE, None, datetime(1, 1, 1), datetime(9999, 12, 31)], pa.timestamp("us")),
        "day": [date(2024, 2, 29), None, date(1582, 10, 15), date(1970, 1, 1)],
        "short": pa.array([1, None, -5, 2**31 - 1], pa.int32()),
        "float": pa.array([1.5, None, float("inf"), -0.0], pa.float32()),
        "flag": [True, None, False, True],
        "bytes": [b"\0\xff", None, b"", b"x"],
        "small": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal(0)], pa.decimal128(10, 2)),
        "large": pa.array([Decimal("1.50"), None, Decimal("-" + "9" * 30), Decimal(0)], pa.decimal128(38, 2)),
        "list": pa.array([[1, None], None, [], [None]], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1.5)], None, [], [("k", None)]], pa.map_(pa.string(), pa.float64())),
        "struct": pa.array([{"t": AT, "n": NAIVE, "x": 1}, None, {"t": None, "n": None, "x": None}, None], INSIDE),
        "plain": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}, {"x": 4, "y": None}]),
        "deep": pa.array(
            [[{"t": AT, "n": NAIVE, "x": 1}, None], None, [], [{"t": None, "n": NAIVE, "x": None}]], pa.list_(INSIDE)
        ),
    }
)
AVRO = avro_schema(TABLE.schema, "row", "test")
ROWS = TABLE.cast(arrow_schema(AVRO))


def written(rows: pa.Table = ROWS, avro: Any = AVRO, **options: Any) -> MemoryStorage:
    storage = MemoryStorage("written")
    with OrcFileWriter(storage, "a.orc", rows.schema, json.dumps(avro), **{"bloom": None, **options}) as writer:
        writer.write(rows)
    return storage


def read(storage: MemoryStorage, zone: str = "UTC", name: str = "a.orc") -> pa.Table:
    with OrcBaseFile(storage, name, zone) as file:
        return pa.Table.from_batches(file.batches(None))


@pytest.mark.parametrize("codec", CODECS)
def test_rows_and_footer(codec: str) -> None:
    storage = written(bloom=SMALL, layout=OrcLayout(codec.upper()))
    rows = read(storage)
    assert rows.schema.equals(ROWS.schema)
    assert rows.to_pylist() == ROWS.to_pylist()
    with open_base_file(storage, "a.orc") as file:
        footer = file.footer
    assert footer.bloom is not None
    assert footer.bloom.might_contain(pa.array(["a", "nothing"])).tolist() == [True, False]
    assert (footer.num_rows, footer.min_key, footer.max_key) == (4, "a", "d")
    assert footer.bloom_type_code == "DYNAMIC_V0"
    assert json.loads(footer.metadata[AVRO_SCHEMA]) == AVRO


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "+05:30"])
def test_timestamps_are_those_of_the_zone(zone: str) -> None:
    storage = written(layout=OrcLayout(zone=zone))
    assert read(storage, zone).to_pylist() == ROWS.to_pylist()
    with open_orc(storage, "a.orc") as file:
        wall = file.read(columns=["t"])["t"][0].as_py()
    hours = {"UTC": 12, "Europe/Berlin": 14, "America/New_York": 8, "+05:30": 17}[zone]
    assert wall.hour == hours


def test_an_hour_that_occurs_twice_is_refused() -> None:
    avro = {"type": "record", "name": "r", "fields": [{"name": "t", "type": {"type": "long"}}]}
    avro["fields"][0]["type"] |= {"logicalType": "timestamp-micros"}  # type: ignore[index]
    for hour, twice in ((0, True), (1, True), (2, False), (23, False)):
        rows = pa.table({"t": pa.array([datetime(2024, 10, 27, hour, 30, tzinfo=timezone.utc)], INSIDE[0].type)})
        assert read(written(rows, avro)).to_pylist() == rows.to_pylist()
        if twice:
            with pytest.raises(UnsupportedTableError, match=r"2024-10-27 02:30:00.*occurs twice.*TZ=UTC"):
                written(rows, avro, layout=OrcLayout(zone="Europe/Berlin"))
        else:
            assert (
                read(written(rows, avro, layout=OrcLayout(zone="Europe/Berlin")), "Europe/Berlin").to_pylist()
                == rows.to_pylist()
            )


def test_a_timestamp_that_cannot_be_read_back_is_refused() -> None:
    for year in (1600, 2300):
        rows = pa.table({"t": pa.array([datetime(year, 1, 1, tzinfo=timezone.utc)], INSIDE[0].type)})
        with pytest.raises(UnsupportedTableError, match="column 't'.*1678 to 2261"):
            written(rows, avro_schema(rows.schema, "r", "n"))
    before = datetime(1969, 12, 31, 23, 59, 59, 500_000, timezone.utc)
    rows = pa.table({"t": pa.array([None, before], INSIDE[0].type)})
    with pytest.raises(UnsupportedTableError, match=r"column 't'.*23:59:59\.500000.*before 1970"):
        written(rows, avro_schema(rows.schema, "r", "n"))


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.list_(pa.date32()), pa.map_(pa.string(), pa.struct([("d", pa.date32())]))]
)
def test_days_of_the_julian_calendar_are_refused(kind: pa.DataType) -> None:
    for day, fits in ((date(1582, 10, 15), True), (date(1582, 10, 14), False)):
        value = {0: day, 1: [day, None], 2: [("k", {"d": day})]}[kind.num_fields + pa.types.is_map(kind)]
        rows = pa.table({"c": pa.array([None, value], kind)})
        avro = avro_schema(rows.schema, "r", "n")
        if fits:
            assert read(written(rows.cast(arrow_schema(avro)), avro)).to_pylist() == rows.to_pylist()
        else:
            with pytest.raises(UnsupportedTableError, match="column 'c'.*1582-10-14.*before 1582-10-15"):
                written(rows.cast(arrow_schema(avro)), avro)
    rows = pa.table({"c": pa.array([-(10**7)], pa.int32()).cast(pa.date32())})
    with pytest.raises(UnsupportedTableError, match="column 'c' to an ORC file: it has the date -25410-"):
        written(rows, avro_schema(rows.schema, "r", "n"))


def test_local_milliseconds_and_fixed() -> None:
    """As Apache Hudi stores them: the number of Avro, and plain bytes."""
    fields = [
        {"name": "ms", "type": ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]},
        {"name": "fixed", "type": ["null", {"type": "fixed", "name": "f", "size": 2}]},
    ]
    avro = {"type": "record", "name": "r", "fields": fields}
    values = [datetime(2024, 1, 2, 3, 4, 5, 678000), None, datetime(1969, 12, 31, 23, 59, 59, 999000)]
    rows = pa.table(
        {"ms": pa.array(values, pa.timestamp("us")), "fixed": pa.array([b"ab", None, b"\0\0"], pa.binary(2))}
    )
    storage = written(rows, avro)
    with open_orc(storage, "a.orc") as file:
        assert file.read()["ms"].to_pylist() == [1_704_164_645_678, None, -1]
    assert read(storage).to_pylist() == rows.to_pylist()


def test_what_orc_cannot_hold_is_refused() -> None:
    union = {"name": "u", "type": ["null", "string", "long"]}
    rows = pa.table({"u": pa.nulls(1, pa.struct([("member0", pa.string()), ("member1", pa.int64())]))})
    with pytest.raises(UnsupportedTableError, match="column 'u'.*union of several types"):
        written(rows, {"type": "record", "name": "r", "fields": [union]})
    with pytest.raises(ConfigError, match="'lzo'.*zlib, snappy, zstd, lz4, none"):
        written(layout=OrcLayout("lzo"))


def test_an_empty_file() -> None:
    storage = written(ROWS.slice(0, 0), bloom=SMALL)
    with open_base_file(storage, "a.orc") as file:
        assert (file.footer.num_rows, file.footer.min_key) == (0, None)
        assert file.footer.bloom is not None
        assert file.footer.metadata[AVRO_SCHEMA]
        assert list(file.batches(None)) == []


def test_slices_of_batches_keep_their_rows() -> None:
    storage = MemoryStorage("written")
    with OrcFileWriter(storage, "a.orc", ROWS.schema, json.dumps(AVRO), bloom=None) as writer:
        for at in (2, 0, 3, 1):
            writer.write(ROWS.slice(at, 1))
        writer.write(ROWS.slice(1, 3))
    assert read(storage).to_pylist() == [ROWS.to_pylist()[at] for at in (2, 0, 3, 1, 1, 2, 3)]


class Streamed(MemoryStorage):
    """Notes how much of a file has arrived."""

    arrived = 0

    @contextmanager
    def open_output(self, path: str) -> Iterator[BinaryIO]:  # type: ignore[override]
        with super().open_output(path) as sink:

            class Noted(io.RawIOBase):
                def write(self, data: Any) -> int:
                    owner.arrived += len(data)
                    return int(sink.write(data))

            owner = self
            yield Noted()  # type: ignore[misc]


def test_stripes_are_written_as_they_fill() -> None:
    rnd = random.Random(1)
    rows = pa.table({"k": [rnd.randbytes(20).hex() for _ in range(40_000)], "n": range(40_000)})
    storage = Streamed("written")
    writer = OrcFileWriter(
        storage,
        "a.orc",
        rows.schema,
        json.dumps(avro_schema(rows.schema, "r", "n")),
        bloom=None,
        layout=OrcLayout(stripe_bytes=200_000),
    )
    with writer:
        for at in range(0, rows.num_rows, 4_000):
            writer.write(rows.slice(at, 4_000))
        before, guess = storage.arrived, writer.bytes_written
        summary = writer.close()
    assert before > summary.size / 2
    assert summary.size == storage.arrived
    assert abs(guess - summary.size) < summary.size / 5
    assert read(storage).to_pylist() == rows.to_pylist()
    with open_orc(storage, "a.orc") as file:
        assert file.nstripes > 3


def test_an_abandoned_file_has_no_footer() -> None:
    storage = MemoryStorage("written")
    writer = OrcFileWriter(storage, "a.orc", ROWS.schema, json.dumps(AVRO), bloom=SMALL)
    writer.write(ROWS)
    writer.__exit__(RuntimeError, RuntimeError("on purpose"), None)
    del writer
    assert storage.stat("a.orc") is None or b"ORC" not in storage.read("a.orc")[-30:]


def test_stripes_that_can_be_read_are_kept() -> None:
    rnd = random.Random(1)
    rows = pa.table({"n": range(20_000), "k": [rnd.randbytes(20).hex() for _ in range(20_000)]})
    storage = MemoryStorage("written")
    avro = avro_schema(rows.schema, "r", "n")
    with OrcFileWriter(
        storage, "a.orc", rows.schema, json.dumps(avro), bloom=None, layout=OrcLayout(stripe_bytes=65_536)
    ) as writer:
        for at in range(0, rows.num_rows, 1_000):
            writer.write(rows.slice(at, 1_000))
    whole = bytearray(storage.read("a.orc"))
    with open_orc(storage, "a.orc") as file:
        content, unreadable = readable_stripes(file, "a.orc")
        stripes = file.nstripes
    storage.put("b.orc", content)
    assert not unreadable
    assert read(storage, name="b.orc").to_pylist() == rows.to_pylist()
    whole[3:2000] = bytes(1997)
    storage.put("c.orc", bytes(whole))
    with open_orc(storage, "c.orc") as file:
        content, unreadable = readable_stripes(file, "c.orc")
    assert unreadable == [0]
    assert stripes > 1
    storage.put("c.orc", content)
    kept = read(storage, name="c.orc")["n"].to_pylist()
    assert kept == list(range(20_000))[-len(kept) :]
    with open_base_file(storage, "c.orc") as mended:
        assert mended.footer.metadata[AVRO_SCHEMA] == json.dumps(avro)


# ---- the end of a file


def plain(codec: str = "zlib") -> bytes:
    sink = io.BytesIO()
    orc.write_table(pa.table({"a": [1, 2]}), sink, compression=codec)
    return sink.getvalue()


@pytest.mark.parametrize("codec", CODECS.values())
def test_pairs_are_added_to_any_footer(codec: str) -> None:
    data, large = plain(codec), {"long": "x" * 300_000, "odd": "é\n", "": ""}
    cut = len(data) - MAX_TAIL_BYTES
    once = data[:cut] + tail_with_pairs(data[cut:], large, "f")
    twice = once[:-MAX_TAIL_BYTES] + tail_with_pairs(once[-MAX_TAIL_BYTES:], {"more": "1"}, "f")
    for content, pairs in ((once, large), (twice, large | {"more": "1"})):
        file = orc.ORCFile(pa.BufferReader(content))
        assert file.read().to_pydict() == {"a": [1, 2]}
        assert {k.decode(): v.decode() for k, v in dict(file.metadata).items()} == pairs


@pytest.mark.parametrize(
    "end",
    [
        b"",
        b"\0",
        b"ORC\x03",
        b"\x08\x05\xff",
        b"\x08" + b"\xff" * 9 + b"\x0a",  # a number without an end
        b"\x82\xf4\x03\x03ORC\x07",  # no length of the footer
        b"\x08\x01\x10\x63\x82\xf4\x03\x03ORC\x0b",  # an unknown codec
        b"\x08\x01\x10\x01\x82\xf4\x03\x03ORC\x0b",  # a codec without the size of its blocks
        b"\x09\x01\x82\xf4\x03\x03ORC\x09",  # a field of a kind that there is not
        b"\x08\x01\x82\xf4\x03\x09ORC\x09",  # a field beyond the end
    ],
)
def test_what_is_not_the_end_of_a_file(end: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"ORC file f\.orc"):
        tail_with_pairs(end, {"a": "b"}, "f.orc")


def test_damaged_ends() -> None:
    rnd, data = random.Random(5), plain()
    for _ in range(2_000):
        end = bytearray(data[-MAX_TAIL_BYTES:])
        for _ in range(rnd.randrange(1, 4)):
            end[-1 - rnd.randrange(30)] = rnd.randrange(256)
        with suppress(CorruptFileError):
            assert isinstance(tail_with_pairs(bytes(end), {"a": "b"}, "f.orc"), bytes)


# ---- any rows

_LEAVES = {
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=12)),
    "bytes": (pa.binary(), st.binary(max_size=12)),
    "flag": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates(date(1582, 10, 15))),
    "decimal": (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    "local": (pa.timestamp("us"), st.datetimes()),
    "instant": (
        pa.timestamp("us", "UTC"),
        st.datetimes(datetime(1678, 1, 1), datetime(2261, 12, 31), timezones=st.just(timezone.utc)).map(
            lambda at: at if at.year > 1970 else at.replace(microsecond=0)
        ),
    ),
}
Leaf = tuple[pa.DataType, st.SearchStrategy[Any]]


def _nested(inner: st.SearchStrategy[Leaf]) -> st.SearchStrategy[Leaf]:
    def listed(leaf: Leaf) -> Leaf:
        return pa.list_(leaf[0]), st.lists(st.none() | leaf[1], max_size=3)

    def mapped(leaf: Leaf) -> Leaf:
        entries = st.dictionaries(st.text(max_size=3), st.none() | leaf[1], max_size=3)
        return pa.map_(pa.string(), leaf[0]), entries.map(lambda each: list(each.items()))

    def struct(leaves: list[Leaf]) -> Leaf:
        names = [f"m{at}" for at in range(len(leaves))]
        values = st.fixed_dictionaries({n: st.none() | leaf[1] for n, leaf in zip(names, leaves, strict=True)})
        return pa.struct(list(zip(names, (leaf[0] for leaf in leaves), strict=True))), values

    return inner.map(listed) | inner.map(mapped) | st.lists(inner, min_size=1, max_size=3).map(struct)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    leaves = st.recursive(st.sampled_from(list(_LEAVES.values())), _nested, max_leaves=4)
    count = draw(st.integers(0, 5))
    columns = {}
    for at in range(draw(st.integers(1, 3))):
        kind, values = draw(leaves)
        columns[f"c{at}"] = pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
    return pa.table(columns)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(tables(), st.integers(0, 5), st.sampled_from(["UTC", "+02:00"]))
def test_any_rows_read_back(rows: pa.Table, cut: int, zone: str) -> None:
    avro = avro_schema(rows.schema, "r", "n")
    whole = rows.cast(arrow_schema(avro))
    storage = MemoryStorage("written")
    with OrcFileWriter(
        storage, "a.orc", whole.schema, json.dumps(avro), bloom=None, layout=OrcLayout(zone=zone)
    ) as writer:
        writer.write(whole.slice(0, cut))
        writer.write(whole.slice(cut))
    with OrcBaseFile(storage, "a.orc", zone) as file:
        assert [row for batch in file.batches(None) for row in batch.to_pylist()] == whole.to_pylist()
