"""Record keys and partition paths against those that Apache Hudi 1.2.0 wrote for the same values."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.config import Options
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.model.properties import TableConfig
from hudi_py.schema.floats import java_double, java_float
from hudi_py.write.rows.keygen import (
    KeyGenerator,
    KeyGeneratorType,
    infer_keygen_type,
    key_generator,
    parse_keygen,
)
from hudi_py.write.rows.keygen.texts import escape, render

UTC = timezone.utc

# values and the record keys of Apache Hudi 1.2.0 (upsert, SimpleKeyGenerator; the same text names the partition)
WRITTEN_BY_APACHE_HUDI = [
    (pa.array([1, -5, 127], pa.int8()), ["1", "-5", "127"]),
    (pa.array([300, -300, 0], pa.int16()), ["300", "-300", "0"]),
    (pa.array([1, -2, 2147483647], pa.int32()), ["1", "-2", "2147483647"]),
    (pa.array([1, -9007199254740993, 0], pa.int64()), ["1", "-9007199254740993", "0"]),
    (pa.array([1.5, 0.1, 1e7], pa.float32()), ["1.5", "0.1", "1.0E7"]),
    (pa.array([1.0, 1e-5, 1e10]), ["1.0", "1.0E-5", "1.0E10"]),
    (pa.array([True, False]), ["true", "false"]),
    (pa.array(["a b", "é/x:y,z", "q=1%{}"]), ["a b", "é/x:y,z", "q=1%{}"]),
    (
        pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("12345678.90")], pa.decimal128(10, 2)),
        ["1.50", "-0.01", "12345678.90"],
    ),
    (
        pa.array(
            [Decimal("1.5"), Decimal("0.0000000001"), Decimal("1234567890123456789012345678.9")], pa.decimal128(38, 10)
        ),
        ["1.5000000000", "1E-10", "1234567890123456789012345678.9000000000"],
    ),
    (pa.array([Decimal(100), Decimal(0), Decimal(-7)], pa.decimal128(18, 0)), ["100", "0", "-7"]),
    (
        pa.array([date(2024, 1, 2), date(1969, 12, 31), date(1999, 1, 1)], pa.date32()),
        ["2024-01-02", "1969-12-31", "1999-01-01"],
    ),
    (
        pa.array(
            [datetime(2024, 1, 2, 3, 4, 5, 678901, UTC), datetime(1969, 12, 31, 23, 59, 59, 500000, UTC)],
            pa.timestamp("us", tz="UTC"),
        ),
        ["1704164645678901", "-500000"],
    ),
    (
        pa.array([datetime(2024, 1, 2, 3, 4, 5, 678901), datetime(2024, 1, 1)], pa.timestamp("us")),
        ["1704164645678901", "1704067200000000"],
    ),
]


@pytest.mark.parametrize(("values", "written"), WRITTEN_BY_APACHE_HUDI, ids=lambda v: str(getattr(v, "type", "")))
def test_simple_keys_are_those_of_apache_hudi(values: pa.Array, written: list[str]) -> None:
    generator = KeyGenerator(KeyGeneratorType.SIMPLE, ("k",), ("p",), hive_style=True)
    batch = pa.record_batch({"k": values, "p": values})
    assert generator.record_keys(batch).to_pylist() == written
    if "é/x:y,z" not in written:
        assert generator.partition_paths(batch).to_pylist() == [f"p={text}" for text in written]


def test_milliseconds_number_the_keys_of_columns_stored_so() -> None:
    values = pa.array([1_704_164_645_678_901, -1, None], pa.timestamp("us", tz="UTC"))
    assert render(values, "t", millis=True).to_pylist() == ["1704164645678", "-1", None]


INSTANTS = [
    datetime(2024, 1, 1, 1, 2, 3, 0, timezone.utc),
    datetime(2024, 7, 1, 1, 2, 3, 456_000, timezone.utc),
    datetime(1969, 12, 31, 23, 59, 59, 999_500, timezone.utc),
    datetime(2024, 1, 1, 1, 2, 3, 456_789, timezone.utc),
    datetime(2024, 1, 1, 1, 2, 3, 450_000, timezone.utc),
]


def test_timestamps_as_text_are_those_of_apache_hudi() -> None:
    """Written by 1.2.0 in New York, the last one apart."""
    values = pa.array([*INSTANTS, None], pa.timestamp("us", "UTC"))
    generator = KeyGenerator(KeyGeneratorType.COMPLEX, ("t", "n"), timestamp_zone="America/New_York")
    written = ["2023-12-31 20:02:03.0", "2024-06-30 21:02:03.456", "1969-12-31 19:00:00.0", "2023-12-31 20:02:03.456"]
    local = pa.array([datetime(2024, 1, 1)] * 6, pa.timestamp("us"))
    keys = generator.record_keys(pa.record_batch({"t": values, "n": local})).to_pylist()
    assert keys == [f"t:{text},n:1704067200000000" for text in [*written, "2023-12-31 20:02:03.45", "__null__"]]


def test_timestamps_as_text_that_are_refused() -> None:
    generator = KeyGenerator(KeyGeneratorType.SIMPLE, ("t",), ("p",), timestamp_zone="UTC")
    old = pa.record_batch({"t": pa.array([datetime(1500, 1, 1, tzinfo=timezone.utc)]), "p": ["x"]})
    with pytest.raises(ConfigError, match="before 1582-10-16"):
        generator.record_keys(old)
    with pytest.raises(ConfigError, match="cannot be a partition value with hoodie"):
        generator.check(pa.schema([("t", pa.string()), ("p", pa.timestamp("us", "UTC"))]))


@pytest.mark.parametrize(("kind", "limit"), [(pa.float32(), 2.0**24), (pa.float64(), 2.0**53)])
def test_floats_whose_text_depends_on_the_java_release_are_refused(kind: pa.DataType, limit: float) -> None:
    assert render(pa.array([-limit / 2, None, float("inf")], kind), "k").to_pylist()[1:] == [None, "Infinity"]
    with pytest.raises(ConfigError, match="Java releases print"):
        render(pa.array([1.0, -limit], kind), "k")


COMPLEX = pa.record_batch(
    {
        "i": pa.array([1, None, 3]),
        "s": pa.array(["x", "", "a:b,c"]),
        "f": pa.array([1.5, 0.1, None]),
        "d": pa.array([date(2024, 1, 2), date(1969, 12, 31), date(1999, 1, 1)], pa.date32()),
        "t": pa.array(
            [
                datetime(2024, 1, 2, 3, 4, 5, 678901, UTC),
                datetime(1975, 12, 31, 23, 59, 59, 500000, UTC),
                datetime(2024, 1, 1, tzinfo=UTC),
            ],
            pa.timestamp("us", tz="UTC"),
        ),
        "b": pa.array([True, None, False]),
    }
)


def test_complex_keys_are_those_of_apache_hudi() -> None:
    generator = KeyGenerator(KeyGeneratorType.COMPLEX, ("i", "s", "f", "d", "t", "b"))
    assert generator.record_keys(COMPLEX).to_pylist() == [
        "i:1,s:x,f:1.5,d:2024-01-02,t:1704164645678901,b:true",
        "i:__null__,s:__empty__,f:0.1,d:1969-12-31,t:189302399500000,b:__null__",
        "i:3,s:a:b,c,f:__null__,d:1999-01-01,t:1704067200000000,b:false",
    ]


@pytest.mark.parametrize(
    ("kind", "names", "keys"),
    [
        (KeyGeneratorType.COMPLEX, True, ["k:1", "k:2"]),
        (KeyGeneratorType.COMPLEX, False, ["1", "2"]),
        (KeyGeneratorType.SIMPLE, True, ["1", "2"]),
        (KeyGeneratorType.NON_PARTITION, True, ["1", "2"]),
    ],
)
def test_single_key_field(kind: KeyGeneratorType, names: bool, keys: list[str]) -> None:
    generator = KeyGenerator(kind, ("k",), names_single_key=names)
    assert generator.record_keys(pa.record_batch({"k": [1, 2]})).to_pylist() == keys


def test_nonpartitioned_with_two_keys_names_its_fields() -> None:
    generator = KeyGenerator(KeyGeneratorType.NON_PARTITION, ("k", "k2"))
    batch = pa.record_batch({"k": [1, 2], "k2": [1, None]})
    assert generator.record_keys(batch).to_pylist() == ["k:1,k2:1", "k:2,k2:__null__"]
    assert generator.partition_paths(batch).to_pylist() == ["", ""]


@pytest.mark.parametrize("values", [["a", None], ["a", ""]])
def test_a_null_or_empty_key_is_refused(values: list[str | None]) -> None:
    batch = pa.record_batch({"k": values, "k2": values})
    with pytest.raises(SchemaMismatchError, match="'k' is null or empty in 1 of 2 rows"):
        KeyGenerator(KeyGeneratorType.SIMPLE, ("k",)).record_keys(batch)
    with pytest.raises(SchemaMismatchError, match="k, k2 are all null or empty in 1 of 2 rows"):
        KeyGenerator(KeyGeneratorType.COMPLEX, ("k", "k2")).record_keys(batch)


@pytest.mark.parametrize(
    "values", [pa.array([b"a"]), pa.array([[1]]), pa.array([{"a": 1}]), pa.array([1], pa.time32("s"))]
)
def test_types_without_a_settled_rendering_are_refused(values: pa.Array) -> None:
    generator = KeyGenerator(KeyGeneratorType.SIMPLE, ("k",), ("k",))
    with pytest.raises(ConfigError, match=r"Column 'k' of type .* cannot be a record key"):
        generator.record_keys(pa.record_batch({"k": values}))
    with pytest.raises(ConfigError, match="cannot be a partition value"):
        generator.partition_paths(pa.record_batch({"k": values}))
    with pytest.raises(ConfigError, match="cannot be a record key"):
        generator.check(pa.schema([("k", values.type)]))


PARTITION_VALUES = ["a b/c", "x=y&z+w", "é%~\"#'*:?\\{[]^}|<>@!$;,.()`-_"]
ENCODED_BY_APACHE_HUDI = ["a b%2Fc", "x%3Dy&z+w", "é%25~%22%23%27%2A%3A%3F%5C%7B%5B%5D%5E}|<>@!$;,.()`-_"]


@pytest.mark.parametrize(("hive_style", "prefix"), [(False, ""), (True, "p=")])
def test_url_encoding_is_that_of_apache_hudi(hive_style: bool, prefix: str) -> None:
    generator = KeyGenerator(KeyGeneratorType.SIMPLE, ("p",), ("p",), hive_style=hive_style, url_encoded=True)
    paths = generator.partition_paths(pa.record_batch({"p": PARTITION_VALUES})).to_pylist()
    assert paths == [prefix + text for text in ENCODED_BY_APACHE_HUDI]


def test_control_characters_are_encoded() -> None:
    assert escape("a\x01\n\x1f\x7f") == "a%01%0A%1F%7F"


def test_null_and_empty_values_have_the_default_partition() -> None:
    batch = pa.record_batch({"p": [None, "", " "], "q": pa.array([1, None, 2])})
    generator = KeyGenerator(KeyGeneratorType.COMPLEX, ("k",), ("p", "q"), hive_style=True)
    default = "__HIVE_DEFAULT_PARTITION__"
    assert generator.partition_paths(batch).to_pylist() == [f"p={default}/q=1", f"p={default}/q={default}", "p= /q=2"]


def test_a_slash_makes_nested_folders() -> None:
    generator = KeyGenerator(KeyGeneratorType.SIMPLE, ("p",), ("p",))
    assert generator.partition_paths(pa.record_batch({"p": ["a/b"]})).to_pylist() == ["a/b"]


# checked with Apache Hudi 1.2.0, which reads these values back, and upserts them, whatever the form of the path
READABLE = [
    "a\nb",
    "a\n",
    "\r",
    "a\u2028b",
    "\u0085",
    "a\x01",
    "\x7f",
    " a",
    "a ",
    " ",
    "a*b",
    "a{",
    "a?",
    "a\\b",
    "a#b",
]
READABLE += [
    "a,b",
    "_a",
    "a'b\"c",
    "\u00a0",
    "\u200b",
    "😀",
    "a+b",
    "x.marker.CREATE",
    "\ufeffa",
    "-a",
    "~",
    "a%",
    "%0g",
]
# those that it reads as other values, or not at all, where paths are not URL-encoded: with the name of the column, not
UNREADABLE = {"a:b": False, ":": False, "a%41": False, "%0a": False, "a=b": True, "=": True}


@pytest.mark.parametrize("hive_style", [False, True])
def test_every_value_is_read_back_by_apache_hudi_or_refused(hive_style: bool) -> None:
    raw = KeyGenerator(KeyGeneratorType.SIMPLE, ("p",), ("p",), hive_style=hive_style)
    encoded = KeyGenerator(KeyGeneratorType.SIMPLE, ("p",), ("p",), hive_style=hive_style, url_encoded=True)
    prefix = "p=" if hive_style else ""
    assert raw.partition_paths(pa.record_batch({"p": READABLE})).to_pylist() == [prefix + value for value in READABLE]
    every = [*READABLE, *UNREADABLE]
    assert encoded.partition_paths(pa.record_batch({"p": every})).to_pylist() == [prefix + escape(v) for v in every]
    for value, named in UNREADABLE.items():
        batch = pa.record_batch({"p": ["x", value]})
        if hive_style and named:
            assert raw.partition_paths(batch).to_pylist() == ["p=x", f"p={value}"]
            continue
        for act in (raw.partition_paths, raw.check_partitions):
            with pytest.raises(ConfigError, match=r"Apache Hudi .*partitionpath\.urlencode=true, or change the value"):
                act(batch)


@pytest.mark.parametrize("hive_style", [False, True])
def test_a_slash_among_several_partition_columns(hive_style: bool) -> None:
    keygen = KeyGenerator(KeyGeneratorType.COMPLEX, ("k",), ("p", "q"), hive_style=hive_style)
    batch = pa.record_batch({"p": ["a/b"], "q": ["c"]})
    if hive_style:
        assert keygen.partition_paths(batch).to_pylist() == ["p=a/b/q=c"]
    else:
        with pytest.raises(ConfigError, match="takes a slash for the end of the value"):
            keygen.partition_paths(batch)


@pytest.mark.parametrize("value", ["/c", "d/", "a//b", ".", "..", "a/../b", ".hoodie", "a\x00b"])
def test_values_that_are_no_directory_are_refused(value: str) -> None:
    generator = KeyGenerator(KeyGeneratorType.SIMPLE, ("p",), ("p",))
    with pytest.raises(ConfigError, match="cannot be a directory"):
        generator.partition_paths(pa.record_batch({"p": [value]}))


@pytest.mark.parametrize(
    ("keys", "partitions", "kind"),
    [
        (["k"], ["p"], KeyGeneratorType.SIMPLE),
        (["k", "l"], ["p"], KeyGeneratorType.COMPLEX),
        (["k"], ["p", "q"], KeyGeneratorType.COMPLEX),
        (["k"], [], KeyGeneratorType.NON_PARTITION),
        (["k", "l"], [], KeyGeneratorType.NON_PARTITION),
        ([], ["p"], KeyGeneratorType.SIMPLE),
        (["k"], ["p:SIMPLE"], KeyGeneratorType.CUSTOM),
    ],
)
def test_inferred_generator(keys: list[str], partitions: list[str], kind: KeyGeneratorType) -> None:
    assert infer_keygen_type(keys, partitions) is kind


def test_generator_by_name() -> None:
    assert parse_keygen("simple_avro", "x") is KeyGeneratorType.SIMPLE
    assert parse_keygen("", "org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator") is KeyGeneratorType.NON_PARTITION
    assert parse_keygen("", "") is None
    for kind in KeyGeneratorType:
        assert parse_keygen("", kind.java_class) is kind
    with pytest.raises(UnsupportedTableError, match="TIMESTAMP, CUSTOM"):
        parse_keygen("GLOBAL_DELETE", "")
    with pytest.raises(UnsupportedTableError, match=r"com\.example\.Own"):
        parse_keygen("", "com.example.Own")


def test_key_generator_of_a_table() -> None:
    properties = {
        "hoodie.table.version": "8",
        "hoodie.table.recordkey.fields": "k",
        "hoodie.table.partition.fields": "p",
        "hoodie.table.keygenerator.type": "COMPLEX",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    schema = {"fields": [{"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]}]}
    generator = key_generator(TableConfig(properties), schema, names_single_key=False)
    assert generator == KeyGenerator(
        KeyGeneratorType.COMPLEX, ("k",), ("p",), True, names_single_key=False, millis_columns=frozenset({"t"})
    )
    assert pickle.loads(pickle.dumps(generator)) == generator
    nine = key_generator(TableConfig({**properties, "hoodie.table.version": "9"}), names_single_key=False)
    assert nine.names_single_key


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (
            {"hoodie.table.keygenerator.type": "TIMESTAMP"},
            ConfigError,
            r"timestamp\.type, which is ''; expected one of",
        ),
        (
            {"hoodie.table.keygenerator.type": "CUSTOM"},
            ConfigError,
            "CUSTOM key generator makes paths of the column 'p'",
        ),
        ({"hoodie.table.recordkey.fields": "k,l"}, ConfigError, "SIMPLE takes one record key"),
        ({"hoodie.table.keygenerator.type": "NON_PARTITION"}, ConfigError, "does not go with partition field"),
    ],
)
def test_fields_and_generator_must_agree(changes: dict[str, str], error: type[Exception], text: str) -> None:
    properties = {
        "hoodie.table.recordkey.fields": "k",
        "hoodie.table.partition.fields": "p",
        "hoodie.table.keygenerator.type": "SIMPLE",
    }
    with pytest.raises(error, match=text):
        key_generator(TableConfig(properties | changes))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (0.0009999, "9.999E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456.789, "123456.789"),
        (-0.0, "-0.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (5e-324, "4.9E-324"),
        (100.0, "100.0"),
    ],
)
def test_doubles_print_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_doubles_read_back(value: float) -> None:
    assert float(java_double(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_printed_floats_read_back(value: float) -> None:
    assert np.float32(java_float(value)) == np.float32(value)


STRUCTS = pa.RecordBatch.from_pylist(
    [{"who": {"id": "a", "pt": "x"}, "n": 1}, {"who": {"id": "b", "pt": None}, "n": 2}],
    pa.schema([("who", pa.struct([("id", pa.string()), ("pt", pa.string())])), ("n", pa.int64())]),
)


def of_table(keys: str, partitions: str, kind: str = "", **more: str) -> KeyGenerator:
    properties = {
        "hoodie.table.version": "9",
        "hoodie.table.recordkey.fields": keys,
        "hoodie.table.partition.fields": partitions,
        "hoodie.table.keygenerator.type": kind,
    }
    return key_generator(TableConfig(properties | {name.replace("__", "."): text for name, text in more.items()}))


def test_keys_and_partitions_of_structs() -> None:
    generator = of_table("who.id,n", "who.pt", "COMPLEX", hoodie__datasource__write__hive_style_partitioning="true")
    assert generator.record_keys(STRUCTS).to_pylist() == ["who.id:a,n:1", "who.id:b,n:2"]
    assert generator.partition_paths(STRUCTS).to_pylist() == ["who.pt=x", "who.pt=__HIVE_DEFAULT_PARTITION__"]
    assert of_table("who.id", "").record_keys(STRUCTS).to_pylist() == ["a", "b"]
    generator.check_partitions(STRUCTS.select(["who"]))
    assert generator.key_columns(STRUCTS.schema) == ["who", "n"]
    assert generator.partition_columns(STRUCTS.schema) == ["who"]


def test_a_missing_field_of_a_struct_is_told_from_a_missing_column() -> None:
    with pytest.raises(
        SchemaMismatchError, match=r"'who\.x', which is needed as a record key, is not in the column 'who'"
    ):
        of_table("who.x", "n").check(STRUCTS.schema)
    with pytest.raises(SchemaMismatchError, match="'x', which is needed as a partition value, is not in the data"):
        of_table("n", "x").check(STRUCTS.schema)


def test_a_null_struct_has_no_part_of_a_key() -> None:
    batch = pa.RecordBatch.from_pylist([{"who": None, "n": 1}], STRUCTS.schema)
    with pytest.raises(SchemaMismatchError, match=r"'who\.id' is in a struct that is null in 1 of 1 rows"):
        of_table("who.id,n", "").record_keys(batch)
    assert of_table("n", "who.pt").partition_paths(batch).to_pylist() == ["__HIVE_DEFAULT_PARTITION__"]


DATES = {
    "hoodie__keygen__timebased__timestamp__type": "UNIX_TIMESTAMP",
    "hoodie__keygen__timebased__output__dateformat": "yyyy/MM",
    "hoodie__keygen__timebased__timezone": "UTC",
}
TIMED = pa.record_batch({"k": ["a", "b"], "t": pa.array([1_700_000_000, None]), "c": ["x/y", None]})


@pytest.mark.parametrize(
    ("partitions", "kind", "more", "paths"),
    [
        ("t", "TIMESTAMP", {}, ["2023/11", "1970/01"]),
        ("t", "TIMESTAMP", {"hive": "true"}, ["t=2023/11", "t=1970/01"]),
        ("t", "TIMESTAMP", {"hive": "true", "url": "true"}, ["t=2023%2F11", "t=1970%2F01"]),
        (
            "c:simple,t:TIMESTAMP",
            "CUSTOM",
            {"url": "true"},
            ["x%2Fy/2023%2F11", "__HIVE_DEFAULT_PARTITION__/1970%2F01"],
        ),
        ("c:SIMPLE", "CUSTOM", {}, ["x/y", "__HIVE_DEFAULT_PARTITION__"]),
        ("", "CUSTOM", {}, ["", ""]),
    ],
)
def test_dated_paths_are_those_of_apache_hudi(
    partitions: str, kind: str, more: dict[str, str], paths: list[str]
) -> None:
    names = {
        "hive": "hoodie__datasource__write__hive_style_partitioning",
        "url": "hoodie__datasource__write__partitionpath__urlencode",
    }
    generator = of_table("k", partitions, kind, **DATES, **{names[name]: text for name, text in more.items()})
    assert generator.partition_paths(TIMED).to_pylist() == paths
    assert generator.record_keys(TIMED).to_pylist() == ["a", "b"]
    assert pickle.loads(pickle.dumps(generator)).partition_paths(TIMED).to_pylist() == paths


def test_a_custom_generator_names_several_keys() -> None:
    assert of_table("k,t", "c:SIMPLE", "CUSTOM").record_keys(TIMED)[0].as_py() == "k:a,t:1700000000"


def test_types_of_a_custom_generator_come_from_options_before_version_8() -> None:
    properties = {
        "hoodie.table.version": "6",
        "hoodie.table.recordkey.fields": "k",
        "hoodie.table.partition.fields": "t",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
    }
    partition_by = "hoodie.datasource.write.partitionpath.field"
    dates = {key.replace("__", "."): text for key, text in DATES.items()}
    given = Options.resolve({partition_by: "t:TIMESTAMP", **dates}, defaults={})
    generator = key_generator(TableConfig(properties), options=given)
    assert generator.partition_paths(TIMED).to_pylist() == ["2023/11", "1970/01"]
    with pytest.raises(ConfigError, match="has the type 'HASH'; supported: SIMPLE and TIMESTAMP"):
        key_generator(TableConfig(properties), options=Options.resolve({partition_by: "t:HASH"}, defaults={}))


def test_slashes_take_the_place_of_dashes() -> None:
    generator = of_table("k", "d", hoodie__datasource__write__slash__separated__date__partitioning="true")
    batch = pa.record_batch({"k": ["a", "b", "c"], "d": ["2024-01-02", None, "2024"]})
    assert generator.partition_paths(batch).to_pylist() == ["2024/01/02", "__HIVE_DEFAULT_PARTITION__", "2024"]
    with pytest.raises(ConfigError, match=r"with slashes for its dashes, path parts must not be empty"):
        generator.partition_paths(pa.record_batch({"k": ["a"], "d": ["-5"]}))
    with pytest.raises(ConfigError, match=r"'d' of type date32\[day\] cannot be the partition value"):
        generator.check(pa.schema([("k", pa.string()), ("d", pa.date32())]))


@pytest.mark.parametrize(("value", "bytes_"), [("ü" * 126, 252 + 3), ("x" * 252, 255), ("x/" * 500 + "y", 1)])
def test_partition_values_as_long_as_a_folder_may_be(value: str, bytes_: int) -> None:
    keygen = KeyGenerator(KeyGeneratorType.SIMPLE, ("id",), ("pt",), hive_style=True)
    batch = pa.RecordBatch.from_pylist([{"id": "a", "pt": value}])
    assert keygen.partition_paths(batch).to_pylist() == [f"pt={value}"]
    longer = pa.RecordBatch.from_pylist([{"id": "a", "pt": value + "x" * (256 - bytes_)}])
    with pytest.raises(ConfigError, match="its name has 256 bytes, and file systems take 255"):
        keygen.partition_paths(longer)
