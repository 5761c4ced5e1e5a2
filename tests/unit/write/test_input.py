"""What callers hand over arrives as record batches in table types."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from hudi_py.errors import SchemaMismatchError
from hudi_py.schema import META_FIELDS
from hudi_py.write.rows.input import BATCH_ROWS, Input, normalise_schema, read_input

TABLE = pa.table({"k": [1, 2, 3], "s": ["a", None, "c"]})


def rows(source: Input) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pa.Table.from_batches(list(source.batches()), source.schema).to_pylist()
    return found


class Stream:
    """An object with nothing but the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    ("data", "replayable"),
    [
        (TABLE, True),
        (TABLE.to_batches()[0], True),
        (TABLE.to_pylist(), True),
        (Array(), True),
        (TABLE.to_reader(), False),
        (Stream(), False),
        (ds.dataset(TABLE), True),
        (ds.dataset(TABLE).scanner(), False),
        (TABLE.to_pydict(), True),
        (iter(TABLE.to_pylist()), True),
        ((batch for batch in [*TABLE.to_batches(), TABLE.slice(0, 0)]), False),
    ],
    ids=[
        "table",
        "batch",
        "dicts",
        "c array",
        "reader",
        "c stream",
        "dataset",
        "scanner",
        "dict of lists",
        "rows",
        "batches",
    ],
)
def test_every_source_gives_the_same_rows(data: object, replayable: bool) -> None:
    source = read_input(data)
    assert source.replayable is replayable
    assert rows(source) == TABLE.to_pylist()
    if replayable:
        assert rows(source) == TABLE.to_pylist()


def test_pandas_without_its_index() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"k": [1, 2], "t": pandas.to_datetime(["2024-01-01", "2024-01-02"])}, index=[7, 9])
    source = read_input(frame)
    assert source.schema == pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))])
    assert rows(source)[1] == {"k": 2, "t": datetime(2024, 1, 2)}


def test_polars_lazy_frames_are_collected() -> None:
    polars = pytest.importorskip("polars")
    assert rows(read_input(polars.LazyFrame({"k": [1, 2]}))) == [{"k": 1}, {"k": 2}]


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    source = read_input(polars.DataFrame({"k": [1, 2], "s": ["a", "b"]}))
    assert source.schema == pa.schema([("k", pa.int64()), ("s", pa.string())])
    assert [row["s"] for row in rows(source)] == ["a", "b"]


def test_meta_columns_are_left_out() -> None:
    table = TABLE.append_column("_hoodie_commit_time", pa.array(["1", "2", "3"]))
    assert read_input(table).schema.names == ["k", "s"]


@pytest.mark.parametrize(
    "data", [[{"k": 1}, {"k": "a"}], [{"k": 2**70}], [{"k": {"a": 1}}, {"k": 3}], [{"k": object()}]]
)
def test_dicts_whose_values_have_no_common_type_name_the_column(data: list[dict[str, object]]) -> None:
    with pytest.raises(SchemaMismatchError, match="Column 'k' of the rows has values without a common type"):
        read_input(data)


def test_pandas_values_without_a_common_type_name_the_column() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(SchemaMismatchError, match="column k with type object"):
        read_input(pandas.DataFrame({"k": [1, "a"]}))


def test_dicts_with_other_keys_than_strings_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="with the key 1: keys name columns"):
        read_input([{1: "a"}])


def test_dicts_give_the_union_of_their_keys_in_order_of_appearance() -> None:
    source = read_input([{"k": 1}, {"z": {"b": 1}, "k": 2}, {"a": [{"y": 1}, {"x": 2}], "z": {"a": "t"}}])
    inner = pa.list_(pa.field("element", pa.struct([("y", pa.int64()), ("x", pa.int64())])))
    assert source.schema == pa.schema(
        [("k", pa.int64()), ("z", pa.struct([("b", pa.int64()), ("a", pa.string())])), ("a", inner)]
    )
    assert rows(source) == [
        {"k": 1, "z": None, "a": None},
        {"k": 2, "z": {"b": 1, "a": None}, "a": None},
        {"k": None, "z": {"b": None, "a": "t"}, "a": [{"y": 1, "x": None}, {"y": None, "x": 2}]},
    ]


def _ext(kind: pa.DataType, values: list[object]) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


def _dictionary(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint32()), values)


DAY = date(2024, 2, 29)
TEXTS = ["a", None, "é"]
ACCEPTED: dict[str, tuple[pa.Array, pa.DataType, list[object]]] = {
    "bool": (pa.array([True, None, False]), pa.bool_(), [True, None, False]),
    **{
        str(kind): (pa.array([1, None, top], kind), wide, [1, None, top])
        for kind, wide, top in (
            (pa.int8(), pa.int32(), -(2**7)),
            (pa.int16(), pa.int32(), -(2**15)),
            (pa.int32(), pa.int32(), -(2**31)),
            (pa.int64(), pa.int64(), -(2**63)),
            (pa.uint8(), pa.int32(), 2**8 - 1),
            (pa.uint16(), pa.int32(), 2**16 - 1),
            (pa.uint32(), pa.int64(), 2**32 - 1),
        )
    },
    "float16": (pa.array([1.5, None, -0.0], pa.float16()), pa.float32(), [1.5, None, -0.0]),
    "float32": (pa.array([0.5, None, -1.0], pa.float32()), pa.float32(), [0.5, None, -1.0]),
    "float64": (pa.array([0.1, None, -1e300]), pa.float64(), [0.1, None, -1e300]),
    **{
        str(kind): (pa.array(TEXTS, kind), pa.string(), TEXTS)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): (pa.array([b"a", None, b"\xff"], kind), pa.binary(), [b"a", None, b"\xff"])
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))
    },
    **{
        str(kind): (
            pa.array([Decimal("1.5"), None, Decimal("-2")], kind),
            pa.decimal128(5, 2),
            [Decimal("1.5"), None, Decimal(-2)],
        )
        for kind in (pa.decimal32(5, 2), pa.decimal64(5, 2), pa.decimal128(5, 2), pa.decimal256(5, 2))
    },
    **{
        str(kind): (pa.array([DAY, None, DAY], kind), pa.date32(), [DAY, None, DAY])
        for kind in (pa.date32(), pa.date64())
    },
    **{
        f"timestamp {unit} {zone}": (
            pa.array([0, None, 1], pa.timestamp(unit, zone)),
            pa.timestamp("us", zone and "UTC"),
            [0, None, {"s": 1_000_000, "ms": 1000, "us": 1}[unit]],
        )
        for unit in ("s", "ms", "us")
        for zone in (None, "Asia/Tokyo")
    },
    "timestamp ns": (pa.array([0, None, 1000], pa.timestamp("ns")), pa.timestamp("us"), [0, None, 1]),
    "null": (pa.nulls(3), pa.null(), [None] * 3),
    "bool8": (_ext(pa.bool8(), [1, None, 0]), pa.bool_(), [True, None, False]),
    "json": (_ext(pa.json_(), ["1", None, "{}"]), pa.string(), ["1", None, "{}"]),
    "uuid": (_ext(pa.uuid(), [b"0" * 16, None, b"1" * 16]), pa.binary(), [b"0" * 16, None, b"1" * 16]),
    "dictionary of views": (_dictionary(pa.array(["x", "y"], pa.string_view())), pa.string(), ["y", None, "x"]),
    "dictionary of integers": (_dictionary(pa.array([5, 6], pa.int8())), pa.int32(), [6, None, 5]),
    "dictionary of lists": (
        _dictionary(pa.array([[5], [6]])),
        pa.list_(pa.field("element", pa.int64())),
        [[6], None, [5]],
    ),
    "dictionary with null": (_dictionary(pa.array(["x", None])), pa.string(), [None, None, "x"]),
    **{
        str(kind): (pa.array([[1], None, [2, 3]], kind), pa.list_(pa.field("element", pa.int32())), [[1], None, [2, 3]])
        for kind in (
            pa.list_(pa.int8()),
            pa.large_list(pa.int8()),
            pa.list_view(pa.int8()),
            pa.large_list_view(pa.int32()),
        )
    },
    "list views out of order": (
        pa.ListViewArray.from_arrays(
            pa.array([2, 0, 1], pa.int32()), pa.array([1, 2, 1], pa.int32()), pa.array([1, 2, 3])
        ),
        pa.list_(pa.field("element", pa.int64())),
        [[3], [1, 2], [2]],
    ),
    "fixed-size list": (
        pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)),
        pa.list_(pa.field("element", pa.int32())),
        [[1, 2], None, [3, None]],
    ),
    "map": (
        pa.array([[("a", 1)], None, []], pa.map_(pa.string_view(), pa.uint8())),
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1)], None, []],
    ),
    "map with dictionary keys": (
        pa.MapArray.from_arrays(
            pa.array([0, 1, 1, 2], pa.int32()), pa.array(["a", "b"]).dictionary_encode(), pa.array([1, 2])
        ),
        pa.map_(pa.string(), pa.int64()),
        [[("a", 1)], [], [("b", 2)]],
    ),
    "struct": (
        pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.uint8())])),
        pa.struct([("a", pa.int32())]),
        [{"a": 1}, None, {"a": None}],
    ),
}
REFUSED: dict[str, pa.DataType] = {
    **{
        str(kind): kind
        for kind in (
            pa.uint64(),
            pa.time32("s"),
            pa.time64("us"),
            pa.duration("s"),
            pa.month_day_nano_interval(),
            pa.decimal256(60, 2),
            pa.decimal128(5, -2),
            pa.map_(pa.int64(), pa.int64()),
            pa.map_(pa.binary(), pa.int64()),
            pa.run_end_encoded(pa.int32(), pa.string()),
            pa.dense_union([pa.field("a", pa.int64())]),
            pa.sparse_union([pa.field("a", pa.int64())]),
            pa.dictionary(pa.int8(), pa.uint64()),
            pa.list_view(pa.duration("s")),
        )
    },
    "opaque": pa.opaque(pa.int32(), "hugeint", "duckdb"),
    "tensor": pa.fixed_shape_tensor(pa.int32(), [2]),
}


def in_struct(array: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([array], ["x"])


def in_list(array: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), array)


def in_map(array: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), array)


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_type_arrives_exactly_also_within_others(name: str) -> None:
    array, kind, values = ACCEPTED[name]
    table = pa.table({"c": array, "s": in_struct(array), "l": in_list(array), "m": in_map(array)})
    for source in (table, table.slice(1), pa.concat_tables([table, table]).combine_chunks().slice(3)):
        found = read_input(source)
        assert found.schema.types == [
            kind,
            pa.struct([("x", kind)]),
            pa.list_(pa.field("element", kind)),
            pa.map_(pa.string(), kind),
        ]
        made = pa.Table.from_batches(list(found.batches()), found.schema)
        made.validate(full=True)
        expected = values[len(values) - source.num_rows :]
        if pa.types.is_timestamp(kind):  # as numbers: the zone is a label
            assert made["c"].cast(pa.int64()).to_pylist() == expected
            expected = made["c"].to_pylist()
        assert made["c"].to_pylist() == expected
        assert made["s"].to_pylist() == [{"x": value} for value in expected]
        assert made["l"].to_pylist() == [[value] for value in expected]
        assert [row[0][1] for row in made["m"].to_pylist()] == expected


@pytest.mark.parametrize("name", REFUSED)
def test_other_types_are_refused_by_name(name: str) -> None:
    kind = REFUSED[name]
    shown = r"extension type arrow\.\w+" if isinstance(kind, pa.BaseExtensionType) else "type .*"
    within = (pa.struct([("x", kind)]), pa.list_(pa.field("x", kind)), pa.map_(pa.string(), kind))
    for outer, path in zip((kind, *within), ("c", r"c\.x", r"c\.element", r"c\.value"), strict=True):
        with pytest.raises(
            SchemaMismatchError, match=rf"Column '{path}[\w.]*' has the {shown}, which no Hudi table can hold"
        ):
            normalise_schema(pa.schema([("c", outer)]))


def test_an_extension_type_that_is_not_registered_is_refused() -> None:
    field = pa.field("c", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})
    for schema in (pa.schema([field]), pa.schema([("s", pa.struct([field]))])):
        with pytest.raises(SchemaMismatchError, match=r"Column '(s\.)?c' has the extension type geoarrow.wkb"):
            normalise_schema(schema)


def test_polars_categories() -> None:
    polars = pytest.importorskip("polars")
    columns = {
        "c": polars.Series(TEXTS, dtype=polars.Categorical),
        "e": polars.Series(TEXTS, dtype=polars.Enum(["é", "a"])),
        "l": polars.Series([["a"], None, ["é", "a"]], dtype=polars.List(polars.Categorical)),
    }
    source = read_input(polars.DataFrame(columns))
    assert source.schema.types == [pa.string(), pa.string(), pa.list_(pa.field("element", pa.string()))]
    assert [list(row.values()) for row in rows(source)] == [["a", "a", ["a"]], [None] * 3, ["é", "é", ["é", "a"]]]


@pytest.mark.parametrize("name", [*META_FIELDS, "_hoodie_is_deleted", "_hoodie_operation"])
def test_columns_that_differ_from_hudis_own_in_case_only_are_refused(name: str) -> None:
    for other in (name.upper(), name.title()):
        with pytest.raises(
            SchemaMismatchError, match=f"Column '{other}' of the data differs from Hudi's own column '{name}'"
        ):
            read_input(pa.table({"k": [1], other: [None]}))


@pytest.mark.parametrize("name", ["geography", "geometry"])
def test_types_that_spark_hands_on_as_structs_are_refused_by_name(name: str) -> None:
    marked = pa.struct([("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={name: "true"})])
    with pytest.raises(SchemaMismatchError, match=rf"Column 'c\.x' has Spark's type {name}, which cannot"):
        read_input(pa.table({"c": pa.array([], pa.struct([("x", marked)]))}))


def test_declared_types_stay_with_their_fields() -> None:
    """Spark marks a variant within it, and has the type of a list's values in the metadata of the column."""
    marked = pa.struct([("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})])
    blob = pa.struct([("type", pa.string())])
    schema = pa.schema(
        [
            pa.field("v", marked, metadata={"other": "x"}),
            pa.field("bs", pa.list_(pa.list_(blob)), metadata={"hudi_type": "BLOB"}),
            pa.field("m", pa.map_(pa.string(), blob), metadata={"hudi_type": "BLOB"}),
            pa.field("s", pa.struct([pa.field("inner", marked)])),
            pa.field("e", pa.list_(pa.int8()), metadata={"hudi_type": "VECTOR(2, INT8)"}),
            pa.field("plain", pa.list_(pa.int8())),
        ]
    )
    found = read_input(schema.empty_table()).schema
    assert found.field("v").metadata == {b"hudi_type": b"VARIANT"}
    assert found.field("bs").metadata is None
    assert found.field("bs").type.value_type.value_field.metadata == {b"hudi_type": b"BLOB"}
    assert found.field("m").type.item_field.metadata == {b"hudi_type": b"BLOB"}
    assert found.field("s").type.field("inner").metadata == {b"hudi_type": b"VARIANT"}
    assert found.field("e").type.value_type == pa.int8()
    assert found.field("plain").type.value_type == pa.int32()


def test_values_are_cast_and_kept() -> None:
    table = pa.table(
        {
            "d": pa.array(["x", None, "x"]).dictionary_encode(),
            "t": pa.array([datetime(2024, 1, 1, tzinfo=timezone.utc)] * 3, pa.timestamp("ms", "Asia/Tokyo")),
            "l": pa.array([[1], None, [2, None]], pa.large_list(pa.int16())),
            "n": pa.array([Decimal("1.5")] * 3, pa.decimal256(10, 2)),
        }
    )
    assert rows(read_input(table))[2] == {
        "d": "x",
        "t": datetime(2024, 1, 1, tzinfo=timezone.utc),
        "l": [2, None],
        "n": Decimal("1.50"),
    }


def test_a_timestamp_finer_than_microseconds_is_refused_not_cut() -> None:
    table = pa.table({"t": pa.array([1_001], pa.timestamp("ns"))})
    with pytest.raises(SchemaMismatchError, match=r"Column 't' of type timestamp\[ns\].*round it first"):
        list(read_input(table).batches())


def test_columns_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="'K' occurs more than once"):
        read_input(pa.table({"k": [1], "K": [2]}))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (None, "from a NoneType; supported"),
        (3, "from a int; supported"),
        ("rows.csv", r"may name a file \(read it first"),
        ([1, (2,)], "from a list of int, tuple; supported"),
        ({"k": 1}, r"put it into a list: \[row\]"),
        ({"k": [1], "v": []}, "of several lengths: 'k' 1, 'v' 0"),
        (iter([1]), "iterator over int"),
        ([], "An empty list has no columns"),
        (iter([]), "An empty list has no columns"),
    ],
)
def test_what_has_no_rows_is_refused(data: object, match: str) -> None:
    with pytest.raises(SchemaMismatchError, match=match):
        read_input(data)


def test_batches_of_an_iterator_have_one_schema() -> None:
    source = read_input(iter([TABLE, pa.table({"k": ["x"]})]))
    with pytest.raises(SchemaMismatchError, match="several schemas"):
        rows(source)


def test_null_columns_wait_for_the_table() -> None:
    source = read_input([{"k": 1, "x": None}])
    assert source.schema.field("x").type == pa.null()


def test_large_batches_are_cut() -> None:
    source = read_input(pa.table({"k": pa.array(range(BATCH_ROWS + 5))}))
    assert [batch.num_rows for batch in source.batches()] == [BATCH_ROWS, 5]
    assert source.num_rows == BATCH_ROWS + 5


def test_a_struct_without_fields_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'s\.t' is a struct without fields"):
        read_input(pa.table({"id": ["a"], "s": pa.array([{"t": {}}], pa.struct([("t", pa.struct([]))]))}))


def test_names_within_a_struct_differ_by_more_than_case() -> None:
    """Spark cannot read the table otherwise (COLUMN_ALREADY_EXISTS)."""
    kind = pa.list_(pa.struct([("a", pa.int64()), ("A", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match=r"'s\.element\.A' occurs more than once"):
        read_input(pa.table({"id": ["a"], "s": pa.array([[]], kind)}))


@pytest.mark.parametrize("kind", [pa.string(), pa.int32()])
def test_a_delete_marker_is_boolean(kind: pa.DataType) -> None:
    """Apache Hudi refuses others, and cannot read logs with them."""
    with pytest.raises(SchemaMismatchError, match=f"'_hoodie_is_deleted', .* has the type {kind}, and must be boolean"):
        read_input(pa.table({"id": ["a"], "_hoodie_is_deleted": pa.array([None], kind)}))
    assert (
        read_input(pa.table({"id": ["a"], "_hoodie_is_deleted": pa.nulls(1)})).schema.names[1] == "_hoodie_is_deleted"
    )
