"""Where credentials come from, and that they stay there."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import pickle
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import formatdate
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import parse_qs

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError, HudiError, LockError
from hudi_py.interop.catalogs import sync
from hudi_py.storage import open_storage
from hudi_py.transaction.locks import table_lock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.wiring import service_target
from hudi_py.write.distributed import plan_write
from tests.stores.proxy import Proxy, Spoilt
from tests.stores.servers import KEY, REGION, SECRET, Server, options_for
from tests.stores.test_tables import SCHEMA, found, rows
from tests.support.answering import Handler, listening
from tests.support.object_store import Fault, serving

ROLE = "arn:aws:iam::123456789012:role/lake"
_calls: list[datetime] = []
_expires: list[datetime | None] = [None]


def provided() -> Mapping[str, object]:
    """A provider of credentials, as a user would write one."""
    _calls.append(datetime.now(timezone.utc))
    return {"access_key_id": KEY, "secret_access_key": SECRET, "token": None, "expires_at": _expires[0]}


def bare(server: Server, **more: str) -> dict[str, str]:
    """Options without credentials."""
    return {key: value for key, value in server.options.items() if not key.startswith("aws_")} | more


def test_from_the_environment(s3: Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ENDPOINT", s3.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    hudi_py.write(f"{bucket}/t", rows(range(3), 1), record_key="id")
    assert len(found(hudi_py.open_table(f"{bucket}/t"))) == 3


def test_from_a_profile_by_boto3(s3: Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text(f"[lake]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    options = bare(s3, credential_provider="boto3", profile="lake")
    hudi_py.write(f"{bucket}/t", rows(range(3), 1), record_key="id", storage_options=options)
    assert len(found(hudi_py.open_table(f"{bucket}/t", storage_options=options))) == 3
    with pytest.raises(ConfigError, match=r"no credentials from boto3: .*\(sea\)"):
        open_storage(bucket, {**options, "profile": "sea"})


@pytest.fixture
def profiles(s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of AWS with the profile `lake`; the services of AWS are those of the tests."""
    (tmp_path / "credentials").write_text(f"[lake]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    (tmp_path / "config").write_text(
        "[profile single]\nsso_session = lake\nsso_account_id = 123456789012\nsso_role_name = reader\n"
        "[sso-session lake]\nsso_region = us-east-1\nsso_start_url = https://lake.awsapps.com/start\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.url)
    return tmp_path


@pytest.fixture
def signed_by(s3: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A store's address, and for each of its requests the access key or token, and the session token."""
    seen: list[tuple[str, str]] = []

    class Noting(Handler):
        def respond(self) -> None:
            self.body()
            authorization = self.headers.get("Authorization", "")
            key = re.search("Credential=([^/]+)/", authorization)
            seen.append((key[1] if key else authorization, self.headers.get("x-amz-security-token", "")))
            self.answer(200, b"1", [("ETag", '"1"'), ("Last-Modified", formatdate(usegmt=True))])

    with listening(Noting) as url:
        yield url, seen


@pytest.mark.usefixtures("profiles")
def test_those_of_a_role(s3: Server, bucket: str, signed_by: tuple[str, list[tuple[str, str]]]) -> None:
    role = {
        "credential_provider": "boto3",
        "profile": "lake",
        "role_arn": ROLE,
        "role_session_name": "nightly",
        "external_id": "outside",
    }
    options = bare(s3, **role)
    hudi_py.write(f"{bucket}/t", rows(range(3), 1), record_key="id", storage_options=options)
    assert len(found(hudi_py.open_table(f"{bucket}/t", storage_options=options))) == 3
    url, seen = signed_by
    open_storage("s3://bucket/t", {**options, "endpoint": url}).read("f")
    ((key, token),) = seen
    assert key.startswith("ASIA")
    assert token


def locked_in_dynamodb(proxy: Proxy) -> dict[str, str]:
    """Options for a lock that no other test has."""
    return {
        "hoodie.write.lock.provider": "DynamoDBBasedLockProvider",
        "hoodie.write.lock.dynamodb.endpoint_url": proxy.url,
        "hoodie.write.lock.dynamodb.region": REGION,
        "hoodie.write.lock.dynamodb.table": f"locks{time.time_ns()}",
    }


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize(
    ("given", "signer"),
    [
        ({"credential_provider": "boto3", "profile": "lake"}, KEY),
        ({"credential_provider": "boto3", "profile": "lake", "role_arn": ROLE}, "ASIA"),
        ({"credential_provider": "tests.stores.test_credentials:provided"}, KEY),
        ({"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}, KEY),
    ],
)
def test_a_lock_in_dynamodb_has_those_of_the_store(
    s3: Server, bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], signer: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFTHEENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    options = locked_in_dynamodb(proxy)
    more = {"options": options, "storage_options": bare(s3, **given)}
    hudi_py.write(f"{bucket}/t", rows(range(3), 1), record_key="id", **more)
    assert len(proxy.requests) > 3
    assert [each.signer for each in proxy.requests if not each.signer.startswith(signer)] == []


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize("given", [{"credential_provider": "boto3", "profile": "lake"},
                                   {"credential_provider": "tests.stores.test_credentials:provided"}])  # fmt: skip
def test_aws_glue_has_those_of_the_store(
    s3: Server, bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    """When a write registers the table, and on demand, with the options of the opened table or for a path."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFTHEENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    glue = {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.datasource.hive_sync.mode": "glue",
        "hoodie.datasource.meta.sync.glue.database_name": f"db{time.time_ns()}",
        "hoodie.aws.glue.endpoint": proxy.url,
        "hoodie.aws.glue.region": REGION,
    }
    path, credentials = f"{bucket}/t", bare(s3, **given)
    hudi_py.write(path, rows(range(3), 1), record_key="id", options=glue, storage_options=credentials)
    by_write = len(proxy.requests)
    assert by_write > 1
    sync(path, "glue", options=glue, storage_options=credentials)
    by_path = len(proxy.requests)
    assert by_path > by_write
    sync(hudi_py.open_table(path, glue, storage_options=credentials), "glue")
    assert len(proxy.requests) > by_path
    assert {each.signer for each in proxy.requests} == {KEY}


def test_a_lock_in_dynamodb_that_does_not_answer(
    s3: Server, bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of botocore are errors of the lock, at whatever request they come."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    key = {"hoodie.write.lock.dynamodb.partition_key": "t"}
    settings = LockSettings.of(Options.resolve({**locked_in_dynamodb(proxy), **key}, defaults={}))
    credentials = bare(s3, aws_access_key_id=KEY, aws_secret_access_key=SECRET)
    lock = table_lock(open_storage(f"{bucket}/t", credentials), settings, purpose="test", storage_options=credentials)
    with lock:
        found = lock.holder()
        assert found is not None
        for spoilt, told in (
            (Spoilt(status=400), "DynamoDB rejects a request for the table lock dynamodb://.*; check region"),
            (Spoilt(forwarded=False), "the table lock dynamodb://.* cannot be reached: .*; check network"),
        ):
            proxy.reset(lambda number, request, spoilt=spoilt: spoilt)
            with pytest.raises(LockError, match=f"Cannot test: {told}"):
                lock.check()
            with pytest.raises(LockError, match=f"Cannot test: {told}"):
                lock.holder()
            with pytest.raises(LockError, match=f"Cannot test: {told}"):
                lock.break_held(found.owner)
        proxy.reset()
        lock.check()


def test_a_lock_in_dynamodb_without_them(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a provider raises is an error of the lock; one of another cloud has nothing for it."""
    key = {"hoodie.write.lock.dynamodb.partition_key": "t"}
    settings = LockSettings.of(Options.resolve({**locked_in_dynamodb(proxy), **key}, defaults={}))
    provider = {"credential_provider": "tests.stores.test_credentials:provided", "region": REGION}
    monkeypatch.setattr(f"{__name__}._expires", [datetime.now(timezone.utc) - timedelta(seconds=1)])
    lock = table_lock(open_storage("s3://b/t", provider), settings, purpose="test", storage_options=provider)
    with pytest.raises(LockError, match=r"Cannot test: the table lock dynamodb://.* credentials have expired"):
        lock.__enter__()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFTHEENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    beside = open_storage("gs://b/t", {"credential_provider": "tests.stores.test_credentials:provided"})
    with table_lock(beside, settings, purpose="test", storage_options=provider):
        pass
    assert {each.signer for each in proxy.requests} == {"AKIAOFTHEENVIRONMENT"}


def test_what_a_role_is_asked_with(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    class Refusing(Handler):
        def respond(self) -> None:
            asked.append({name: values[0] for name, values in parse_qs(self.body().decode()).items()})
            error = "<Error><Code>AccessDenied</Code><Message>not for you</Message></Error>"
            self.answer(403, f"<ErrorResponse>{error}</ErrorResponse>".encode())

    role = {"credential_provider": "boto3", "profile": "lake", "role_arn": ROLE}
    with listening(Refusing) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        storage = open_storage("s3://bucket/t", {**role, "external_id": "outside", "region": REGION})
        with pytest.raises(PermissionError, match=r"AccessDenied.*not for you") as caught:
            storage.read("f")
    assert "\n" not in str(caught.value)
    assert (asked[0]["RoleSessionName"], asked[0]["ExternalId"]) == ("hudi-py", "outside")


def test_those_of_single_sign_on(
    profiles: Path, monkeypatch: pytest.MonkeyPatch, signed_by: tuple[str, list[tuple[str, str]]]
) -> None:
    cache = profiles / ".aws" / "sso" / "cache" / f"{hashlib.sha1(b'lake').hexdigest()}.json"
    cache.parent.mkdir(parents=True)
    monkeypatch.setattr("botocore.credentials.SSOProvider._SSO_TOKEN_CACHE_DIR", str(cache.parent))
    monkeypatch.setattr("botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR", str(cache.parent))

    def sign_on(hours: int) -> None:
        expires = datetime.now(timezone.utc) + timedelta(hours=hours)
        cache.write_text(json.dumps({"accessToken": "token", "expiresAt": f"{expires:%Y-%m-%dT%H:%M:%SZ}"}))

    class Portal(Handler):
        def respond(self) -> None:
            assert self.headers["x-amz-sso_bearer_token"] == "token"
            expires = int((datetime.now(timezone.utc) + timedelta(hours=1)).timestamp() * 1000)
            role = {"accessKeyId": "ASIASSO", "secretAccessKey": "s", "sessionToken": "t", "expiration": expires}
            self.answer(200, json.dumps({"roleCredentials": role}).encode())

    url, seen = signed_by
    options = {"credential_provider": "boto3", "profile": "single", "endpoint": url, "allow_http": "true"}
    with listening(Portal) as portal:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", portal)
        sign_on(1)
        open_storage("s3://bucket/t", {**options, "region": REGION}).read("f")
        assert seen == [("ASIASSO", "t")]
        sign_on(-1)
        with pytest.raises(PermissionError, match="Token has expired|has expired"):
            open_storage("s3://bucket/t", {**options, "region": REGION}).read("f")


def test_those_of_google(monkeypatch: pytest.MonkeyPatch, signed_by: tuple[str, list[tuple[str, str]]]) -> None:
    pytest.importorskip("google.auth")

    class Metadata(Handler):
        def respond(self) -> None:
            assert self.headers["Metadata-Flavor"] == "Google"
            found: object = {"email": "a@b", "scopes": [], "aliases": []}
            if "/token" in self.path:
                found = {"access_token": "gtoken", "expires_in": 3600, "token_type": "Bearer"}
            elif "project-id" in self.path:
                found = "p"
            kind = [("Metadata-Flavor", "Google"), ("Content-Type", "application/json")]
            self.answer(200, json.dumps(found).encode(), kind)

    url, seen = signed_by
    with listening(Metadata) as metadata:
        host = metadata.removeprefix("http://")
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
            monkeypatch.setenv(name, host)
        monkeypatch.setattr(
            "google.auth.compute_engine._metadata._METADATA_ROOT", f"http://{host}/computeMetadata/v1/", raising=False
        )
        options = {"credential_provider": "google", "base_url": url, "allow_http": "true"}
        open_storage("gs://bucket/t", options).read("f")
    assert seen == [("Bearer gtoken", "")]


def test_those_of_azure(monkeypatch: pytest.MonkeyPatch, signed_by: tuple[str, list[tuple[str, str]]]) -> None:
    pytest.importorskip("azure.identity")

    class Identity(Handler):
        def respond(self) -> None:
            expires = int((datetime.now(timezone.utc) + timedelta(hours=1)).timestamp())
            found = {"access_token": "atoken", "expires_on": expires, "resource": "r", "token_type": "Bearer"}
            self.answer(200, json.dumps(found).encode(), [("Content-Type", "application/json")])

    url, seen = signed_by
    with listening(Identity) as identity:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{identity}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "h")
        options = {"account_name": "a", "endpoint": f"{url}/a", "allow_http": "true", "credential_provider": "azure"}
        open_storage("az://bucket/t", options).read("f")
    assert seen == [("Bearer atoken", "")]


class _Token(NamedTuple):
    token: str
    expires_on: float


class _Given:
    """Credentials as Databricks gives them on each of its clouds, by name."""

    expiry = None

    def __init__(self, name: str) -> None:
        self.token = f"token of {name}"

    def refresh(self, request: object) -> None:
        pass

    def get_token(self, scope: str) -> _Token:
        assert scope == "https://storage.azure.com/.default"
        return _Token(self.token, datetime.now(timezone.utc).timestamp() + 3600)


@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_those_of_databricks(
    monkeypatch: pytest.MonkeyPatch, signed_by: tuple[str, list[tuple[str, str]]], scheme: str
) -> None:
    def provider(name: str) -> object:
        if scheme == "az":
            return _Given(name)
        botocore = importlib.import_module("botocore.session")

        session = botocore.Session()
        session.set_credentials(f"key-of-{name}", "s", "t")
        return session

    module = ModuleType("databricks.service_credentials")
    monkeypatch.setattr(module, "getServiceCredentialsProvider", provider, raising=False)
    monkeypatch.setitem(sys.modules, "databricks", ModuleType("databricks"))
    monkeypatch.setitem(sys.modules, "databricks.service_credentials", module)
    url, seen = signed_by
    more = {"region": REGION, "endpoint": url} if scheme == "s3" else {"account_name": "a", "endpoint": f"{url}/a"}
    options = {"credential_provider": "databricks", "service_credential": "lake", "allow_http": "true", **more}
    open_storage(f"{scheme}://bucket/t", options).read("f")
    assert seen == [("key-of-lake", "t")] if scheme == "s3" else [("Bearer token of lake", "")]


def test_they_are_renewed_when_they_expire(s3: Server, bucket: str) -> None:
    _calls.clear()
    _expires[0] = datetime.now(timezone.utc) + timedelta(seconds=3)
    storage = open_storage(bucket, bare(s3, credential_provider="tests.stores.test_credentials:provided"))
    storage.put("f", b"1")
    before = len(_calls)
    expired = _expires[0]
    _expires[0] = datetime.now(timezone.utc) + timedelta(hours=1)
    while datetime.now(timezone.utc) <= expired:
        time.sleep(0.1)
    storage.put("f", b"2")
    storage.put("f", b"3")
    _expires[0] = None
    assert len(_calls) == before + 1


def test_from_a_function(s3: Server, bucket: str) -> None:
    options = bare(s3, credential_provider="tests.stores.test_credentials:provided")
    _calls.clear()
    _expires[0] = datetime.now(timezone.utc) + timedelta(hours=1)
    hudi_py.write(f"{bucket}/t", rows(range(3), 1), record_key="id", storage_options=options)
    assert 0 < len(_calls) < 10
    _expires[0] = datetime.now(timezone.utc) - timedelta(seconds=1)
    with pytest.raises(PermissionError, match="The credentials have expired; pass new ones"):
        open_storage(bucket, options).read("f")
    _expires[0] = None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"credential_provider": "magic"}, "is not boto3, google, azure, databricks or module:function"),
        ({"credential_provider": "no.such.module:f"}, "does not name a function"),
        ({"credential_provider": "os:nothing"}, "does not name a function"),
        ({"profile": "lake"}, "profile needs credential_provider=boto3 and is given without it"),
        (
            {"credential_provider": "os:getcwd", "profile": "lake"},
            "profile needs credential_provider=boto3 and does not go with credential_provider=os:getcwd",
        ),
        ({"credential_provider": "google"}, "credential_provider=google has credentials for gs, not for s3"),
        ({"credential_provider": "databricks"}, "databricks needs the storage option service_credential"),
        ({"credential_provider": "databricks", "service_credential": "c"}, "works only on Databricks compute"),
        ({"max_retries": "many"}, "max_retries and retry_timeout take a number"),
    ],
)
def test_what_names_no_provider_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        open_storage("s3://bucket/t", options)


def test_a_token_that_has_expired() -> None:
    with serving() as store:
        store.files["f"] = b"1", {}
        store.faults = [Fault(400, stored=False, code="ExpiredToken")]
        storage = open_storage("s3://bucket", {**options_for(store.url), "aws_session_token": "old"})
        with pytest.raises(PermissionError, match=r"The credentials have expired.*: 's3://bucket/g'"):
            storage.put("g", b"1")


def test_nothing_of_them_is_left_behind(
    s3: Server, bucket: str, proxy: Proxy, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    options = options_for(proxy.url)
    path = f"{bucket}/t"
    shown: list[object] = []
    with caplog.at_level(logging.DEBUG, "hudi_py"):
        more = {"record_key": "id", "partition_by": "city", "table_type": "mor", "storage_options": options}
        shown.append(hudi_py.write(path, rows(range(6), 1), **more))
        table = hudi_py.open_table(path, storage_options=options)
        shown += [
            table.upsert(rows(range(6), 2)),
            table.compact(),
            table.clean(),
            table.services.pending(),
            table.locks.holders(),
        ]
        scan = table.scan(filter="fare > 1")
        shown += [scan, scan.explain(), table, table.properties, table.timeline, open_storage(path, options)]
        pickled = [pickle.dumps(open_storage(path, options)), pickle.dumps(scan.splits())]
        provider = bare(s3, credential_provider="tests.stores.test_credentials:provided")
        storage = {f"storage.{key}": value for key, value in provider.items()}
        resolved = Options.resolve({"hoodie.datasource.write.partitionpath.field": "city", **storage})
        plan = plan_write(service_target(path, resolved), SCHEMA)
        shown.append(plan)
        pickled.append(pickle.dumps(plan))
        for fault in (Spoilt(403, forwarded=False), Spoilt(400, forwarded=False), Spoilt(500, forwarded=False)):
            proxy.reset(lambda number, request, fault=fault: fault)
            with pytest.raises((HudiError, OSError)) as caught:
                hudi_py.open_table(path, storage_options={**options, "max_retries": "0"})
            shown.append("".join(traceback.format_exception(caught.value)))
        proxy.reset()
        with pytest.raises(ConfigError) as refused:
            open_storage(path, {**options, "no_such_option": SECRET})
        shown.append("".join(traceback.format_exception(refused.value)))
    out, err = capfd.readouterr()
    texts = [out, err, caplog.text, *map(repr, shown), *map(str, shown)]
    objects = {
        info.path: open_storage(bucket, options).read(info.path) for info in open_storage(bucket, options).walk()
    }
    assert len(objects) > 20
    for secret in (SECRET, KEY):
        assert [text for text in texts if secret in text] == []
        assert [path for path, data in objects.items() if secret.encode() in data or secret in path] == []
        assert [data for data in pickled if secret.encode() in data] == []
