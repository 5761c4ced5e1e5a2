"""Servers for the tests of this folder, each started once by the first test that needs it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.stores import servers
from tests.stores.proxy import Proxy, between
from tests.stores.servers import Server
from tests.support.object_store import Store, serving

pytest.importorskip("obstore")
pytest.importorskip("moto")


@pytest.fixture(scope="session")
def moto() -> Iterator[Server]:
    with servers.moto() as running:
        yield running


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[Server]:
    with servers.dynamodb() as running:
        yield running


@pytest.fixture(scope="session")
def versitygw() -> Iterator[Server]:
    if servers.versitygw_binary() is None:
        pytest.skip("versitygw is not installed: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
    with servers.versitygw() as running:
        yield running


@pytest.fixture(scope="session")
def azurite() -> Iterator[Server]:
    script = servers.azurite_script()
    if isinstance(script, str):
        pytest.skip(script)
    with servers.azurite(script) as running:
        yield running


@pytest.fixture
def google() -> Iterator[Server]:
    """Empty for each test."""
    with servers.google() as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[str]:
    with servers.zookeeper() as hosts:
        yield hosts


@pytest.fixture
def strict_store() -> Iterator[Store]:
    """A store in this process whose conditions hold under contention: moto's do not. It asks for no signatures."""
    with serving() as store:
        yield store


@pytest.fixture
def s3(request: pytest.FixtureRequest) -> Server:
    """A server of S3, or of what a test asks for by an indirect parameter; moto by default."""
    return request.getfixturevalue(getattr(request, "param", "moto"))


@pytest.fixture
def bucket(s3: Server) -> str:
    """The URI of a new bucket."""
    return s3.make_bucket(f"bucket-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def proxy(s3: Server) -> Iterator[Proxy]:
    with between(s3.url) as running:
        yield running
