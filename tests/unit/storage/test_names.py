"""Names of storage options in other libraries, credentials that are missing, and what a store's library fails with."""

from __future__ import annotations

import pickle
import socket
import time
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


def test_missing_credentials_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_has_metadata_address", lambda: False)
    open_table = hudi_py.open_table  # imports much
    began = time.monotonic()
    with pytest.raises(StorageDeniedError, match=r"Cannot read or write s3://bucket/t: there are no credentials; give"):
        open_table("s3://bucket/t", storage_options={"region": "eu-west-1"})
    assert time.monotonic() - began < 2
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/x")  # what says where they are is enough
    credentials.check_s3_credentials({}, "s3://bucket")


def test_the_metadata_address_is_asked_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: tuple[str, int], timeout: float) -> Any:
        assert address == ("169.254.169.254", 80)
        assert timeout < 1
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", refuse)
    credentials._has_metadata_address.cache_clear()
    with pytest.raises(StorageDeniedError):
        credentials.check_s3_credentials({}, "s3://bucket")
    credentials._has_metadata_address.cache_clear()


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
