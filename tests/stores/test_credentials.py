"""Where credentials come from, and that they stay there."""

from __future__ import annotations

import logging
import os
import pickle
import traceback
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError, HudiError
from hudi_py.storage import open_storage
from hudi_py.wiring import metadata_writer
from hudi_py.write.distributed import plan_write
from tests.stores.proxy import Proxy, Spoilt
from tests.stores.servers import KEY, REGION, SECRET, Server, options_for
from tests.stores.test_tables import SCHEMA, found, rows
from tests.support.object_store import Fault, serving

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
        ({"credential_provider": "magic"}, "is not boto3 or module:function"),
        ({"credential_provider": "no.such.module:f"}, "names no function"),
        ({"credential_provider": "os:nothing"}, "names no function"),
        ({"profile": "lake"}, "profile is given without credential_provider"),
        ({"credential_provider": "os:getcwd", "profile": "lake"}, "profile needs credential_provider=boto3"),
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
        shown += [table.upsert(rows(range(6), 2)), table.compact(), table.clean(), table.plans(), table.locks()]
        scan = table.scan(filter="fare > 1")
        shown += [scan, scan.explain(), table, table.properties, table.timeline, open_storage(path, options)]
        pickled = [pickle.dumps(open_storage(path, options)), pickle.dumps(scan.splits())]
        provider = bare(s3, credential_provider="tests.stores.test_credentials:provided")
        storage = {f"storage.{key}": value for key, value in provider.items()}
        resolved = Options.resolve({"hoodie.datasource.write.partitionpath.field": "city", **storage})
        plan = plan_write(path, resolved, SCHEMA, metadata=metadata_writer(resolved))
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
