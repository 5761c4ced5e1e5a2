"""Statistics in the metadata table: record by record those of Apache Hudi, and none of them ever loses a row."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.formats.avro import decode_values
from hudi_py.formats.hfile import read_hfile
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.storage import FolderStorage, Storage, open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.view import load_view
from tests.oracle.client import Oracle
from tests.oracle.test_skipping import check
from tests.support.choice import cases, in_turn
from tests.support.statistics import (
    BUILDERS,
    FIELDS,
    Records,
    differences,
    made,
    newest,
    newest_schema,
    plain,
    remade,
    stored,
)

D = decimal.Decimal
NAN = float("nan")
KEEP = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "100",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
}
TABLES = [(kind, version) for kind in ("cow", "mor") for version in (6, 8, 9)]
UNTRUE = ("f_nan", "d_nan", "zeros", "s_long", "s_order", "added")
"""Columns whose bounds in Apache Hudi 1.2.0 lose rows: those with a NaN, zeros of one sign in logs, texts of more than
4 kB, texts whose order differs between UTF-8 and UTF-16, and columns which older files of a partition have not."""


def rows(ids: list[int], ts: int, *, shift: int = 0, extra: bool = False) -> pa.Table:
    """Rows with columns of all types."""

    def cycle(values: list[Any]) -> list[Any]:
        return [values[(number + ts) % len(values)] for number in ids]

    utc = dt.timezone.utc
    moment = dt.datetime(2024, 1, 1, 1, 2, 3, 123456, utc)
    early = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, utc)
    columns = {
        "id": pa.array([str(number) for number in ids]),
        "p": pa.array([["a", "b", "ü x"][number % 3] for number in ids]),
        "ts": pa.array([ts] * len(ids), pa.int64()),
        "b": pa.array(cycle([True, None, False]), pa.bool_()),
        "i8": pa.array(cycle([1, -3, None, 100]), pa.int8()),
        "i16": pa.array(cycle([300, -300, 5]), pa.int16()),
        "i": pa.array(cycle([7 + shift, None, -(2**31), 2**31 - 1]), pa.int32()),
        "l": pa.array(cycle([2**62, -(2**63), shift]), pa.int64()),
        "f": pa.array(cycle([0.1, None, -1.5 + shift]), pa.float32()),
        "d": pa.array(cycle([1e300, None, -1e-300, 2.5]), pa.float64()),
        "f_nan": pa.array(cycle([1.0, NAN, 3.0]), pa.float32()),
        "d_nan": pa.array(cycle([1.0, NAN, -3.0, None]), pa.float64()),
        "zeros": pa.array(cycle([0.0, -0.0]), pa.float64()),
        "inf": pa.array(cycle([float("inf"), float("-inf"), 1.0]), pa.float64()),
        "s": pa.array(cycle(["", "zebra", None, "Éa", "\U0001f600x"]), pa.string()),
        "s_order": pa.array(cycle(["\U0001f600x", "\uffee"])),
        "s_long": pa.array(cycle(["x" * 200 + str(shift), "y" * 5000, "ü" * 100])),
        "raw": pa.array(cycle([b"", b"\x00\x7f", b"abc", None]), pa.binary()),
        "d5": pa.array(cycle([D("1.25"), D("-999.99"), None, D("999.99")]), pa.decimal128(5, 2)),
        "d18": pa.array(cycle([D("1.250001"), D("-5.5"), D(0)]), pa.decimal128(18, 6)),
        "d30": pa.array(cycle([D("1.250001"), D("-123456789012345.5"), D(0)]), pa.decimal128(30, 15)),
        "d38": pa.array(cycle([D("1.25"), D("-1234567890123456789012345678.5"), D(0)]), pa.decimal128(38, 10)),
        "day": pa.array(cycle([dt.date(2024, 1, 1), dt.date(1950, 2, 3), None, dt.date(9999, 12, 31)]), pa.date32()),
        "t": pa.array(cycle([moment, early, None]), pa.timestamp("us", "UTC")),
        "ntz": pa.array(cycle([dt.datetime(2024, 1, 1, 1, 2, 3, 456), None]), pa.timestamp("us")),
        "none": pa.nulls(len(ids), pa.string()),
        "none_i": pa.nulls(len(ids), pa.int32()),
        "list": pa.array(cycle([[1, 2], None, []]), pa.list_(pa.int32())),
        "map": pa.array(cycle([[("k", 1)], None]), pa.map_(pa.string(), pa.int32())),
        "st": pa.array(
            [None if n % 4 == 3 else {"x": n + shift, "in": {"day": dt.date(2020, 1, 1 + n % 9)}} for n in ids],
            pa.struct([("x", pa.int32()), ("in", pa.struct([("day", pa.date32())]))]),
        ),
    }
    if extra:
        columns["added"] = pa.array(range(len(ids)), pa.int64())
    return pa.table(columns)


def resolved(options: dict[str, str]) -> Options:
    kept = {key: value for key, value in options.items() if key.startswith("hoodie.metadata.")}
    return Options.resolve(kept, Scope.WRITE, defaults={})


def steps(oracle: Oracle, path: str, kind: str, version: int, options: dict[str, str]) -> Iterator[str]:
    """Takes a table through its life; yields what was done."""

    def write(data: pa.Table, operation: str = "upsert", **more: str) -> None:
        oracle.write(
            path,
            data,
            operation,
            key="id",
            ordering="ts",
            partition="p",
            type=kind,
            table_version=version,
            options={**options, **more},
        )

    write(rows(list(range(12)), 1))
    yield "insert"
    write(rows([0, 1, 2, 4, 100, 101], 2, shift=10))
    yield "upsert"
    write(rows([3, 6], 3), "delete")
    yield "delete"
    if kind == "mor":
        oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')", options=options)
        yield "compaction"
    write(rows([0, 1, 2, 4], 4, shift=20))
    yield "upsert again"
    write(rows([0, 5, 200], 5, shift=30, extra=True))
    yield "evolution"
    write(rows([0, 3], 6, shift=-5, extra=True), "insert_overwrite")
    yield "overwrite"
    write(rows([9, 300, 303], 7, extra=True))
    yield "upsert behind the overwrite"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), cases(TABLES, "records of statistics", 1))
def test_records_are_those_of_apache_hudi(oracle: Oracle, tmp_path: Path, kind: str, version: int) -> None:
    path = str(tmp_path / "table")
    storage = open_storage(path)
    for done in steps(oracle, path, kind, version, KEEP):
        instant = newest(storage)
        theirs, ours = stored(storage, instant.time), remade(storage, instant, resolved(KEEP), None)
        assert len(theirs) > 20
        found = list(differences(theirs, ours, UNTRUE))
        assert not found, f"{done}: {len(found)} differences\n" + "\n".join(found[:12])


def initial_records(storage: Storage) -> Records:
    """What Apache Hudi filled the partitions of the metadata table with."""
    own = FolderStorage(storage, METADATA_TABLE)
    found: Records = {}
    for partition in FIELDS:
        for info in own.list(partition):
            if info.name.endswith(".hfile"):
                file = read_hfile(own.read(f"{partition}/{info.name}"), context=info.name)
                entries = file.scan()
                batches = decode_values(entries.values, json.loads(file.schema or "null"), None, context=info.name)
                found |= plain(partition, entries.keys.cast(pa.string()).to_pylist(), batches)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "version"), cases([("mor", 9), ("cow", 8), ("mor", 6)], "first records", 1))
def test_first_records_are_those_of_apache_hudi(oracle: Oracle, tmp_path: Path, kind: str, version: int) -> None:
    path = str(tmp_path / "table")
    storage = open_storage(path)
    off = {**KEEP, "hoodie.metadata.enable": "false"}
    for _ in steps(oracle, path, kind, version, off):
        pass
    timeline = load_timeline(storage, load_table_config(storage))
    oracle.write(path, rows([400], 8, extra=True), options=KEEP)
    theirs = initial_records(storage)
    config = load_table_config(storage)
    source = TableSource(
        storage,
        config,
        timeline,
        load_view(TableState(storage, config, timeline)),
        newest_schema(storage, timeline),
        resolved(KEEP),
    )
    ours = made(
        records
        for builder in BUILDERS
        if builder.name in config.metadata_partitions
        for records in builder.initial(source)
    )
    found = list(differences(theirs, ours, UNTRUE))
    assert not found, f"first records: {len(found)} differences\n" + "\n".join(found[:12])


def lives(path: str, kind: str, version: int) -> Iterator[str]:
    """Takes a table of our own through its life; yields what was done."""
    options = {
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "3",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.clean.automatic": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.time.generator.max_expected_clock_skew_ms": "5",
    }

    def write(data: pa.Table, operation: str = "upsert") -> None:
        hudi_py.write(
            path,
            data,
            operation,
            options,
            record_key="id",
            partition_by="p",
            ordering_by="ts",
            table_type=kind,
            table_version=version,
        )

    write(rows(list(range(12)), 1))
    yield "insert"
    write(rows([0, 1, 2, 4, 100, 101], 2, shift=10))
    write(rows([3, 6], 3), "delete")
    yield "delete"
    if kind == "mor":
        assert hudi_py.open_table(path, options).compact().instant
        yield "compaction"
    write(rows([0, 5, 200], 5, shift=30, extra=True))
    yield "evolution"
    write(rows([0, 3, 7], 6, shift=-5, extra=True), "insert_overwrite_table")
    write(rows([9, 300, 303], 7, extra=True))
    yield "overwrite"
    assert hudi_py.open_table(path, options).clean().instant
    yield "clean"


@in_turn("our statistics", 0, 2)
@pytest.mark.parametrize(("kind", "version"), cases(TABLES, "statistics of ours", 1))
def test_statistics_of_ours_lose_no_row(oracle: Oracle, tmp_path: Path, kind: str, version: int) -> None:
    path = str(tmp_path / "table")
    rnd = random.Random(f"{kind} {version}")
    pruned = 0
    for done in lives(path, kind, version):
        pruned += check(path, rnd)
        if done == "clean":  # the last step
            report = oracle.request("check", path=path, keys=1, deep=True, timeout=900)
            # Whatever the statistics say, and in files of Apache Hudi too, Spark's Parquet reader finds no NaN by its
            # value, and by the dictionary of a column no -0.0 where 0.0 is looked for.
            problems = [
                each for each in report["problems"] if not re.search(r"= nan|(_nan|zeros) [<>]= (least|greatest)", each)
            ]
            assert not problems, f"{done}: {problems[:6]}"
            assert report["ranges_compared"] > 50
            assert {"column_stats", "bloom_filters"} <= set(report["metadata_partitions"])
    assert pruned > 0


@in_turn("our statistics", 1, 2)
def test_nan_and_long_texts_are_found_by_apache_hudi(oracle: Oracle, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    for _ in lives(path, "mor", 9):
        pass
    skip = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    plain = {"hoodie.metadata.enable": "false"}
    for where in (
        "isnan(d_nan)",
        "d_nan > 1e300",
        "f_nan >= 3",
        "zeros = 0",
        "s_long > 'y'",
        "s_order >= '\\uffee'",
        "none_i is null",
    ):
        found, known = (oracle.read(path, where=where, options=options, columns=["id"]) for options in (skip, plain))
        assert known.num_rows > 0, where
        assert sorted(found["id"].to_pylist()) == sorted(known["id"].to_pylist()), where
