"""ORC base files; what Apache Hudi wrote into some is compared by the golden table v6_cow_orc."""

from __future__ import annotations

import contextlib
import random
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.base.orc import AVRO_SCHEMA, OrcBaseFile
from hudi_py.formats.base.orc_writer import tail_with_pairs
from hudi_py.formats.base.reader import BaseFileFooter
from hudi_py.storage import open_storage

AT = datetime(2024, 7, 1, 12, 0, 0, 654)
KIND = pa.struct([("t", pa.timestamp("ns")), ("n", pa.int32())])
TABLE = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "t": pa.array([None, AT] * 500, pa.timestamp("ns")),
        "s": pa.array([None, {"t": AT, "n": 1}, {"t": None, "n": None}, {"t": AT, "n": 2}] * 250, KIND),
        "l": pa.array([None, [{"t": AT, "n": 1}, None], [], [None]] * 250, pa.list_(KIND)),
        "m": pa.array([None, [("k", {"t": AT, "n": 1})], [], [("j", None)]] * 250, pa.map_(pa.string(), KIND)),
        "d": pa.array([None, 1, 2, 3] * 250, pa.decimal128(30, 2)),
    }
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    orc.write_table(TABLE, str(tmp_path / "a.orc"), stripe_size=4096, batch_size=100)
    return str(tmp_path)


def read(folder: str, **arguments: Any) -> pa.Table:
    zone, columns = arguments.pop("zone", "UTC"), arguments.pop("columns", None)
    with OrcBaseFile(open_storage(folder), "a.orc", zone) as file:
        return pa.Table.from_batches(file.batches(columns, **arguments))


def footer(folder: str) -> BaseFileFooter:
    with OrcBaseFile(open_storage(folder), "a.orc") as file:
        return file.footer


def test_types_are_those_of_the_parquet_reader(file: str) -> None:
    at = pa.timestamp("us", "UTC")
    inside = pa.struct([("t", at), ("n", pa.int32())])
    rows = read(file)
    assert rows.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("t", at),
            ("s", inside),
            ("l", pa.list_(pa.field("element", inside))),
            ("m", pa.map_(pa.string(), inside)),
            ("d", pa.decimal128(30, 2)),
        ]
    )
    assert footer(file).schema == rows.schema
    aware = AT.replace(tzinfo=timezone.utc)
    assert rows["t"].to_pylist() == [None, aware] * 500
    assert rows["s"].to_pylist()[:2] == [None, {"t": aware, "n": 1}]
    assert rows["l"].to_pylist()[:4] == [None, [{"t": aware, "n": 1}, None], [], [None]]
    assert rows["m"].to_pylist()[:4] == [None, [("k", {"t": aware, "n": 1})], [], [("j", None)]]
    assert rows["d"].to_pylist() == TABLE["d"].to_pylist()


def test_projection_stripes_and_counts(file: str) -> None:
    with OrcBaseFile(open_storage(file), "a.orc") as opened:
        sizes = opened.row_group_sizes()
        assert len(sizes) == opened.footer.num_row_groups > 2
        assert opened.footer.num_rows == 1000
        assert max(batch.num_rows for batch in opened.batches(None, batch_rows=64)) == 64
    assert read(file, columns=["d", "no such", "id"], batch_rows=64).schema.names == ["d", "id"]
    parts = [read(file, columns=["id"], row_groups=[stripe]) for stripe in range(len(sizes))]
    assert pa.concat_tables(parts)["id"].to_pylist() == list(range(1000))
    for stripes in (None, [0], list(range(len(sizes)))):
        assert read(file, columns=["no such"], row_groups=stripes).num_rows == (
            len(parts[0]) if stripes == [0] else 1000
        )


def test_timestamps_are_wall_clock_times_of_the_zone(file: str) -> None:
    rows = read(file, zone="Europe/Berlin")
    expected = datetime(2024, 7, 1, 10, 0, 0, 654, timezone.utc)
    assert rows["t"][1].as_py() == expected
    assert rows["s"][1].as_py() == {"t": expected, "n": 1}
    assert rows["l"][1].as_py()[0]["t"] == expected


def test_damage_is_an_error(file: str) -> None:
    path = Path(file) / "a.orc"
    data = path.read_bytes()
    for damaged in (b"", b"ORC", data[:-40], data[: len(data) // 2], b"\0" * 200):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match=r"a\.orc"):
            footer(file)
    rnd = random.Random(3)
    for _ in range(60):
        mutated = bytearray(data)
        for _ in range(4):
            mutated[rnd.randrange(len(data))] = rnd.randrange(256)
        path.write_bytes(mutated)
        with contextlib.suppress(CorruptFileError, UnsupportedTableError):
            read(file)


def test_a_damaged_name_of_a_column_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
    for name in ("id", "ie"):  # one bit apart
        orc.write_table(pa.table({name: [1]}), str(path))
        data = path.read_bytes()
        path.write_bytes(data[: -1 - data[-1]] + tail_with_pairs(data, {AVRO_SCHEMA: schema}, "a.orc"))
        if name == "id":
            assert read(str(tmp_path)).to_pydict() == {"id": [1]}
            continue
        with pytest.raises(CorruptFileError, match=r"a\.orc: its footer names the columns ie, but its Avro schema id"):
            read(str(tmp_path))


def test_a_timestamp_beyond_nanoseconds(tmp_path: Path) -> None:
    orc.write_table(pa.table({"t": pa.array([datetime(9999, 1, 1)], pa.timestamp("us"))}), str(tmp_path / "a.orc"))
    with pytest.raises(UnsupportedTableError, match="1678 to 2262"):
        read(str(tmp_path))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        footer(str(tmp_path))
