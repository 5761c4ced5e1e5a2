"""Golden tables published to Iceberg: its readers give the rows that a scan gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.interop.iceberg import publish
from hudi_py.testing.rows import assert_rows_equal
from tests.golden.expectations import DAMAGED, READ_DAMAGED
from tests.golden.tables import load
from tests.support.choice import cases
from tests.support.duck import Duck
from tests.support.iceberg import assert_published

pytest.importorskip("pyiceberg")

REFUSED = {
    "v6_cow_orc": "its base files are ORC",
    "v6_mor_timestamp_keygen": "column ev is int64 there and string in Iceberg",
    "v9_cow_timestamp_keygen": "column ev is int64 there and string in Iceberg",
    "v9_cow_blob": r"column payload\.type is binary there and string in Iceberg",
    "v9_cow_vector": r"column emb is fixed_size_binary\[16\] there and a list in Iceberg",
    "v9_mor_evolve_types": "column b is int32 there and double in Iceberg",
}
PUBLISHED = sorted(set(load()) - REFUSED.keys())
QUICK = ["v9_mor_ops", "v6_mor_many_logs", "v9_cow_drop_partition_columns", "v9_cow_schema_on_read"]

pytestmark = pytest.mark.filterwarnings("ignore:Rows are missing or old")


def options(name: str) -> dict[str, str]:
    return {READ_DAMAGED: "true"} if name in DAMAGED else {}


@pytest.mark.parametrize("name", cases(PUBLISHED, "iceberg", 12, quick=QUICK))
def test_pyiceberg_reads_the_same_rows(golden_copy: Callable[[str], Path], name: str) -> None:
    path = golden_copy(name)
    table = hudi_py.open_table(path, options(name))
    publish(table, base_files_only=True)
    assert_published(path, options(name), query_type="read_optimized")
    publish(table)
    assert_published(path, options(name))
    assert not publish(table).changed


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_iceberg_cannot_express_is_refused(golden_copy: Callable[[str], Path], name: str) -> None:
    path = golden_copy(name)
    with pytest.raises(hudi_py.UnsupportedTableError, match=REFUSED[name]):
        publish(path)
    assert not [each for each in (path / "metadata").rglob("*") if each.is_file()]


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    found = Duck()
    yield found
    found.close()


@pytest.mark.parametrize("name", cases(PUBLISHED, "iceberg in DuckDB", 12, quick=[]))
def test_duckdb_reads_the_same_rows(golden_copy: Callable[[str], Path], duck: Duck, name: str) -> None:
    path = golden_copy(name)
    table = hudi_py.open_table(path, options(name))
    publish(table)
    assert_rows_equal(duck.read(path), table.scan().to_table(), ignore=())


@pytest.mark.slow
def test_duckdb_reads_by_turns(tmp_path: Path, duck: Duck) -> None:
    def rows(ts: int, *numbers: int) -> list[dict[str, object]]:
        return [{"id": n, "ts": ts, "day": f"2026-01-0{n % 3}", "v": n * 1.5 + ts, "tags": [{"a": n}]} for n in numbers]

    enabled = {"hoodie.py.iceberg.enable": "true", "hoodie.clean.commits.retained": "1"}
    hudi_py.write(
        tmp_path,
        rows(1, *range(30)),
        options=enabled,
        record_key="id",
        ordering_by="ts",
        partition_by="day",
        table_type="mor",
    )
    table = hudi_py.open_table(tmp_path, enabled)
    turns: list[Callable[[], object]] = [
        lambda: table.upsert(rows(2, 1, 2, 40)),
        lambda: table.delete("id in (2, 3, 5)"),
        lambda: table.upsert(rows(1, 4)),
        table.compact,
        lambda: table.upsert(rows(3, 7, 8)),
        lambda: table.update({"v": "v + 1"}, "day = '2026-01-01'"),
        table.clean,
        lambda: table.delete_partition("2026-01-02"),
        lambda: table.alter(add={"note": pa.string()}),
    ]
    for turn in turns:
        turn()
        assert_rows_equal(duck.read(tmp_path), table.scan().to_table(), ignore=())
        assert_published(tmp_path)
