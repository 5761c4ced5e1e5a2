"""Writes to a store whose answers get lost, come late, or are errors."""

from __future__ import annotations

import itertools
import random

import pytest

import hudi_py
from hudi_py.errors import HudiError
from hudi_py.storage import open_storage
from hudi_py.transaction.locks import table_lock
from tests.stores.proxy import Proxy, Request, Spoilt
from tests.stores.servers import Server, options_for
from tests.stores.test_tables import found, rows
from tests.support.choice import SEED, cases
from tests.support.sessions import lock_settings

ANSWERS = {
    "500": Spoilt(500, forwarded=False),
    "503": Spoilt(503, forwarded=False),
    "429": Spoilt(429, forwarded=False),
    "500 and stored": Spoilt(500),
    "503 and stored": Spoilt(503),
    "no answer": Spoilt(forwarded=False),
    "no answer and stored": Spoilt(),
}
CONDITIONAL = {"409": Spoilt(409, forwarded=False), "412": Spoilt(412, forwarded=False), "412 and stored": Spoilt(412)}
MORE = {"record_key": "id", "partition_by": "city", "ordering_by": "ts"}


def made(path: str, server: Server, kind: str) -> dict[str, int]:
    hudi_py.write(path, rows(range(6), 1), table_type=kind, **MORE, storage_options=server.options)
    return {f"k{key}": 1 for key in range(6)}


@pytest.mark.parametrize("kind", cases(["mor", "cow"], "faults of a store", 1))
def test_writes_get_through_what_goes_wrong_now_and_then(s3: Server, bucket: str, proxy: Proxy, kind: str) -> None:
    chance = random.Random(SEED)
    spoilt: list[str] = []

    def one_in_eight(number: int, request: Request) -> Spoilt | None:
        if chance.random() > 1 / 8:
            return None
        name = chance.choice(sorted({**ANSWERS, **CONDITIONAL} if request.conditional else ANSWERS))
        spoilt.append(f"{name}: {request}")
        return {**ANSWERS, **CONDITIONAL}[name]

    path = f"{bucket}/t"
    expected = made(path, s3, kind)
    proxy.reset(one_in_eight)
    table = hudi_py.open_table(path, storage_options=options_for(proxy.url))
    for ts in range(2, 5):
        table.upsert(rows(range(ts, ts + 3), ts))
        expected |= {f"k{key}": ts for key in range(ts, ts + 3)}
    assert len(spoilt) > 10
    if kind == "mor":
        table.compact()
    proxy.reset()
    assert found(table) == expected, spoilt
    assert table.locks.holders() == []
    assert table.metadata.verify().ok


def test_answers_that_come_too_late(s3: Server, bucket: str, proxy: Proxy) -> None:
    path = f"{bucket}/t"
    expected = made(path, s3, "cow")
    late = [0]

    def one_in_forty(number: int, request: Request) -> Spoilt | None:
        if number % 40 or not request.changes:
            return None
        late[0] += 1
        return Spoilt(delay_s=1.5, ends=False)

    table = hudi_py.open_table(path, storage_options={**options_for(proxy.url), "timeout": "700ms"})
    proxy.reset(one_in_forty)
    while late[0] < 2:
        table.upsert(rows(range(2), 2))
    proxy.reset()
    assert found(table) == {**expected, "k0": 2, "k1": 2}


@pytest.mark.parametrize("kind", cases(["cow", "mor"], "stores that go away", 1))
@pytest.mark.parametrize("share", cases(range(0, 100, 5), "moments at which a store goes away", 4))
def test_a_store_that_goes_away_leaves_the_old_table_or_the_new(
    s3: Server, bucket: str, proxy: Proxy, kind: str, share: int
) -> None:
    path = f"{bucket}/t"
    expected = made(path, s3, kind)
    options = {**options_for(proxy.url), "max_retries": "0"}
    table = hudi_py.open_table(path, storage_options=options)
    for ts in (1, 2):  # the second asks as often as those that follow: the first reads more of the metadata table
        proxy.reset()
        table.upsert(rows(range(3), ts))
    expected |= {f"k{key}": 2 for key in range(3)}
    changed = {**expected, "k0": 3, "k1": 3, "k2": 3}
    last = len(proxy.requests) * share // 100
    proxy.reset(lambda number, request: None if number < last else Spoilt(503, forwarded=False))
    try:
        table.upsert(rows(range(3), 3))
        possible = [changed]
    except (HudiError, OSError):
        possible = [expected, changed]
    proxy.reset()
    seen = found(table)
    assert seen in possible
    assert share == 95 or len(possible) == 2
    table.upsert(rows(range(1, 2), 4))
    assert found(table) == {**seen, "k1": 4}
    assert table.metadata.verify().ok


def test_a_lock_survives_lost_answers(s3: Server, bucket: str, proxy: Proxy) -> None:
    storage = open_storage(bucket, options_for(proxy.url))
    faults = iter([*ANSWERS.values(), *CONDITIONAL.values()])
    turn = itertools.cycle((True, False))
    proxy.reset(lambda number, request: next(faults, None) if request.verb == "PUT" and next(turn) else None)
    for _ in range(12):
        with table_lock(storage, lock_settings(LOCK_WAIT_MS=20_000, LOCK_RETRIES=0), purpose="test") as lock:
            lock.check()
    assert next(faults, None) is None
