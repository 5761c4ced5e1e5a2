"""Apache Hudi through Hadoop's s3a, and hudi-py, by turns on tables in one bucket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oracle import environment
from tests.oracle.client import Oracle
from tests.stores import servers
from tests.stores.servers import Server
from tests.stores.turns import by_turns


@pytest.fixture
def server() -> Iterator[Server]:
    with servers.moto() as running:
        yield running


@pytest.fixture
def oracle(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Oracle]:
    if environment.locate() is None:
        pytest.skip("the oracle is not set up: tests/oracle/setup.sh")
    jars = servers.s3a_jars()
    if isinstance(jars, str):
        pytest.skip(jars)
    monkeypatch.setenv("HUDI_ORACLE_CONF", servers.s3a_configuration(server.url, jars))
    oracle = Oracle(environment.default_version())
    yield oracle
    oracle.close()


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize(("kind", "version"), [("mor", 9), ("cow", 6), ("cow", 9), ("mor", 6), ("mor", 8)])
def test_by_turns_with_apache_hudi(server: Server, oracle: Oracle, kind: str, version: int) -> None:
    server.make_bucket("turns")
    options = servers.options_for(server.url)
    by_turns(oracle, "s3://turns/t", kind, version, theirs="s3a://turns/t", storage_options=options)
