"""Who asks for what is written to be on disk. What a power failure would leave: tests/faults/test_power.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.storage import LocalStorage
from hudi_py.transaction.transaction import WriteTransaction
from tests.support.hand_writes import attach, new_table, plan, write_base
from tests.support.power import Dropped, after_failure, recorded
from tests.support.sessions import changed

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
OFF = {"hoodie.py.write.durable": "false"}


def test_a_task_flushes_what_it_wrote_before_it_reports(tmp_path: Path) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    handle = plan(storage, new_table(storage))
    with recorded(root) as recorder, attach(handle, LocalStorage(str(root))) as task:
        stat = write_base(task, "a", "f")
    left = after_failure(recorder.cuts[-1], Dropped(), root)
    assert len(left[stat.path] or b"") == stat.file_size
    assert f".hoodie/.temp/{handle.instant}/{stat.path}.marker.CREATE" in left
    assert any(path.startswith(f".hoodie/timeline/{handle.instant}.") and path.endswith(".inflight") for path in left)


def test_tasks_have_the_option_from_the_plan(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path / "t"))
    handle = plan(storage, new_table(storage))
    assert WriteTransaction.attach(handle).storage.durable  # type: ignore[attr-defined]
    relaxed = replace(handle, settings=changed(handle.settings, DURABLE="false"))
    assert not WriteTransaction.attach(relaxed).storage.durable  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", [{}, OFF], ids=["default", "off"])
def test_the_option(tmp_path: Path, given: dict[str, str]) -> None:
    root = tmp_path / "t"
    rows = [{"id": 1, "ts": 1}]
    with recorded(root) as recorder:
        hudi_py.create_table(str(root), SCHEMA, given, record_key="id", ordering_by="ts")
        made = recorder.flushes
        hudi_py.write(str(root), rows, "upsert", given)
        written = recorder.flushes
        hudi_py.open_table(str(root)).savepoint(options=given)
        services = recorder.flushes
    assert (made > 0, written > made, services > written) == ((not given,) * 3)
