"""Reading, exporting, writing and changing rows."""

from __future__ import annotations

import io
import json
import math
import tracemalloc
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.cli.export import json_rows
from hudi_py.cli.intake import read_rows
from tests.golden.tables import Extracted
from tests.support.sources import source
from tests.unit.cli.conftest import OPTIONS, Run

KEYS = ("--record-key", "id", "--partition-by", "city", "--ordering-by", "ts")


def ids(path: Path) -> list[str]:
    return sorted(hudi_py.open_table(path).scan("id").to_table()["id"].to_pylist())


def test_read(cli: Run, made: Path) -> None:
    text = cli("read", made, "-c", "id,fare", "-f", "city = 'lima' AND fare < 5").out
    assert text == "id  fare\n1    1.5\n3    4.5\n"
    assert list(cli("read", made, "--json", "-n", 1).lines[0]) == ["id", "ts", "city", "fare", "note"]
    assert "_hoodie_record_key" in cli("read", made, "--json", "--meta").lines[0]
    assert {row["id"] for row in cli("read", made, "-k", "3,4", "--json").lines} == {"3", "4"}
    assert {row["id"] for row in cli("read", made, "--incremental", "--json").lines} == set("456789")
    assert cli("read", made, "-p", "oslo", "--read-optimized", "--json").lines[-1]["ts"] == 0
    times = hudi_py.open_table(made).history()["instant"].to_pylist()
    assert {row["ts"] for row in cli("read", made, "--as-of", times[0], "--json").lines} == {0}


def test_changes(cli: Run, golden: Extracted) -> None:
    changes = cli("read", golden("v9_cow_cdc_before_after"), "--cdc", "--begin", "earliest", "--json").lines
    assert {row["op"] for row in changes} == {"i", "u", "d"}
    assert list(changes[0]) == ["op", "ts_ms", "before", "after"]


def test_a_terminal_shows_twenty_rows(cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hudi_py.write(tmp_path / "t", [{"id": n} for n in range(30)], record_key="id")
    for key, value in {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": "80", "LINES": "50"}.items():
        monkeypatch.setenv(key, value)
    text = cli("read", tmp_path / "t").out
    assert "The first 20 rows" in text
    assert len(text.splitlines()) == 23
    assert "The first" not in cli("read", tmp_path / "t", "-n", 30).out
    monkeypatch.setenv("FORCE_COLOR", "")
    monkeypatch.delenv("FORCE_COLOR")
    assert len(cli("read", tmp_path / "t").out.splitlines()) == 31


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "arrow"])
def test_rows_go_out_and_come_back(form: str, cli: Run, made: Path, tmp_path: Path) -> None:
    rows = hudi_py.open_table(made).scan(["id", "ts", "city", "fare", "note"]).to_table()
    file, copy = tmp_path / f"rows.{form}", tmp_path / "copy"
    assert "10 rows written" in cli("read", made, "--output", file).err
    assert not list(tmp_path.glob("*.part"))
    done = cli("write", copy, file, *KEYS, "--type", "mor", "--table-version", 8, "--json")
    assert (done.json["num_inserted"], done.json["operation"]) == (10, "upsert")
    table = hudi_py.open_table(copy)
    assert (table.version, table.table_type) == (8, "MERGE_ON_READ")
    if form == "csv":  # without a table, its types are guessed
        assert table.scan().count() == 10
        return
    assert table.scan(rows.schema.names).to_table().sort_by("id") == rows.sort_by("id")


def test_members_that_may_not_be_null_in_structs_that_are(cli: Run, tmp_path: Path) -> None:
    place = pa.struct([pa.field("city", pa.string(), nullable=False), pa.field("floor", pa.int32())])
    rows = pa.table({"id": [1, 2], "place": pa.array([{"city": "rome", "floor": 1}, None], place)})
    hudi_py.write(tmp_path / "t", rows, record_key="id")
    cli("read", tmp_path / "t", "--output", tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").select(rows.schema.names).to_pylist() == rows.to_pylist()


def test_text_is_read_in_the_types_of_the_table(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = pa.schema({"id": pa.string(), "at": pa.date32(), "price": pa.decimal128(9, 2), "n": pa.int32()})
    hudi_py.create_table(path, schema, record_key="id")
    csv, lines = b"id,at,price,n\n007,2026-01-31,1.50,\n", b'{"id": "8", "price": "2.25"}\n'
    cli("write", path, "-", "--from", "csv", input=csv)
    cli("write", path, "-", "--from", "json", input=lines)
    rows = hudi_py.open_table(path).scan(schema.names).to_table().sort_by("id").to_pylist()
    assert rows == [
        {"id": "007", "at": date(2026, 1, 31), "price": Decimal("1.50"), "n": None},
        {"id": "8", "at": None, "price": Decimal("2.25"), "n": None},
    ]
    refused = cli("write", path, "-", "--from", "csv", input=b"id,n\n1,many\n", code=2)
    assert "Cannot read standard input as csv" in refused.err


def test_what_a_number_would_change_stays_text(caplog: pytest.LogCaptureFixture) -> None:
    columns = {
        "zip": ["00123", "7"],
        "plus": ["+7", "8"],
        "long": ["9223372036854775808", "1"],
        "sum": ["12345678901234567.89", "0.5"],
        "huge": ["1e400", "2"],
        "id": ["-9223372036854775808", "0"],
        "x": ["0.30000000000000004", "-0.5"],
        "whole": ["123456789012345", "1.5"],
        "special": ["NaN", "-inf"],
        "note": ["two\nlines", ""],
    }
    lines = [
        ",".join(columns),
        *(",".join(f'"{value}"' for value in row) for row in zip(*columns.values(), strict=True)),
    ]
    rows = read_rows(io.BytesIO("\n".join(lines).encode()), "csv", None, "a file")
    kinds = {field.name: str(field.type) for field in rows.schema}
    texts = dict.fromkeys(("zip", "plus", "long", "sum", "huge", "note"), "string")
    assert kinds == {**dict.fromkeys(columns, "double"), **texts, "id": "int64"}
    assert {name: rows.column(name).to_pylist() for name in list(columns)[:5]} == dict(list(columns.items())[:5])
    assert rows.column("note").to_pylist() == ["two\nlines", None]
    assert "column zip is read as text: as a number, '00123' would change" in caplog.text
    known = pa.schema({"zip": pa.int64()})
    assert read_rows(io.BytesIO(b"zip\n00123\n"), "csv", known, "a file").column("zip").to_pylist() == [123]


def test_json_values() -> None:
    batch = pa.record_batch(
        {
            "f": pa.array([math.nan, -math.inf, None]),
            "at": pa.array([datetime(2026, 1, 2, 3, tzinfo=timezone.utc)] * 3, pa.timestamp("us", "Asia/Tokyo")),
            "m": pa.array([[("a", Decimal("1.5"))], [], None], pa.map_(pa.string(), pa.decimal128(5, 1))),
            "s": pa.array([{"b": b"\x00\xff", "l": [1.0, math.inf]}, None, {"b": None, "l": None}]),
        }
    )
    first, second, third = map(json.loads, (json.dumps(row, allow_nan=False) for row in json_rows(batch)))
    assert first == {
        "f": "NaN",
        "at": "2026-01-02T03:00:00Z",
        "m": {"a": "1.5"},
        "s": {"b": "AP8=", "l": [1.0, "Infinity"]},
    }
    assert (second["f"], second["m"], second["s"]) == ("-Infinity", {}, None)
    assert (third["f"], third["m"], third["s"]) == (None, None, {"b": None, "l": None})


def test_csv_of_nested_values(cli: Run, tmp_path: Path) -> None:
    hudi_py.write(tmp_path / "t", [{"id": 1, "tags": ["a", "b"], "raw": b"\x01"}], record_key="id")
    assert cli("read", tmp_path / "t", "--to", "csv").out.splitlines()[1] == '1,"[""a"", ""b""]","AQ=="'


def test_binary_formats_on_standard_output(cli: Run, made: Path) -> None:
    from click.testing import CliRunner

    from hudi_py.cli.main import main

    raw = CliRunner().invoke(main, ["read", str(made), "--to", "parquet"]).stdout_bytes
    assert pq.read_table(io.BytesIO(raw)).num_rows == 10
    raw = CliRunner().invoke(main, ["read", str(made), "--to", "arrow"]).stdout_bytes
    assert pa.ipc.open_stream(raw).read_all().num_rows == 10


def test_delete_and_update(cli: Run, trips: Path) -> None:
    quick = [text for pair in OPTIONS.items() for text in ("-o", "=".join(pair))]
    assert "3 rows would be deleted" in cli("delete", trips, "--where", "fare > 10", "--dry-run").out
    assert cli("delete", trips, "--where", "fare > 10", "--yes", "--json", *quick).json["num_deleted"] == 3
    assert cli("delete", trips, "--keys", "0,1", "--yes", *quick).out.startswith("Delete 20")
    assert ids(trips) == list("234567")[:5]
    assert cli("update", trips, "--set", "fare=fare + 1", "--where", "id = '4'", "--dry-run", "--json").json == {
        "dry_run": True,
        "num_updated": 1,
    }
    done = cli("update", trips, "--set", "fare=fare + 1", "--set", "note='y'", "--where", "id = '4'", *quick)
    assert "1 updated" in done.out
    assert cli("read", trips, "-k", "4", "-c", "fare,note", "--json").lines == [{"fare": 7.0, "note": "y"}]
    cli("delete", trips, "-p", "lima", "--yes", *quick)
    assert ids(trips) == ["2", "4", "6"]


def test_what_was_mistyped_is_code_2(cli: Run, trips: Path) -> None:
    assert "give a condition as --where \"city = 'oslo'\"" in cli("delete", trips, "city = 'oslo'", code=2).err
    assert "give a condition as --filter" in cli("read", trips, "city = 'oslo'", code=2).err
    assert "did you mean 'city'?" in cli("read", trips, "--columns", "ciity", code=2).err
    assert "did you mean 'city'?" in cli("delete", trips, "--where", "ciity = 'oslo'", "--yes", code=2).err


def test_floats_of_32_bits_print_as_they_were_written(cli: Run, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "f": pa.array([0.1, float("inf")], pa.float32())})
    hudi_py.write(tmp_path / "t", rows, record_key="id")
    assert [row["f"] for row in cli("read", tmp_path / "t", "--json").lines] == [0.1, "Infinity"]


def test_sql(cli: Run, made: Path) -> None:
    pytest.importorskip("duckdb")
    query = "SELECT a.city, count(*) AS n FROM a JOIN b USING (id) GROUP BY ALL ORDER BY 1"
    assert cli("sql", query, "-t", f"a={made}", "-t", f"b={made}").out == "city  n\nlima  5\noslo  5\n"
    assert cli("sql", "SELECT max(fare) AS m FROM t", "-t", made, "--json").lines == [{"m": 13.5}]
    assert len(cli("sql", "FROM t", "-t", made, "--json").lines[0]) == 10
    assert "syntax error" in cli("sql", "SELEC", "-t", made, code=2).err
    assert "have the name t" in cli("sql", "FROM t", "-t", made, "-t", made, code=2).err


def test_rows_of_a_parquet_file_leave_the_memory_once_they_are_read(tmp_path: Path) -> None:
    rows = pa.table({"id": np.random.default_rng(1).integers(0, 1 << 60, 1 << 20)})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=1 << 16, compression="none", use_dictionary=False)
    most = count = 0
    tracemalloc.start()  # Arrow gets what it reads from a file of Python as objects of Python
    try:
        with (tmp_path / "rows.parquet").open("rb") as file:
            for batch in read_rows(file, "parquet", None, "rows.parquet"):
                count += batch.num_rows
                most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert count == rows.num_rows
    assert most < rows.nbytes // 2


def test_bootstrap(cli: Run, tmp_path: Path) -> None:
    folder = source(tmp_path / "source", "hive")
    done = cli("bootstrap", tmp_path / "t", folder, *KEYS, "--type", "mor", "--regex", ".*oslo")
    assert done.out.startswith("Bootstrap 00000000000002: 12 inserted\n2 files")
    assert ids(tmp_path / "t") == sorted(f"k{number}" for number in range(12))
    assert hudi_py.open_table(tmp_path / "t").table_type == "MERGE_ON_READ"
    assert "there is one already" in cli("bootstrap", tmp_path / "t", folder, *KEYS, code=1).err
