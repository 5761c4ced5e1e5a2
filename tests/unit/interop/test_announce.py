"""What other systems learn of services, restores and changes of columns."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import HudiError
from hudi_py.interop import metrics
from hudi_py.interop.catalogs import run
from hudi_py.interop.catalogs.entry import Catalog
from hudi_py.interop.metrics import reported
from tests.support.catalogs import FAST, MemoryCatalog

ROWS = [{"id": 1, "ts": 1, "p": "x"}, {"id": 2, "ts": 1, "p": "y"}]
KEYS = {"record_key": "id", "ordering_by": "ts", "partition_by": "p", "table_type": "mor"}
SYNC = {**FAST, "hoodie.datasource.hive_sync.enable": "true", "hoodie.datasource.hive_sync.mode": "hms"}


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> MemoryCatalog:
    found = MemoryCatalog("hms")

    def opened(*_: object) -> Catalog:
        return found

    monkeypatch.setattr(run, "_open_catalog", opened)
    return found


def columns(catalog: MemoryCatalog) -> set[str]:
    return {column.name for column in catalog.tables["t_rt"].columns}


def test_changes_of_columns_and_services_are_registered(tmp_path: Path, catalog: MemoryCatalog) -> None:
    hudi_py.write(tmp_path / "t", ROWS, options=SYNC, **KEYS)
    assert "note" not in columns(catalog)
    table = hudi_py.open_table(tmp_path / "t", SYNC)
    table.alter(add={"note": pa.string()})
    assert "note" in columns(catalog)
    before = catalog.tables["t_rt"]
    table.clean()
    assert catalog.tables["t_rt"] is before


def test_a_registration_that_fails_says_what_stands(
    tmp_path: Path, catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**SYNC, "hoodie.datasource.hive_sync.ignore_exceptions": "false"}
    hudi_py.write(tmp_path / "t", ROWS, options=options, **KEYS)

    def refused(*_: Any) -> Catalog:
        raise HudiError("the metastore is away")

    monkeypatch.setattr(run, "_open_catalog", refused)
    table = hudi_py.open_table(tmp_path / "t", options)
    with pytest.raises(
        HudiError, match=r"^The deltacommit \d+ to .* is committed, but .* the metastore is away; do not"
    ):
        table.alter(add={"note": pa.string()})
    assert "note" in hudi_py.open_table(tmp_path / "t").schema.names


def test_metrics_that_cannot_be_read_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**FAST, "hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "INMEMORY"}
    path = tmp_path / "t"

    def torn(*_: Any, **__: Any) -> None:
        raise HudiError("cut short")

    with monkeypatch.context() as damaged:
        damaged.setattr(metrics, "read_commit_metadata", torn)
        assert hudi_py.write(path, ROWS, options=options, **KEYS).services == ()
        hudi_py.open_table(path, options).compact()
    assert caplog.text.count("could not be read: cut short") == 1
    assert caplog.records[0].levelno == logging.WARNING
    hudi_py.open_table(path, options).alter(add={"note": pa.string()})
    assert reported(path.as_uri())["t.deltacommit.totalRecordsWritten"] == 0
