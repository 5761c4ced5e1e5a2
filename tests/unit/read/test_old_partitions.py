"""Partition paths of releases which did not store how they write them, and their null partition."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudi_py.model.properties import TableConfig
from hudi_py.read.partition import partition_values, path_parts, path_values

SCHEMA = pa.schema([("_hoodie_partition_path", pa.string()), ("city", pa.string()), ("day", pa.int32())])
OLD = {
    "hoodie.table.version": "2",
    "hoodie.table.partition.fields": "city",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
}


def config(**changes: str) -> TableConfig:
    return TableConfig({**OLD, **{key.replace("__", "."): value for key, value in changes.items()}})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("city=oslo", {"city": "oslo"}),
        ("oslo", {"city": "oslo"}),
        ("town=oslo", {"city": "town=oslo"}),
        # whether it was encoded is not known
        ("city=a%20b", None),
        ("city=a/b", None),
    ],
)
def test_the_name_in_a_path_is_found_without_a_property(path: str, expected: dict[str, str] | None) -> None:
    assert path_parts(config(), path) == expected


def test_the_properties_decide_where_they_are_stored() -> None:
    plain = config(hoodie__datasource__write__hive_style_partitioning="false")
    assert path_parts(plain, "city=oslo") == {"city": "city=oslo"}
    encoded = config(hoodie__datasource__write__partitionpath__urlencode="true")
    assert path_parts(encoded, "city=a%20b") == {"city": "a b"}
    kept = config(hoodie__datasource__write__partitionpath__urlencode="false")
    assert path_parts(kept, "city=a%20b") == {"city": "a%20b"}


def test_values_that_prune() -> None:
    assert partition_values(config(), SCHEMA, "city=oslo")["city"].as_py() == "oslo"
    assert "city" not in partition_values(config(), SCHEMA, "city=a%20b")


@pytest.mark.parametrize(
    ("version", "path", "expected"),
    [
        ("2", "city=default", {"city": "default"}),
        ("4", "default", {"city": "default"}),
        ("5", "city=default", {"city": "default"}),
        ("6", "city=default", {"city": "default"}),
        ("4", "city=oslo", {"city": "oslo"}),
        ("4", "city=__HIVE_DEFAULT_PARTITION__", {"city": None}),
    ],
)
def test_the_partition_default(version: str, path: str, expected: dict[str, str | None]) -> None:
    found = path_values(config(hoodie__table__version=version), SCHEMA, path, "uri")
    assert {name: value.as_py() for name, value in found} == expected


def test_the_partition_default_of_a_number() -> None:
    found = path_values(config(hoodie__table__partition__fields="day"), SCHEMA, "day=default", "uri")
    assert found == ()


def test_texts_of_escaped_paths_in_a_range() -> None:
    encoded = config(hoodie__datasource__write__partitionpath__urlencode="true")
    found = path_values(encoded, SCHEMA, "city=a%2Fb", "uri", escaped=True)
    assert {name: value.as_py() for name, value in found} == {"city": "a%2Fb"}
    assert dict(path_values(encoded, SCHEMA, "city=a%2Fb", "uri"))["city"].as_py() == "a/b"
    assert dict(path_values(encoded, SCHEMA, "city=oslo", "uri", escaped=True))["city"].as_py() == "oslo"
    assert partition_values(encoded, SCHEMA, "city=a%2Fb", escaped=True)["city"].as_py() == "a%2Fb"


@pytest.mark.parametrize(("escaped", "text"), [(True, "a%2Fb"), (False, "a/b")])
def test_texts_of_escaped_paths_of_columns_that_were_left_out(escaped: bool, text: str) -> None:
    dropping = config(
        hoodie__datasource__write__partitionpath__urlencode="true",
        hoodie__datasource__write__drop__partition__columns="true",
    )
    found = path_values(dropping, SCHEMA, "city=a%2Fb", "uri", escaped=escaped)
    assert {name: value.as_py() for name, value in found} == {"city": text}
