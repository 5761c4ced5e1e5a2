"""Tables in a real Hive metastore, and in moto's AWS Glue."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, HudiError
from hudi_py.interop.catalogs import CatalogError, sync
from hudi_py.interop.catalogs.entry import Catalog
from hudi_py.interop.catalogs.glue import GlueCatalog
from hudi_py.interop.catalogs.hive_metastore import HiveMetastore
from tests.stores import servers
from tests.stores.servers import Server
from tests.support.catalogs import FAST, HIVE

KEYS = {"record_key": "id", "ordering_by": "ts", "partition_by": "city,day", "table_type": "mor"}
ROWS = [
    {"id": n, "ts": 1, "city": city, "day": f"2026-01-0{n}"} for n, city in enumerate(("oslo", "lima", "new york"), 1)
]


@pytest.fixture(scope="session")
def metastore() -> Iterator[str]:
    pytest.importorskip("thrift")
    with servers.hive_metastore() as address:
        yield address


@pytest.fixture
def hive(metastore: str) -> dict[str, str]:
    """Options for a database of its own."""
    return {f"{HIVE}metastore.uris": f"thrift://127.0.0.1:9,{metastore}", f"{HIVE}database": _database()}


@pytest.fixture
def glue(moto: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.SECRET)
    return {
        f"{HIVE}mode": "glue",
        "hoodie.datasource.meta.sync.glue.database_name": _database(),
        "hoodie.aws.glue.endpoint": moto.url,
        "hoodie.aws.glue.region": servers.REGION,
    }


def _database() -> str:
    return f"db_{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=[pytest.param("hive", marks=pytest.mark.slow), "glue"])
def options(request: pytest.FixtureRequest) -> dict[str, str]:
    return {**FAST, "hoodie.datasource.write.hive_style_partitioning": "true", **request.getfixturevalue(request.param)}


def opened(options: dict[str, str]) -> Catalog:
    resolved = Options.resolve(options, Scope.WRITE)
    if f"{HIVE}mode" in options:
        return GlueCatalog(resolved, options["hoodie.datasource.meta.sync.glue.database_name"])
    addresses = options[f"{HIVE}metastore.uris"].split(",")
    return HiveMetastore(addresses, options[f"{HIVE}database"], batch=2)


def test_from_the_first_commit_on(options: dict[str, str], tmp_path: Path) -> None:
    """Entries and partitions, as they follow commits; what others have added to them stays."""
    path = tmp_path / "trips"
    enabled = {**options, f"{HIVE}enable": "true"}
    result = hudi_py.write(path, ROWS, options=enabled, **KEYS)
    catalog = opened(options)
    name = catalog.name
    assert result.services == (f"sync {name}",)
    stored = {each: catalog.table(each) for each in ("trips", "trips_ro", "trips_rt")}
    assert catalog.table("other") is None
    for each, found in stored.items():
        assert found is not None
        entry = found.entry
        assert [column.name for column in entry.partition_columns] == ["city", "day"]
        assert [column.type for column in entry.columns[5:]] == ["bigint", "bigint"]
        assert entry.parameters["last_commit_time_sync"] == result.instant
        assert entry.parameters["EXTERNAL"] == "TRUE"
        assert entry.parameters.get("hudi_writer_version") == ("1.2.0" if name == "hms" else None)
        assert entry.parameters.get("hudi.metadata-listing-enabled") == ("FALSE" if name == "glue" else None)
        assert entry.serde_parameters["hoodie.query.as.ro.table"] == str(each == "trips_ro").lower()
    known = catalog.partitions("trips")
    assert set(known) == {(row["city"], row["day"]) for row in ROWS}
    assert known["oslo", "2026-01-01"].endswith("/trips/city=oslo/day=2026-01-01")

    before = stored["trips"]
    assert before is not None
    noted = {**before.entry.parameters, "note": "mine"}
    catalog.alter(before, replace(before.entry, parameters=noted), cascade=False)
    more = [{"id": 9, "ts": 1, "city": "rome", "day": "2026-02-01", "fare": 1.5}]
    hudi_py.write(path, more, options=enabled)
    hudi_py.open_table(path, enabled).delete_partition("city=lima/day=2026-01-02")
    after = catalog.table("trips")
    assert after is not None
    assert after.entry.parameters["note"] == "mine"
    assert [column.type for column in after.entry.columns[5:]] == ["bigint", "bigint", "double"]
    assert ("rome", "2026-02-01") in catalog.partitions("trips_ro")
    assert ("lima", "2026-01-02") not in catalog.partitions("trips_ro")

    catalog.change_partitions(after, {("rome", "2026-02-01"): "file:///elsewhere"})
    table = hudi_py.open_table(path, options)
    whole = {"hoodie.meta.sync.incremental": "false"}
    assert [each.partitions_changed for each in sync(table, options=whole).entries] == [0, 0, 1]
    assert catalog.partitions("trips")["rome", "2026-02-01"].endswith("/city=rome/day=2026-02-01")
    catalog.drop_partitions("trips", [("rome", "2026-02-01"), ("never", "2026-02-01")])
    catalog.drop("trips_rt")
    catalog.drop("trips_rt")
    assert [each.done for each in sync(table).entries] == ["unchanged", "created", "unchanged"]
    catalog.close()


def test_the_tables_of_a_catalog_are_cared_for(options: dict[str, str], tmp_path: Path) -> None:
    """Each once, whatever it has of entries; what an entry says of services counts."""
    enabled = {**options, f"{HIVE}enable": "true"}
    for name in ("trips", "rides"):
        for _ in range(6):
            hudi_py.write(tmp_path / name, ROWS, options=enabled, **KEYS)
    catalog = opened(options)
    stored = catalog.table("rides_ro")
    assert stored is not None
    more = {**stored.entry.parameters, "hoodie.compact.inline.max.delta.commits": "50"}
    catalog.alter(stored, replace(stored.entry, parameters=more), cascade=False)
    database = options.get(f"{HIVE}database") or options["hoodie.datasource.meta.sync.glue.database_name"]
    report = hudi_py.tend(f"{catalog.name}:{database}", options)
    assert {table.name: [each.service for each in table.of("done")] for table in report.tables} == {
        "trips": ["compaction"],
        "rides": [],
    }
    found = {table.name for table in hudi_py.tend(f"{catalog.name}:", options, dry_run=True).tables}
    assert {"trips", "rides"} <= found
    with pytest.raises(HudiError):
        hudi_py.tend(f"{catalog.name}:nowhere", options)


@pytest.mark.slow
def test_types_that_a_hive_metastore_refuses(hive: dict[str, str], tmp_path: Path) -> None:
    path, options = tmp_path / "t", {**FAST, **hive}
    hudi_py.write(path, [{"id": 1, "v": {"a": 1}}], options=options, record_key="id")
    sync(path, options=options)
    other = tmp_path / "other" / "t"
    hudi_py.write(other, [{"id": 1, "v": 1}], options=options, record_key="id")
    other.rename(tmp_path / "new")
    path.rename(tmp_path / "old")
    (tmp_path / "new").rename(path)
    with pytest.raises(CatalogError, match=r"refuses the columns of the table .*recreate_table_on_error=true"):
        sync(path, options=options)
    assert sync(path, options={**options, f"{HIVE}recreate_table_on_error": "true"}).entries[0].done == "created"


def test_what_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("thrift")
    hudi_py.write(tmp_path / "t", [{"id": 1}], options=FAST, record_key="id")
    with pytest.raises(CatalogError, match=r"Cannot reach the Hive metastore at thrift://127\.0\.0\.1:9 .*: start it"):
        sync(tmp_path / "t", "hms", options={f"{HIVE}metastore.uris": "thrift://127.0.0.1:9"})
    for wrong in ("http://h:1", "thrift://h", "thrift://h:x"):
        with pytest.raises(ConfigError, match="expected thrift://host:port"):
            sync(tmp_path / "t", "hms", options={f"{HIVE}metastore.uris": wrong})
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "none")
    with pytest.raises(ConfigError, match="without a region"):
        sync(tmp_path / "t", "glue")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.SECRET)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    nowhere = {"hoodie.aws.glue.endpoint": "http://127.0.0.1:9", "hoodie.aws.glue.region": "us-east-1"}
    with pytest.raises(CatalogError, match="cannot be reached for get_database .*; check credentials"):
        sync(tmp_path / "t", "glue", options=nowhere)


BY_NAME = """
import sys
from pyspark.sql import SparkSession
from pyspark_hudi import enable

settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.hive.metastore.uris": sys.argv[1],
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
enable(spark)
query = "SELECT t.id, t.v, o.v AS old FROM {0}.t AS t JOIN {0}.t_ro o ON t.id = o.id ORDER BY 1"
print("rows", [tuple(row) for row in spark.sql(query.format(sys.argv[2])).collect()])
print("rows", sorted(row["v"] for row in spark.table(sys.argv[2] + ".t_rt").collect()))
sync = {
    "hoodie.datasource.hive_sync.enable": "true",
    "hoodie.datasource.hive_sync.metastore.uris": sys.argv[1],
    "hoodie.datasource.hive_sync.database": sys.argv[2],
}
new = spark.createDataFrame([(2, 1, "c", 2, "new")], "id long, ts long, p string, v long, note string")
new.write.format("hudi-py").options(**sync).mode("append").save(sys.argv[3])
spark.sql("UPDATE " + sys.argv[2] + ".t SET note = 'old', ts = 9 WHERE id = 0")
print("rows", sorted(map(tuple, spark.table(sys.argv[2] + ".t").select("id", "p", "note").collect())))
spark.stop()
"""


@pytest.mark.slow
def test_spark_reads_by_name(hive: dict[str, str], tmp_path: Path) -> None:
    """PySpark without a jar of Apache Hudi, its catalog the metastore: path and options are those of the entries."""
    options = {**FAST, **hive, f"{HIVE}enable": "true"}
    keys = {"record_key": "id", "ordering_by": "ts", "partition_by": "p", "table_type": "mor"}
    hudi_py.write(tmp_path / "t", [{"id": n, "ts": 1, "p": "ab"[n], "v": n} for n in (0, 1)], options=options, **keys)
    hudi_py.write(tmp_path / "t", [{"id": 1, "ts": 2, "p": "b", "v": 10}], options=options)
    address, database = hive[f"{HIVE}metastore.uris"].split(",")[1], hive[f"{HIVE}database"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BY_NAME, address, database, str(tmp_path / "t")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("rows")]
    assert lines == [
        "rows [(0, 0, 0), (1, 10, 1)]",
        "rows [0, 10]",
        "rows [(0, 'a', 'old'), (1, 'b', None), (2, 'c', 'new')]",
    ], done.stderr[-3000:]
    with contextlib.closing(HiveMetastore([address], database, batch=2)) as catalog:
        assert set(catalog.partitions("t_ro")) == {("a",), ("b",), ("c",)}
