from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from hudi_py.model.properties import TableConfig
from hudi_py.read.partition import NULL_PARTITION, partition_values

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
    assert known("a%2Fb", "s") == {"s": "a%2Fb"}


def test_other_key_generators_tell_nothing() -> None:
    assert known("2024", "s", hoodie__table__keygenerator__type="TIMESTAMP") == {}
    assert known("2024", "s", hoodie__table__keygenerator__type="CUSTOM") == {}
    assert known("2024", "s", hoodie__table__keygenerator__type="", hoodie__table__keygenerator__class="my.Keys") == {}
    simple = "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert known("2024", "s", hoodie__table__keygenerator__type="", hoodie__table__keygenerator__class=simple) == {
        "s": "2024"
    }
