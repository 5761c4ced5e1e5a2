"""Names of storage options in other libraries, credentials that are missing, and what a store's library fails with."""

from __future__ import annotations

import os
import pickle
import socket
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore")

import hudi_py
from hudi_py.errors import ConfigError, HudiError, StorageDeniedError, StorageError
from hudi_py.storage import ObjectStorage, credentials, open_storage
from hudi_py.storage.names import known_names
from tests.support.object_store import serving

PLAIN = {"access_key_id": "k", "secret_access_key": "s", "endpoint": "http://h", "region": "r", "allow_http": "true"}
GIVEN: dict[str, dict[str, Any]] = {
    "deltalake": {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ENDPOINT_URL": "http://h",
        "AWS_REGION": "r",
        "AWS_ALLOW_HTTP": "true",
    },
    "pyiceberg": {
        "s3.access-key-id": "k",
        "s3.secret-access-key": "s",
        "s3.endpoint": "http://h",
        "s3.region": "r",
        "allow_http": True,
    },
    "s3fs": {
        "key": "k",
        "secret": "s",
        "client_kwargs": {"endpoint_url": "http://h", "region_name": "r"},
        "use_ssl": False,
    },
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("library", GIVEN)
def test_names_of_other_libraries(library: str) -> None:
    found = known_names(GIVEN[library], "s3")
    assert {name.removeprefix("aws_"): value for name, value in found.items()} == PLAIN
    with serving() as store:
        options = {
            key: {**value, "endpoint_url": store.url} if key == "client_kwargs" else value
            for key, value in GIVEN[library].items()
        }
        options |= {key: store.url for key, value in options.items() if value == "http://h"}
        storage = open_storage("s3://bucket/t", options)
        storage.put("f", b"data")
        assert storage.read("f") == b"data"


def test_other_forms() -> None:
    assert known_names({"s3.connect-timeout": 5, "read_timeout": "2.5", "timeout": "3s"}, "s3a") == {
        "connect_timeout": "5 seconds",
        "read_timeout": "2.5 seconds",
        "timeout": "3s",
    }
    assert known_names({"adls.account-name": "n", "key": "k"}, "abfss") == {"account_name": "n", "key": "k"}
    assert known_names({"hoodie.Secret": "S", "anon": True}, "s3") == {"hoodie.Secret": "S", "skip_signature": "true"}
    assert known_names({"key": "a", "AWS_ACCESS_KEY_ID": "a"}, "s3") == {"access_key_id": "a"}
    with pytest.raises(ConfigError, match="aws_access_key_id has another value than another name") as caught:
        known_names({"s3.access-key-id": "secret1", "aws_access_key_id": "secret2"}, "s3")
    assert "secret" not in str(caught.value)


_CLOUDS = {
    "s3://bucket/t": ({"access_key_id": "k"}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"}),
    "gs://bucket/t": ({"google_bearer_token": "t"}, {"GCE_METADATA_HOST": "h"}),
    "abfss://c@account.dfs.core.windows.net/t": ({"azure_storage_account_key": "k"}, {"AZURE_STORAGE_SAS_TOKEN": "s"}),
}
"""For each kind of store, options and a variable that give credentials or say where they are."""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Home of a user without credentials, on a machine of no cloud."""
    for key in os.environ:
        if key.startswith(("AWS_", "GOOGLE_", "GCE_", "AZURE_", "IDENTITY_")):
            monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(credentials, "_has_metadata_address", lambda: False)
    return tmp_path


@pytest.mark.parametrize("uri", _CLOUDS)
def test_missing_credentials_are_told_at_once(bare: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    open_table = hudi_py.open_table  # imports much
    options = {"region": "eu-west-1"} if uri.startswith("s3") else {"skip_signature": "false"}
    began = time.monotonic()
    with pytest.raises(StorageDeniedError, match=f"Cannot read or write {uri}: there are no credentials; give the"):
        open_table(uri, storage_options=options)
    assert time.monotonic() - began < 2
    enough, variables = _CLOUDS[uri]
    for given in (enough, {"credential_provider": "module:function"}, {"skip_signature": "true"}):
        credentials.check_credentials(given, uri)
    for key, value in variables.items():
        monkeypatch.setenv(key, "")
        with pytest.raises(StorageDeniedError):
            credentials.check_credentials({}, uri)
        monkeypatch.setenv(key, value)
        credentials.check_credentials({}, uri)


def test_credentials_of_gcloud(bare: Path) -> None:
    file = bare / ".config" / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    credentials.check_credentials({}, "gs://bucket/t")
    with pytest.raises(StorageDeniedError):
        credentials.check_credentials({}, "s3://bucket/t")


def test_the_metadata_address_is_asked_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: tuple[str, int], timeout: float) -> Any:
        assert address == ("169.254.169.254", 80)
        assert timeout < 1
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", refuse)
    credentials._has_metadata_address.cache_clear()
    assert not credentials._has_metadata_address()
    credentials._has_metadata_address.cache_clear()


def test_a_metadata_address_that_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a role: obstore's error names the address alone."""
    storage = ObjectStorage("gs://bucket/t", {"bearer_token": "t"})

    def fail(*_: object, **more: object) -> Any:
        raise storage._exceptions.GenericError(
            "Generic GCS error: Error performing GET http://169.254.169.254/token in 1s, "
            "after 10 retries - Server returned non-2xx status code: 404 Not Found: \n\nDebug source:\n..."
        )

    monkeypatch.setattr(storage._obstore, "get", fail)
    with pytest.raises(
        StorageDeniedError, match=r"no credentials, and the machine's .* none \(Server .* 404 Not Found: \)"
    ):
        storage.read("f")


def test_azure_without_an_account(bare: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot open az://c/t: the storage option account_name is missing"):
        open_storage("az://c/t")


def test_an_endpoint_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    options = {"key": "k", "secret": "s", "endpoint": f"http://127.0.0.1:{port}", "allow_http": "true"}
    options |= {"region": "us-east-1", "max_retries": "0", "retry_timeout": "1"}
    with pytest.raises(HudiError, match="s3://bucket/t/") as caught:
        hudi_py.open_table("s3://bucket/t", storage_options=options)
    assert isinstance(caught.value, StorageError)
    assert isinstance(caught.value, OSError)
    assert "\n" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_panic_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = ObjectStorage("s3://bucket/t", {"key": "k", "secret": "s", "region": "us-east-1"})
    panic = type("PanicException", (BaseException,), {})

    def fail(*_: object, **more: object) -> Any:
        raise panic("called `Option::unwrap()`\nstack")

    monkeypatch.setattr(storage._obstore, "get", fail)
    with pytest.raises(StorageError, match=r"obstore failed \(called `Option::unwrap\(\)`\): 's3://bucket/t/f'"):
        storage.read("f")
    import obstore.store

    monkeypatch.setattr(obstore.store, "from_url", fail)
    with pytest.raises(ConfigError, match="obstore refused the URI or one of the storage options"):
        ObjectStorage("s3://bucket/t", {"key": "k"})
