"""Tables published through a catalog of pyiceberg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.interop.iceberg import publish, unpublish
from hudi_py.interop.iceberg.target import InCatalog
from hudi_py.testing.rows import assert_rows_equal
from tests.support.iceberg import without_null_structs
from tests.unit.interop.test_publish import ENABLED, KEYED, make, rows

pytest.importorskip("pyiceberg")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    found = sql.SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    found.create_namespace("lake")
    yield found
    found.destroy_tables()
    found.engine.dispose()


def assert_listed(catalog: Any, path: Path) -> None:
    expected = hudi_py.open_table(path).scan().to_table()
    found = catalog.load_table("lake.trips").scan().to_arrow()
    assert_rows_equal(without_null_structs(found), without_null_structs(expected), ignore=())


@pytest.mark.slow
def test_rows_by_turns(tmp_path: Path, catalog: Any) -> None:
    path = tmp_path / "t"
    table = make(path)
    first = publish(table, catalog, "lake.trips")
    assert first.location == catalog.load_table("lake.trips").metadata_location
    assert_listed(catalog, path)
    for ts in range(2, 4):
        table.upsert(rows(ts, 3, 2 * ts))
        report = publish(path, catalog, "lake.trips", max_snapshots=1)
        assert_listed(catalog, path)
    assert report.expired_snapshots == 1
    assert len(catalog.load_table("lake.trips").metadata.snapshots) == 1
    assert not publish(path, catalog, "lake.trips").changed
    table.compact()
    publish(path, catalog, "lake.trips")
    assert_listed(catalog, path)
    assert unpublish(table, catalog, "lake.trips") > 5
    assert not catalog.table_exists("lake.trips")
    assert [each for each in (path / "metadata").rglob("*") if each.is_file()] == []
    assert unpublish(table, catalog, "lake.trips") == 0


def test_who_comes_later_starts_again(tmp_path: Path, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = make(path)
    publish(table, catalog, "lake.trips")
    table.upsert(rows(2, 3, 2))
    commit = InCatalog.commit
    tries = []

    def overtaken(self: InCatalog, *args: Any) -> Any:
        tries.append(self)
        if len(tries) == 1:
            publish(path, catalog, "lake.trips")
        return commit(self, *args)

    monkeypatch.setattr(InCatalog, "commit", overtaken)
    assert not publish(table, catalog, "lake.trips").changed
    assert len(tries) == 2
    assert_listed(catalog, path)


def test_a_first_publication_that_fails_leaves_no_table(tmp_path: Path, catalog: Any) -> None:
    path = tmp_path / "t"
    table = make(path, "cow")
    base = next(each for each in path.rglob("*.parquet") if ".hoodie" not in each.parts)
    base.write_bytes(base.read_bytes()[:-4] + b"none")
    with pytest.raises(hudi_py.CorruptFileError):
        publish(table, catalog, "lake.trips")
    assert not catalog.table_exists("lake.trips")


def test_tables_of_others_are_refused(tmp_path: Path, catalog: Any) -> None:
    catalog.create_table("lake.trips", rows(1).schema)
    with pytest.raises(UnsupportedTableError, match=r"lake\.trips of the catalog test exists"):
        publish(make(tmp_path / "t"), catalog, "lake.trips")


def test_a_catalog_by_its_name(tmp_path: Path, catalog: Any, caplog: pytest.LogCaptureFixture) -> None:
    uri = catalog.properties["uri"]
    options = {
        **ENABLED,
        "hoodie.py.iceberg.catalog": "test",
        "hoodie.py.iceberg.table": "lake.trips",
        "hoodie.py.iceberg.catalog.properties": f"type=sql,uri={uri}",
    }
    written = hudi_py.write(tmp_path / "t", rows(1), options=options, **KEYED)
    assert written.services == ("iceberg",)
    assert_listed(catalog, tmp_path / "t")
    without = {key: value for key, value in options.items() if "properties" not in key}
    late = hudi_py.write(tmp_path / "t", rows(2), options=without)
    assert late.services == ()
    assert "Cannot open the Iceberg catalog 'test'" in caplog.text
    with pytest.raises(ConfigError, match="Cannot open the Iceberg catalog 'unknown'"):
        publish(tmp_path / "t", "unknown", "lake.trips")
