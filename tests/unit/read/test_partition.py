from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from hudi_py.errors import UnsupportedTableError
from hudi_py.model.names import NULL_PARTITION
from hudi_py.model.properties import TableConfig
from hudi_py.read.partition import (
    columns_from_paths,
    omitted_values,
    partition_values,
    path_values,
)

SCHEMA = pa.schema(
    [
        ("_hoodie_partition_path", pa.string()),
        ("s", pa.string()),
        ("n", pa.int32()),
        ("d", pa.date32()),
        ("b", pa.bool_()),
        ("m", pa.decimal128(10, 2)),
        ("t", pa.timestamp("us", "UTC")),
    ]
)


def known(path: str, fields: str, **properties: str) -> dict[str, object]:
    given = {
        "hoodie.table.name": "t",
        "hoodie.table.partition.fields": fields,
        "hoodie.table.keygenerator.type": "COMPLEX",
        **{key.replace("__", "."): value for key, value in properties.items()},
    }
    values = partition_values(TableConfig(given), SCHEMA, path)
    assert values.pop("_hoodie_partition_path").as_py() == path
    return {name: value.as_py() for name, value in values.items()}


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("s", "rome", "rome"),
        ("n", "-7", -7),
        ("d", "2024-02-29", datetime.date(2024, 2, 29)),
        ("b", "true", True),
        ("m", "1.50", decimal.Decimal("1.50")),
    ],
)
def test_values_of_plain_paths(field: str, text: str, value: object) -> None:
    assert known(text, field) == {field: value}
    hive = {"hoodie__datasource__write__hive_style_partitioning": "true"}
    assert known(f"{field}={text}", field, **hive) == {field: value}


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("s", NULL_PARTITION),
        ("n", "007"),
        ("n", "99999999999"),
        ("n", "x"),
        ("d", "20240229"),
        ("d", "2024-02-30"),
        ("b", "yes"),
        ("t", "2024-01-01"),
        ("s", "a/b"),
        ("s,n", "a"),
    ],
)
def test_what_is_not_certain_is_left_out(field: str, path: str) -> None:
    assert known(path, field) == {}


def test_encoded_and_several_parts() -> None:
    flags = {
        "hoodie__datasource__write__hive_style_partitioning": "true",
        "hoodie__datasource__write__partitionpath__urlencode": "true",
    }
    assert known("s=a%2Fb c/n=5", "s,n", **flags) == {"s": "a/b c", "n": 5}
    assert known("x=a/n=5", "s,n", **flags) == {}
    assert known("a%2Fb", "s", hoodie__datasource__write__partitionpath__urlencode="false") == {"s": "a%2Fb"}
    assert known("a%2Fb", "s") == {}, "releases which did not store the flag may have encoded it"


def test_other_key_generators_tell_nothing() -> None:
    assert known("2024", "s", hoodie__table__keygenerator__type="TIMESTAMP") == {}
    assert known("2024", "s", hoodie__table__keygenerator__type="CUSTOM") == {}
    assert known("2024", "s", hoodie__table__keygenerator__type="", hoodie__table__keygenerator__class="my.Keys") == {}
    simple = "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert known("2024", "s", hoodie__table__keygenerator__type="", hoodie__table__keygenerator__class=simple) == {
        "s": "2024"
    }


@pytest.mark.parametrize(
    ("fields", "plain"),
    [("s:SIMPLE,n:SIMPLE", True), ("s:SIMPLE,n:TIMESTAMP", False), ("s,n", False), ("", False)],
)
def test_custom_key_generators(fields: str, plain: bool) -> None:
    found = known("rome/7", fields, hoodie__table__keygenerator__type="CUSTOM")
    assert found == ({"s": "rome", "n": 7} if plain else {})


def dropped(path: str, fields: str, **properties: str) -> dict[str, object]:
    given = {
        "hoodie.table.name": "t",
        "hoodie.table.partition.fields": fields,
        **{key.replace("__", "."): value for key, value in properties.items()},
    }
    return {name: value.as_py() for name, value in omitted_values(TableConfig(given), SCHEMA, path, "file:///t")}


HIVE = {"hoodie__datasource__write__hive_style_partitioning": "true"}
ENCODED = {"hoodie__datasource__write__partitionpath__urlencode": "true"}


def test_values_of_dropped_columns_are_the_texts_of_the_path() -> None:
    timestamp = {"hoodie__table__keygenerator__type": "TIMESTAMP"}
    assert dropped("2024-01-02", "s", **timestamp) == {"s": "2024-01-02"}
    assert dropped("rome/7", "s,n") == {"s": "rome", "n": 7}
    assert dropped(f"{NULL_PARTITION}/7", "s,n") == {"s": None, "n": 7}
    assert dropped("s=a%2Fb/n=1", "s,n", **HIVE, **ENCODED) == {"s": "a/b", "n": 1}
    assert dropped("elsewhere", "no_column") == {}


def test_a_path_of_several_parts_is_the_value_of_a_single_column() -> None:
    assert dropped("2024/01/02", "s") == {"s": "2024/01/02"}
    assert dropped("s=2024/01/02", "s", **HIVE) == {"s": "2024/01/02"}
    assert dropped("a%2Fb/c", "s", **ENCODED) == {"s": "a/b/c"}


def shown(path: str, fields: str, **properties: str) -> dict[str, object]:
    given = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.partition.fields": fields,
        "hoodie.table.keygenerator.type": "SIMPLE",
        **{key.replace("__", "."): value for key, value in properties.items()},
    }
    config = TableConfig(given)
    values = {name: value.as_py() for name, value in path_values(config, SCHEMA, path, "file:///t")}
    assert not values or set(values) <= columns_from_paths(config)
    return values


def test_a_text_in_several_parts_is_shown_as_the_path_has_it() -> None:
    assert shown("2024/01/02", "s") == {"s": "2024/01/02"}
    assert shown("s=2024/01/02", "s", **HIVE) == {"s": "2024/01/02"}
    assert shown("2024/01/02", "d") == {}, "a date is shown as it is stored"
    assert shown("2024/01/02", "s", hoodie__table__keygenerator__type="TIMESTAMP") == {}


def test_rows_show_the_values_by_which_partitions_are_chosen() -> None:
    """A global index may keep a row in the partition of its former value."""
    assert shown("rome", "s") == {"s": "rome"}
    assert shown("a/7", "s,n", hoodie__table__keygenerator__type="COMPLEX") == {"s": "a", "n": 7}
    assert shown("2024-01-02", "d") == {"d": datetime.date(2024, 1, 2)}
    assert shown("007", "n") == {}
    assert shown("2024-01-02", "t") == {}


def test_texts_of_the_null_partition_are_shown_as_null() -> None:
    assert shown(NULL_PARTITION, "s") == {"s": None}
    assert shown(f"{NULL_PARTITION}/{NULL_PARTITION}", "s,n", hoodie__table__keygenerator__type="COMPLEX") == {
        "s": None,
        "n": None,
    }
    assert shown(NULL_PARTITION, "t") == {}


def test_texts_of_bootstrapped_tables_are_those_of_the_path() -> None:
    path = {"hoodie__bootstrap__base__path": "/source"}
    assert shown("2024-01-02", "s", **path) == {"s": "2024-01-02"}
    assert shown("7", "n", **path) == {"n": 7}
    assert shown(NULL_PARTITION, "s", **path) == {"s": None}


def test_other_key_generators_show_what_is_stored() -> None:
    assert shown(NULL_PARTITION, "s", hoodie__table__keygenerator__type="TIMESTAMP") == {}


@pytest.mark.parametrize(("path", "fields"), [("a/b/7", "s,n"), ("x", "n"), ("1704164645000000", "t")])
def test_what_a_path_does_not_tell_is_refused(path: str, fields: str) -> None:
    with pytest.raises(UnsupportedTableError, match="drop.partition.columns=true"):
        dropped(path, fields)
