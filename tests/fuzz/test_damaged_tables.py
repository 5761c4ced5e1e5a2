"""A table of which one file is cut, emptied, removed or has a bit turned gives the same rows or an error of ours.

The format has nothing by which to find a completed file of the timeline that is gone (its commit is then pending), nor
a bit turned in a text of a timeline file or of `hoodie.properties`, in a value of an Avro log block or in a stripe of
an ORC file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.timeline import properties
from tests.support.choice import SEED
from tests.support.damage import Query, files_of, findable, wrong_answers

pytestmark = pytest.mark.slow  # tests/unit/read/test_damage.py has quick ones

ARCHIVED = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
NO_METADATA = {"hoodie.metadata.enable": "false"}
INDEXED = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.secondary.column": "w",
    "hoodie.index.name": "by_w",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
CHANGES = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "data_before_after"}
KINDS: dict[str, tuple[str, int, int, dict[str, str]]] = {
    "mor9": ("MERGE_ON_READ", 9, 4, {}),
    "mor6": ("MERGE_ON_READ", 6, 4, {}),
    "cow8": ("COPY_ON_WRITE", 8, 4, {"hoodie.parquet.compression.codec": "snappy"}),
    "mor9-listed": ("MERGE_ON_READ", 9, 4, NO_METADATA),
    "mor6-listed": ("MERGE_ON_READ", 6, 4, NO_METADATA),
    "cow6-listed": ("COPY_ON_WRITE", 6, 4, NO_METADATA),
    "mor9-archived": ("MERGE_ON_READ", 9, 9, ARCHIVED | NO_METADATA),
    "cow6-archived": ("COPY_ON_WRITE", 6, 9, ARCHIVED),
    "orc9": ("MERGE_ON_READ", 9, 4, {"hoodie.table.base.file.format": "ORC", **NO_METADATA}),
    "orc6": ("COPY_ON_WRITE", 6, 4, {"hoodie.table.base.file.format": "ORC"}),
    "parquet-logs": ("MERGE_ON_READ", 9, 4, {"hoodie.logfile.data.block.format": "parquet"}),
    "indexed": ("MERGE_ON_READ", 9, 4, INDEXED),
    "buckets": ("MERGE_ON_READ", 9, 4, BUCKETS),
    "hashes": ("MERGE_ON_READ", 8, 4, BUCKETS | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}),
    "by-id": ("COPY_ON_WRITE", 9, 4, {"hoodie.schema.on.read.enable": "true"}),
    "changes9": ("MERGE_ON_READ", 9, 4, CHANGES),
    "changes8": ("COPY_ON_WRITE", 8, 4, CHANGES),
    "changes6": ("COPY_ON_WRITE", 6, 4, CHANGES),
    "by-id-mor6": ("MERGE_ON_READ", 6, 4, {"hoodie.schema.on.read.enable": "true"}),
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "_PAUSE_SECONDS", 0)


def made(path: Path, kind: str) -> dict[str, bytes]:
    """The files of a table with updates in all its files, compacted, and written to once more."""
    table_type, version, writes, options = KINDS[kind]

    def rows(ids: list[str], value: int) -> pa.Table:
        parts = ["ab"[int(each[1:]) % 2] for each in ids]
        return pa.table(
            {
                "id": ids,
                "part": parts,
                "ts": [value] * len(ids),
                "v": [value] * len(ids),
                "w": [f"w{each}" for each in ids],
            }
        )

    given: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "partition_by": "part"}
    for number in range(writes):
        ids = [f"k{each}" for each in range(number, number + 4)]
        hudi_py.write(
            str(path), rows(ids, number), options=options, table_type=table_type, table_version=version, **given
        )
    if kind.startswith("by-id"):
        hudi_py.open_table(str(path), options).alter(
            rename={"w": "x"}, add={"w": pa.int32()}, drop=["v"], move={"x": "first"}
        )
    if table_type == "MERGE_ON_READ":
        hudi_py.open_table(str(path), options).compact()
        changed = rows(["k1", "k2"], 9)
        if kind.startswith("by-id"):
            altered = changed.drop_columns(["v"]).rename_columns(["id", "part", "ts", "x"])
            changed = altered.append_column("w", pa.array([9, None], pa.int32()))
        hudi_py.write(str(path), changed, options=options)
    return files_of(path)


def queries_of(path: Path, kind: str) -> list[Query]:
    """Every kind of query, with times and values of this table."""
    options = KINDS[kind][3]
    table = hudi_py.open_table(str(path), options)
    times = [row["instant"] for row in table.history().to_pylist()]
    column = "x" if kind.startswith("by-id") else "w"
    buckets = {"options": BUCKETS} if kind == "buckets" else {}
    found: list[Query] = [
        {},
        {"count": True},
        {"query_type": "read_optimized"},
        {"query_type": "incremental", "begin": "000"},
        {"filter": f"{column} = 'wk3'"},
        {"filter": f"part = 'a' AND {column} > 'wk3'", "count": True},
        {"keys": ["k1", "k4", "none"], **buckets},
        {"as_of": times[-2]},
        {"filter": "ts = 3"},
    ]
    if CHANGES.items() <= options.items():
        found.append({"query_type": "cdc", "begin": "000"})
    return found


def is_quick(path: str) -> bool:
    """Files of the table itself, its listing in the metadata table, and its archive."""
    return not path.startswith(".hoodie/metadata") or "/files/" in path


@pytest.mark.parametrize("kind", ["mor9", "mor6-listed"])
def test_one_damaged_file(tmp_path: Path, kind: str) -> None:
    files = made(tmp_path / "t", kind)
    chosen = {path: data for path, data in files.items() if is_quick(path) and "requested" not in path}
    some = dict(sorted(chosen.items())[:: 7 if kind == "mor9" else 4])
    tried, failures = wrong_answers(files, some, 1)
    assert tried > 10
    assert not list(findable(failures, files))


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_damaged_file(tmp_path: Path, kind: str, record_property: Callable[[str, object], None]) -> None:
    files = made(tmp_path / "t", kind)
    seed = zlib.crc32(SEED.encode())
    queries = queries_of(tmp_path / "t", kind)
    tried, failures = wrong_answers(files, files, 5, seed=seed, queries=queries)
    record_property("counted: damages of files", tried)
    record_property("counted: queries of damaged tables", tried * len(queries))
    assert tried > 150
    assert not list(findable(failures, files)), f"HUDI_PY_SEED={SEED}"
