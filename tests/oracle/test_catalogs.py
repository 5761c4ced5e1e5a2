"""What Apache Hudi's own synchronisation registers, tells and measures, against ours; and whether its Spark reads ours.

Both use one Hive metastore, with the service of PySpark's jars.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.interop.catalogs import sync
from hudi_py.interop.catalogs.hive_metastore import HiveMetastore
from tests.oracle.client import Oracle
from tests.oracle.conftest import started
from tests.oracle.environment import default_version
from tests.stores import servers
from tests.support.answering import Handler, listening
from tests.support.catalogs import FAST, HIVE

pytestmark = [pytest.mark.oracle, pytest.mark.nightly]
pytest.importorskip("thrift")

CALLBACK = "hoodie.write.commit.callback."
METRICS = "hoodie.metrics."
NAMES = {"flat": ("flat",), "simple": ("simple",), "styled": ("styled", "styled_ro", "styled_rt")}
TABLES = {
    "flat": {"type": "cow", "partition": ""},
    "simple": {"type": "cow", "partition": "city"},
    "styled": {"type": "mor", "partition": "city,day"},
}
_OF_TIME = re.compile(r"transient_lastDdlTime|numFiles|totalSize|createTime")


def rows() -> pa.Table:
    utc = datetime.timezone.utc
    inner = pa.struct([("Big", pa.int64()), ("in_ner", pa.list_(pa.struct([("z", pa.string())])))])
    return pa.table(
        {
            "id": ["a", "b", "c"],
            "ts": pa.array([1, 1, 1], pa.int64()),
            "city": ["oslo", "lima", "oslo"],
            "day": pa.array([datetime.date(2026, 1, day) for day in (1, 2, 3)]),
            "price": pa.array([decimal.Decimal("1.50")] * 3, pa.decimal128(12, 2)),
            "at": pa.array([datetime.datetime(2026, 1, 1, tzinfo=utc)] * 3, pa.timestamp("us", "UTC")),
            "n": pa.array([1, 2, 3], pa.int32()),
            "ok": [True, False, None],
            "raw": [b"x"] * 3,
            "st": pa.array(
                [{"Big": 1, "in_ner": [{"z": "q"}]}] * 3, pa.struct([("Big", pa.int64()), ("in_ner", pa.list_(inner))])
            ),
            "m": pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int32())),
            "Upper": ["x"] * 3,
        }
    )


@pytest.fixture(scope="module")
def metastore() -> Iterator[str]:
    with servers.hive_metastore() as address:
        yield address


@pytest.fixture(scope="module")
def hive_oracle(metastore: str) -> Iterator[Oracle]:
    """Apache Hudi with that metastore as Spark's catalog."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "HUDI_ORACLE_CONF",
            f"spark.sql.catalogImplementation=hive;spark.hadoop.hive.metastore.uris={metastore}",
        )
        for client in started(default_version()):
            client.request("version")
            yield client


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Takes callbacks and metrics: method, path, body."""
    got: list[tuple[str, str, str]] = []

    class Taking(Handler):
        def respond(self) -> None:
            got.append((self.command, self.path, self.body().decode()))
            self.answer(202)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return super().body()
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

    with listening(Taking) as url:
        yield url, got


def telling(url: str) -> dict[str, str]:
    port = url.rpartition(":")[2]
    return {
        f"{CALLBACK}on": "true",
        f"{CALLBACK}http.url": f"{url}/hook",
        f"{METRICS}on": "true",
        f"{METRICS}reporter.type": "PROMETHEUS_PUSHGATEWAY",
        f"{METRICS}pushgateway.host": "127.0.0.1",
        f"{METRICS}pushgateway.port": port,
        f"{METRICS}pushgateway.job.name": "job",
        f"{METRICS}pushgateway.random.job.name.suffix": "false",
        f"{METRICS}pushgateway.delete.on.shutdown": "false",
        f"{METRICS}reporter.metricsname.prefix": "lake",
    }


def plain(value: Any) -> Any:
    """An entry without times and places of storage, other than their paths."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if not _OF_TIME.fullmatch(key) and key != "dbName"}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return re.sub(r"^file:/+", "/", value) if isinstance(value, str) else value


def entries(metastore: str, database: str, name: str) -> tuple[Any, Any]:
    catalog = HiveMetastore([metastore], database)
    stored = catalog.table(name)
    assert stored is not None
    partitions = catalog._call("get_partitions", db_name=database, tbl_name=name, max_parts=-1)
    catalog.close()
    return plain(stored.raw), sorted(plain(partitions), key=lambda each: each["values"])


def test_entries_messages_and_metrics_are_the_same(
    hive_oracle: Oracle, metastore: str, told: tuple[str, list[tuple[str, str, str]]], tmp_path: Path
) -> None:
    url, got = told
    address = {f"{HIVE}metastore.uris": metastore, f"{HIVE}mode": "hms"}
    theirs = {**address, f"{HIVE}enable": "true", f"{HIVE}database": "theirs", **telling(url)}
    for name, how in TABLES.items():
        styled = {"hoodie.datasource.write.hive_style_partitioning": str(name == "styled").lower()}
        place = tmp_path / name
        hive_oracle.write(place, rows(), name=name, key="id", ordering="ts", options={**theirs, **styled}, **how)
    message, measured = told_of(got)
    got.clear()
    version = hive_oracle.request("version")["spark"]
    ours = {**address, f"{HIVE}database": "ours", "hoodie.meta_sync.spark.version": version}
    for name, registered in NAMES.items():
        report = sync(tmp_path / name, options=ours)
        assert {each.name for each in report.entries} == {f"ours.{each}" for each in registered}
        for each in registered:
            assert entries(metastore, "ours", each) == entries(metastore, "theirs", each)

    hudi_py.write(tmp_path / "simple", rows(), options={**FAST, **telling(url)})
    own_message, own_measured = told_of(got)
    assert own_message.keys() == message.keys()
    assert own_message["hoodieWriteStat"][0].keys() == message["hoodieWriteStat"][0].keys()
    of_commits = {name for name in own_measured if "_commit_" in name and not name.endswith("Instant")}
    assert of_commits <= measured
    assert {"lake_commit_duration", "lake_commit_totalRecordsWritten"} <= own_measured


def told_of(got: list[tuple[str, str, str]]) -> tuple[dict[str, Any], set[str]]:
    """The first message, and the names of all metrics."""
    messages = [json.loads(body) for _, path, body in got if path == "/hook"]
    lines = [line for _, path, body in got if path.startswith("/metrics/job/job") for line in body.splitlines()]
    return messages[0], {re.split(r"[ {]", line)[0] for line in lines if line and not line.startswith("#")}


def test_its_spark_reads_by_name_what_we_register(hive_oracle: Oracle, metastore: str, tmp_path: Path) -> None:
    options = {
        **FAST,
        f"{HIVE}enable": "true",
        f"{HIVE}metastore.uris": metastore,
        f"{HIVE}database": "named",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    path = tmp_path / "trips"
    keys = {"record_key": "id", "ordering_by": "ts", "partition_by": "city", "table_type": "mor"}
    hudi_py.write(path, rows(), options=options, **keys)
    changed = rows().slice(0, 1).set_column(1, "ts", pa.array([2])).append_column("fare", pa.array([9.5]))
    result = hudi_py.write(path, changed, options=options)
    assert "sync hms" in result.services

    def fares(name: str) -> list[tuple[Any, ...]]:
        found = hive_oracle.sql(f"SELECT id, city, fare FROM named.{name} WHERE city = 'oslo' ORDER BY id")
        return [tuple(each.values()) for each in found]

    assert fares("trips") == fares("trips_rt") == [("a", "oslo", 9.5), ("c", "oslo", None)]
    assert fares("trips_ro") == [("a", "oslo", None), ("c", "oslo", None)]
    theirs = {key: value for key, value in options.items() if key not in FAST}
    more = changed.set_column(0, "id", pa.array(["d"])).set_column(2, "city", pa.array(["rome"]))
    hive_oracle.write(path, more, name="trips", options={**theirs, f"{HIVE}mode": "hms"})
    assert [each.done for each in sync(path, options=options).entries] == ["unchanged"] * 3
    catalog = HiveMetastore([metastore], "named")
    assert set(catalog.partitions("trips_ro")) == {("lima",), ("oslo",), ("rome",)}
    catalog.close()
