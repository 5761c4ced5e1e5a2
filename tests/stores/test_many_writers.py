"""Many writers on one table: on a server of S3, and some of them Apache Hudi's.

`tests/concurrency` has those on a local folder that are all ours. What each does, and what must come of it, is in
`tests/support/writers.py`.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path

import pytest

from hudi_py.config import concurrency as concurrency_config
from tests.oracle.client import Oracle
from tests.oracle.environment import locate
from tests.stores.servers import Server, options_for
from tests.support.choice import cases, few
from tests.support.object_store import Store
from tests.support.writers import DISTURBED, Where, begun, run

CASES = list(product((6, 9), ("cow", "mor"), (True, False), ("", *DISTURBED)))
LEASE_S = 10


def on_s3(bucket: str, options: dict[str, str]) -> Where:
    """In a bucket, with the lock beside the table."""
    return Where(
        f"{bucket}/t",
        tuple(options.items()),
        (
            (concurrency_config.LOCK_PROVIDER.key, concurrency_config.STORAGE_LOCK),
            (concurrency_config.STORAGE_VALIDITY_S.key, str(LEASE_S)),
            (concurrency_config.STORAGE_RENEW_S.key, "1"),
        ),
    )


def zookeeper_lock(zookeeper: str) -> tuple[tuple[str, str], ...]:
    return (
        (concurrency_config.LOCK_PROVIDER.key, concurrency_config.ZOOKEEPER_LOCK),
        (concurrency_config.ZOOKEEPER_URL.key, zookeeper),
        (concurrency_config.ZOOKEEPER_BASE_PATH.key, f"/writers/{time.time_ns()}"),
        (concurrency_config.ZOOKEEPER_LOCK_KEY.key, "t"),
        (concurrency_config.ZOOKEEPER_SESSION_MS.key, "10000"),
    )


@pytest.mark.parametrize(("version", "kind", "overlapping", "trouble"), cases(CASES, "writers on S3", 1))
def test_writers_on_s3(
    strict_store: Store, tmp_path: Path, version: int, kind: str, overlapping: bool, trouble: str
) -> None:
    where = on_s3("s3://bucket", options_for(strict_store.url))
    run(begun(tmp_path, version, kind, overlapping, 3, trouble, where), 2, trouble)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("version", "kind", "overlapping", "trouble"), few(CASES, "eight writers on S3", 2))
def test_eight_writers_on_s3_with_fifty_commits_each(
    versitygw: Server, tmp_path: Path, version: int, kind: str, overlapping: bool, trouble: str
) -> None:
    """Those that are stopped stand still for longer than the lease of the lock, at times."""
    where = on_s3(versitygw.make_bucket(f"writers-{time.time_ns()}"), versitygw.options)
    work = begun(tmp_path, version, kind, overlapping, 50, trouble, where)
    run(work, 8, trouble, pause_s=1.5 * LEASE_S)


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("version", "kind", "overlapping", "trouble", "guard"),
    few(
        product((6, 9), ("cow", "mor"), (True, False), ("", "killed", "stopped"), ("file lock", "ZooKeeper")),
        "eight writers with Apache Hudi",
        2,
    ),
)
def test_eight_writers_some_of_them_apache_hudi(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    version: int,
    kind: str,
    overlapping: bool,
    trouble: str,
    guard: str,
) -> None:
    """On a local folder. `tests/oracle/test_optimistic.py` has two writers, step by step.

    Only ours are stopped: Apache Hudi does not look whether it still holds the lock when it commits. Nor can its clock
    be set.
    """
    if locate() is None:
        pytest.skip("the oracle is not set up: tests/oracle/setup.sh")
    where = Where(apache=(7,))  # its file lock does not exclude another one of its own on a local file system
    if guard == "ZooKeeper":
        where = Where(lock=zookeeper_lock(request.getfixturevalue("zookeeper")), apache=(6, 7))
    work = begun(tmp_path, version, kind, overlapping, 50, trouble, where)
    run(work, 8, trouble, pause_s=30)
    oracle = Oracle()
    try:
        assert oracle.check(work.root, deep=True)["problems"] == []
    finally:
        oracle.close()
