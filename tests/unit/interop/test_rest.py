"""Polaris and Unity Catalog, as doubles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import hudi_py
from hudi_py.cli.main import main
from hudi_py.errors import ConfigError, HudiError
from hudi_py.interop.catalogs import CatalogError, sync
from hudi_py.interop.http import Client, HttpError, checked_url
from tests.support.answering import Handler, listening
from tests.support.catalogs import FAST, made
from tests.support.rest_catalogs import PolarisDouble, UnityDouble, double


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(tmp_path_factory.mktemp("rest") / "trips", [{"id": 1, "ts": 1}], record_key="id")


def test_polaris(trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_PY_POLARIS_CREDENTIAL", "me:hush")
    with double(PolarisDouble) as (url, service):
        options = {
            "hoodie.py.sync.polaris.uri": f"{url}/api/catalog/",
            "hoodie.py.sync.polaris.catalog": "lake",
            "hoodie.datasource.hive_sync.database": "a.b",
            "hoodie.datasource.hive_sync.table_properties": "team=rides",
        }
        (done,) = sync(trips, "polaris", options=options).entries
        assert (done.catalog, done.name, done.done) == ("polaris", "a.b.trips", "created")
        place = "/polaris/v1/lake/namespaces/a\x1fb/generic-tables/trips"
        assert service.held[place]["table"] == {
            "name": "trips",
            "format": "hudi",
            "base-location": f"file://{trips}",
            "properties": {"team": "rides"},
        }
        assert sync(trips, "polaris", options=options).entries[0].done == "unchanged"
        service.held[place]["table"]["base-location"] = "file:///elsewhere"
        with pytest.raises(CatalogError, match="at file:///elsewhere, not file://.*recreate_table_on_error"):
            sync(trips, "polaris", options=options)
        options["hoodie.datasource.hive_sync.recreate_table_on_error"] = "true"
        assert sync(trips, "polaris", options=options).entries[0].done == "changed"
        monkeypatch.setenv("HUDI_PY_POLARIS_CREDENTIAL", "me:wrong")
        with pytest.raises(CatalogError, match="401: .*; check its credentials") as refused:
            sync(trips, "polaris", options=options)
        assert "wrong" not in str(refused.value)
        monkeypatch.setenv("HUDI_PY_POLARIS_TOKEN", "tok")
        options["hoodie.datasource.hive_sync.database"] = "other"
        options["hoodie.datasource.hive_sync.auto_create_database"] = "false"
        with pytest.raises(CatalogError, match="no namespace other"):
            sync(trips, "polaris", options=options)
    with pytest.raises(CatalogError, match="had no answer: .*; check its address"):
        sync(trips, "polaris", options=options)
    with pytest.raises(ConfigError, match=r"polaris\.uri and hoodie\.py\.sync\.polaris\.catalog must be set"):
        sync(trips, "polaris")
    monkeypatch.delenv("HUDI_PY_POLARIS_TOKEN")
    monkeypatch.delenv("HUDI_PY_POLARIS_CREDENTIAL")
    with pytest.raises(ConfigError, match="without credentials: set the environment variable HUDI_PY_POLARIS_TOKEN"):
        sync(trips, "polaris", options=options)


def test_unity(trips: str) -> None:
    with double(UnityDouble) as (url, service):
        options = {"hoodie.py.sync.unity.uri": url, "hoodie.py.sync.unity.catalog": "main"}
        assert sync(trips, "unity", options=options).entries[0].done == "created"
        assert service.held["volumes/main.default.trips"]["storage_location"] == f"file://{trips}"
        assert sync(hudi_py.open_table(trips, options), "unity").entries[0].done == "unchanged"
        service.held["volumes/main.default.trips"]["storage_location"] = "file:///elsewhere"
        with pytest.raises(CatalogError, match="has the volume main.default.trips at file:///elsewhere"):
            sync(trips, "unity", options=options)


def test_after_a_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failure is a warning, unless an option asks for an error."""
    with double(UnityDouble) as (url, service):
        options = {
            **FAST,
            "hoodie.datasource.meta.sync.enable": "true",
            "hoodie.py.sync.catalogs": "unity",
            "hoodie.py.sync.unity.uri": url,
            "hoodie.py.sync.unity.catalog": "main",
        }
        result = hudi_py.write(tmp_path / "t", [{"id": 1}], options=options, record_key="id")
        assert result.services == ("sync unity",)
        assert "volumes/main.default.t" in service.held
    result = hudi_py.write(tmp_path / "t", [{"id": 2}], options=options)
    assert result.services == ()
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "with unity failed" in warning
    assert re.search(r"the write \d+ is committed, and hudi_py.interop.catalogs.sync", warning)
    failing = {**options, "hoodie.datasource.hive_sync.ignore_exceptions": "false"}
    with pytest.raises(HudiError, match="is committed, but the registration .* do not repeat it: fix"):
        hudi_py.write(tmp_path / "t", [{"id": 3}], options=failing)
    assert hudi_py.open_table(tmp_path / "t").scan().count() == 3


def test_requests_show_no_secrets() -> None:
    class Redirecting(Handler):
        def respond(self) -> None:
            self.answer(302, headers=[("Location", "http://127.0.0.1:9/taken")])

    with listening(Redirecting) as url:
        client = Client(url, {"Authorization": "Bearer hush"})
        assert "hush" not in repr(client)
        with pytest.raises(HttpError, match=r"GET .*/x was answered with 302") as error:
            client.get("/x?token=hush")
        assert "hush" not in str(error.value)
    with pytest.raises(ConfigError, match="'http://host', |'http://host'") as refused:
        checked_url("http://me:hush@host")
    assert "hush" not in str(refused.value)
    with pytest.raises(ConfigError, match="expected http"):
        checked_url("ftp://host")


def test_the_command(trips: str) -> None:
    def run(*more: str) -> str:
        ran = CliRunner().invoke(main, ["sync", trips, "--with", "unity", "--database", "db", *more])
        assert ran.exit_code == 0, ran.output
        return ran.output

    with double(UnityDouble) as (url, _):
        options = ["-o", f"hoodie.py.sync.unity.uri={url}", "-o", "hoodie.py.sync.unity.catalog=main"]
        assert run(*options) == "main.db.trips is registered in unity.\n"
        assert run(*options) == "main.db.trips is up to date in unity.\n"
        (entry,) = json.loads(run(*options, "--table", "other", "--json"))["entries"]
        assert (entry["name"], entry["done"]) == ("main.db.other", "created")
