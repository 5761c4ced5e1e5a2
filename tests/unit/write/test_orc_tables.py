"""Tables with ORC base files: what is written, and what is refused. tests/oracle/test_orc.py asks Apache Hudi."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.base.files import open_base_file
from hudi_py.formats.base.orc import AVRO_SCHEMA
from hudi_py.storage import open_storage
from hudi_py.testing.machine import HudiPy, NewTable, check_writes
from tests.support import base_formats
from tests.support.base_formats import check_operations, index_options, made
from tests.support.choice import cases

ORC = {
    "hoodie.table.base.file.format": "ORC",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.py.write.durable": "false",
}
AT = datetime(2024, 1, 2, 3, 4, 5, 123456, timezone.utc)


def rows(keys: list[int], ts: int, text: str) -> pa.Table:
    at = pa.array([AT] * len(keys), pa.timestamp("us", "UTC"))
    return base_formats.rows(keys, ts, text).add_column(3, "at", at)


def make(path: Path, version: int = 9, kind: str = "cow", **more: Any) -> hudi_py.Table:
    return made(path, rows([1, 2, 3, 4], 1, "a"), ORC, version, kind, **more)


def texts(table: hudi_py.Table, **scan: Any) -> list[str]:
    assert set(table.scan(**scan).to_table()["at"].to_pylist()) <= {AT}
    return base_formats.texts(table, **scan)


@pytest.mark.parametrize(
    ("version", "kind"), cases([(v, k) for v in (6, 8, 9) for k in ("cow", "mor")], "orc operations", 1)
)
def test_operations(tmp_path: Path, version: int, kind: str) -> None:
    table = make(tmp_path / "t", version, kind)
    assert table.properties["hoodie.table.base.file.format"] == "ORC"
    check_operations(table, tmp_path / "t", kind, rows, texts)


def test_footers_have_keys_and_schema(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    storage = open_storage(tmp_path / "t")
    for row in table.files().to_pylist():
        with open_base_file(storage, f"{row['partition']}/{row['base_file'].rpartition('/')[2]}") as file:
            assert file.footer.metadata[AVRO_SCHEMA].startswith('{"type":"record"')
            assert file.footer.bloom is not None
            found = (file.footer.min_key, file.footer.max_key)
            assert found == {"even": ("2", "4"), "odd": ("1", "3")}[row["partition"]]


def test_codec_and_sizes(tmp_path: Path) -> None:
    small = {"hoodie.orc.max.file.size": "1", "hoodie.orc.compression.codec": "SNAPPY"}
    table = make(tmp_path / "t", options=small)
    many = pa.concat_tables([rows(list(range(100, 40_100)), 2, "x")])
    table.bulk_insert(many, options=small)
    assert table.files().num_rows > 4
    assert table.scan().count() == 40_004
    with pytest.raises(ConfigError, match=r"hoodie\.orc\.compression\.codec.*LZO"):
        table.upsert(rows([1], 3, "z"), options={"hoodie.orc.compression.codec": "LZO"})


def test_no_statistics_of_whole_partitions(tmp_path: Path) -> None:
    """Apache Hudi makes them without the base files, and so loses rows of merge-on-read tables."""
    table = make(tmp_path / "t", 9, "mor")
    assert "partition_stats" not in table.properties["hoodie.table.metadata.partitions"]
    with pytest.raises(ConfigError, match=r"bloom\.filter\.enable.*ORC.*leave the option out"):
        table.upsert(rows([1], 2, "b"), options={"hoodie.metadata.index.bloom.filter.enable": "true"})


@pytest.mark.parametrize(
    "index", cases(["SIMPLE", "BLOOM", "GLOBAL_BLOOM", "BUCKET", "RECORD_INDEX"], "orc indexes", 2)
)
def test_indexes(tmp_path: Path, index: str) -> None:
    options = index_options(index)
    table = make(tmp_path / "t", options=options)
    table.upsert(rows([2, 5], 2, "b"), options=options)
    assert texts(table) == ["a1", "a3", "a4", "b2", "b5"]
    assert texts(table, keys=["5"]) == ["b5"]


def test_columns_that_orc_cannot_hold_are_refused_before_there_is_a_table(tmp_path: Path) -> None:
    kind = pa.struct([("member0", pa.string()), ("member1", pa.int64())])
    data = pa.table({"k": [1], "ts": [1], "u": pa.array([{"member0": "x", "member1": None}], kind)})
    with pytest.raises(UnsupportedTableError, match="'u'.*union of several types.*Parquet base files"):
        hudi_py.write(str(tmp_path / "t"), data, "upsert", ORC, record_key="k", ordering_by="ts")
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    bad, good = sorted(table.files()["base_file"].to_pylist())
    place = next((tmp_path / "t").rglob(bad.rpartition("/")[2]))
    place.write_bytes(place.read_bytes()[:-50] + bytes(50))
    assert [finding.code for finding in table.doctor(full=True).findings] == ["files.corrupt"]
    assert good != bad


def test_the_format_of_a_table_stays(tmp_path: Path) -> None:
    make(tmp_path / "t")
    for key in ("hoodie.table.base.file.format", "hoodie.base.file.format"):
        with pytest.raises(ConfigError, match=r"hoodie\.table\.base\.file\.format.*PARQUET.*ORC"):
            hudi_py.write(str(tmp_path / "t"), rows([1], 2, "b"), "upsert", {key: "PARQUET"})


def test_columns_may_be_added(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    data = rows([9], 2, "n").append_column("more", pa.array([1.5]))
    table.upsert(data)
    found = table.scan().to_table().sort_by("k")
    assert found["more"].to_pylist() == [None] * 4 + [1.5]


class _Orc(HudiPy):
    options = ORC


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind"), cases([(v, k) for v in (6, 8, 9) for k in ("cow", "mor")], "orc writes", 2)
)
def test_random_writes_read_back(version: int, kind: str) -> None:
    check_writes(NewTable(kind, version), writers=(_Orc(),), examples=4, steps=8)
