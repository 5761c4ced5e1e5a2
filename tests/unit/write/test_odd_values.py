"""Partition values and record keys of unusual characters: kept as they are, or refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError

ODD = ["a\nb", "a\rb", "a\u2028b", "a\u0085b", "\n", " a", "a ", "\x01", "\x7f", "😀", "\ufeffa", "x.marker.CREATE"]
QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
KEYS = [*ODD, "a\x00b", "\x00", "a/b", "..", "a:b", "a,b", "id:1", "__null__", "%41", "k" * 5000]
INDEXES = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}


def rows(ids: list[str], parts: list[str], v: int) -> pa.Table:
    return pa.table({"id": ids, "p": parts, "ts": [v] * len(ids), "v": [v] * len(ids)})


def make(path: Path, data: pa.Table, options: dict[str, str], kind: str = "cow", version: int = 9) -> hudi_py.Table:
    hudi_py.write(
        str(path),
        data,
        record_key="id",
        partition_by="p",
        ordering_by="ts",
        table_type=kind,
        table_version=version,
        options={**QUICK, **options},
    )
    return hudi_py.open_table(str(path))


def content(table: hudi_py.Table) -> set[tuple[str, str, int]]:
    found = hudi_py.open_table(table.uri).scan(["id", "p", "v"]).to_table().to_pylist()
    return {(row["id"], row["p"], row["v"]) for row in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "encoded", "hive"),
    [("cow", "false", "false"), ("mor", "false", "true"), ("cow", "true", "true"), ("mor", "true", "false")],
)
@pytest.mark.sampled(2)
def test_partition_values_of_any_characters(tmp_path: Path, kind: str, encoded: str, hive: str) -> None:
    options = {
        "hoodie.datasource.write.partitionpath.urlencode": encoded,
        "hoodie.datasource.write.hive_style_partitioning": hive,
    }
    ids = [str(number) for number in range(len(ODD))]
    table = make(tmp_path / "t", rows(ids, ODD, 1), options, kind)
    table.upsert(rows(ids[::2], ODD[::2], 2))
    expected = {(id, part, 1 + (at + 1) % 2) for at, (id, part) in enumerate(zip(ids, ODD, strict=True))}
    assert content(table) == expected
    table.rollback(table.upsert(rows(ids, ODD, 3)).instant)
    assert content(table) == expected
    assert table.metadata.verify().ok


@pytest.mark.parametrize(("kind", "version"), [("cow", 9), ("mor", 9), ("mor", 6)])
@pytest.mark.sampled(2)
def test_record_keys_of_any_characters(tmp_path: Path, kind: str, version: int) -> None:
    """Through bloom filters, log and delete blocks, and the record index (read back and kept by Apache Hudi 1.2.0)."""
    bloom = {"hoodie.index.type": "BLOOM"}
    parts = ["x"] * len(KEYS)
    table = make(tmp_path / "t", rows(KEYS, parts, 1), bloom | (INDEXES if version > 6 else {}), kind, version)
    table.upsert(rows(KEYS[::2], parts[::2], 2), options=bloom)
    table.delete(
        rows(KEYS[::3], parts[::3], 3), options={"hoodie.index.type": "RECORD_INDEX"} if version > 6 else bloom
    )
    expected = {(key, "x", 1 + (at + 1) % 2) for at, key in enumerate(KEYS) if at % 3}
    assert content(table) == expected
    found = hudi_py.open_table(table.uri).scan(["id"], keys=KEYS).to_table()["id"].to_pylist()
    assert sorted(found) == sorted(key for key, _, _ in expected)
    assert table.metadata.verify().ok


@pytest.mark.sampled(3)
@pytest.mark.parametrize("value", ["a\x00b", "..", "a/../b", ".x", "a//b", "a:b", "a=b", "%41", "é" * 128])
def test_a_refused_partition_value_leaves_no_instant(tmp_path: Path, value: str) -> None:
    table = make(tmp_path / "t", rows(["1"], ["x"], 1), {})
    bad = rows(["1", "2"], ["x", value], 2)
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    before = {file.name for file in timeline.iterdir()}
    with pytest.raises(ConfigError, match="of column 'p' cannot be a directory"):
        table.upsert(bad)
    assert {file.name for file in timeline.iterdir()} == before
    # the rows of a stream are not known before: its write is rolled back, and stops no other
    with pytest.raises(ConfigError, match="of column 'p' cannot be a directory"):
        table.upsert(bad.to_reader())
    table.upsert(rows(["1"], ["x"], 3))
    assert content(table) == {("1", "x", 3)}
