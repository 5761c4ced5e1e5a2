"""Rows that the command line writes as JSON lines or CSV are read back as they were, in the types of the table."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudi_py.cli.export import json_rows
from hudi_py.cli.intake import read_rows
from hudi_py.errors import SchemaMismatchError

TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["", "a\r\nb", "\0", "\U0010ffff", " x ", "1.0"]
)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(2**53 - 2, 2**53 + 2)),
    "f": (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "d": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "n": (pa.decimal128(20, 3), st.decimals(-(10**17) + 1, 10**17 - 1, places=3)),
    "t": (pa.string(), TEXT),
    "b": (pa.bool_(), st.booleans()),
    "x": (pa.binary(), st.binary(max_size=6)),
    "c": (pa.date32(), st.integers(-719_162, 2_932_896)),
    "z": (pa.timestamp("us", "UTC"), MICROS),
    "y": (pa.timestamp("us"), MICROS),
}
"""Column to its type and values; dates and times as counts."""
STRUCT = pa.struct([("x", pa.binary()), ("c", pa.date32()), ("z", pa.list_(pa.timestamp("us", "UTC")))])
EFFORT = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 4))
    columns = {}
    for name in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True)):
        kind, values = KINDS[name]
        columns[name] = array(kind, draw(st.lists(st.none() | values, min_size=count, max_size=count)))
    if draw(st.booleans()):
        parts = [draw(st.lists(st.none() | KINDS[n][1], min_size=count, max_size=count)) for n in "xcz"]
        times = pa.ListArray.from_arrays(list(range(count + 1)), array(KINDS["z"][0], parts[2]))
        fields = [array(KINDS[name][0], values) for name, values in zip("xc", parts[:2], strict=True)]
        columns["s"] = pa.StructArray.from_arrays([*fields, times], fields=list(STRUCT))
    return pa.table(columns)


@pytest.mark.parametrize(
    "effort", [EFFORT, pytest.param(settings(EFFORT, max_examples=1500), marks=pytest.mark.nightly)]
)
def test_json_comes_back(effort: settings) -> None:
    @effort
    @given(tables())
    def check(table: pa.Table) -> None:
        (batch,) = table.combine_chunks().to_batches()
        lines = "\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in json_rows(batch))
        found = read_rows(io.BytesIO(lines.encode()), "json", table.schema, "rows")
        assert found.schema == table.schema
        assert found.to_pylist() == table.to_pylist()

    check()


@pytest.mark.slow
@settings(EFFORT, max_examples=1500)
@given(tables())
def test_what_a_file_says_of_itself_is_true(table: pa.Table) -> None:
    """Without a table, types are guessed: times keep their point in time, numbers their value; or it is refused."""
    (batch,) = table.combine_chunks().to_batches()
    rows = list(json_rows(batch))
    try:
        found = read_rows(io.BytesIO("\n".join(map(json.dumps, rows)).encode()), "json", None, "rows")
    except SchemaMismatchError:
        return
    (back,) = found.combine_chunks().to_batches()
    for given_row, found_row in zip(rows, json_rows(back), strict=True):
        for name in set(given_row) - {"s"}:
            assert _same(given_row[name], found_row[name]), (name, given_row[name], found_row[name])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        # a date alone is midnight, and zeros after the point of a second are as none
        return one == other or one == other.removesuffix("T00:00:00")
    return bool(one == other)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1.5}\n{"a": 9007199254740993}', "9007199254740993, which would change"),
        ('{"a": 18446744073709551615}', "18446744073709551615, which would change"),
        ('{"a": {"b": [0.5, 9007199254740993]}}', "9007199254740993, which would change"),
    ],
)
def test_numbers_that_a_double_would_change_are_refused(text: str, says: str) -> None:
    with pytest.raises(SchemaMismatchError, match=says):
        read_rows(io.BytesIO(text.encode()), "json", None, "rows")


def test_times_keep_their_offset() -> None:
    text = b'{"a": "2024-01-01T10:00:00+02:00", "b": "2024-01-01T10:00:00"}'
    found = read_rows(io.BytesIO(text), "json", None, "rows")
    assert found.schema == pa.schema({"a": pa.timestamp("us", "UTC"), "b": pa.timestamp("us")})
    assert [str(found[name].cast(pa.string())[0]) for name in "ab"] == [
        "2024-01-01 08:00:00.000000Z",
        "2024-01-01 10:00:00.000000",
    ]
    with pytest.raises(SchemaMismatchError, match="expected no zone offset"):
        read_rows(io.BytesIO(text), "json", pa.schema({"a": pa.timestamp("us")}), "rows")
    with pytest.raises(SchemaMismatchError, match="'x' is binary, and a text of it is no base64"):
        read_rows(io.BytesIO(b'{"x": "a!"}'), "json", pa.schema({"x": pa.binary()}), "rows")


def test_ones_beside_truth_values_stay_text() -> None:
    found = read_rows(io.BytesIO(b"a,b\ntrue,true\n1,FALSE\n"), "csv", None, "rows")
    assert found.to_pydict() == {"a": ["true", "1"], "b": [True, False]}
    with pytest.raises(SchemaMismatchError, match="'a' more than once"):
        read_rows(io.BytesIO(b"a,a\n1,2\n"), "csv", None, "rows")
