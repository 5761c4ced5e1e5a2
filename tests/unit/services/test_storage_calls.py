"""How often one commit with the services that follow it asks the storage: what is read twice costs twice on object
stores."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.services.distributed import ServiceCall, begin, commit, execute
from hudi_py.storage import LocalStorage
from hudi_py.timeline import timeline
from hudi_py.wiring import metadata_writer, write_configuration, write_target
from hudi_py.write.context import TaskId
from hudi_py.write.dml.distributed import MergePlan, Update, commit_merge, plan_merge, run_change, stage_source
from hudi_py.write.dml.merge import Merge
from hudi_py.write.dml.merge_plan import Clause
from hudi_py.write.result import WriteResult

OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "100",
}
ALONE = {**OPTIONS, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
DATA = pa.table({"id": [0, 1], "p": ["a", "b"], "ts": [1, 1]})
Calls = Counter[tuple[str, str]]


def upsert(path: Path, kind: str, data: pa.Table, options: dict[str, str] = OPTIONS) -> None:
    keyed = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
    hudi_py.write(str(path), data, "upsert", options, **keyed, table_type=kind)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Listings and reads of whole files, by path. Every listing counts as quick: a slow one is repeated
    (`load_timeline`)."""
    monkeypatch.setattr(timeline, "_QUICK_S", math.inf)
    found: Calls = Counter()
    for name in ("list", "names", "read"):
        original = getattr(LocalStorage, name)

        def counted(self: LocalStorage, path: str = "", name: str = name, original: Any = original) -> Any:
            found[name, path] += 1
            return original(self, path)

        monkeypatch.setattr(LocalStorage, name, counted)
    return found


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that were created only if they were absent, such as the lock."""
    found: list[str] = []
    put_if_absent = LocalStorage.put_if_absent

    def noted(self: LocalStorage, path: str, data: bytes) -> bool:
        found.append(path)
        return put_if_absent(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", noted)
    return found


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_commit_reads_little_twice(tmp_path: Path, kind: str, calls: Calls) -> None:
    for _ in range(4):
        upsert(tmp_path / "t", kind, DATA)
    calls.clear()
    upsert(tmp_path / "t", kind, DATA)
    # once without the table lock and once each time it is taken: to begin, to commit, to archive or compact. Copy on
    # write has a clean to carry out, too, under one lock. What is left is a look at what is due after the clean
    bounds = {"cow": (5, 4), "mor": (4, 3)}[kind]
    for name, file in (("names", "timeline"), ("read", "hoodie.properties")):
        assert calls[name, f".hoodie/{file}"] <= bounds[0]
        assert calls[name, f".hoodie/metadata/.hoodie/{file}"] <= bounds[1]
    assert calls["list", ".hoodie/.bucket_index"] == 1
    assert not [path for (name, path), count in calls.items() if "/sidecars/" in path and count > 1]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_commit_lists_no_partition(tmp_path: Path, kind: str, calls: Calls) -> None:
    for data in (DATA, DATA.slice(0, 1)):
        upsert(tmp_path / "t", kind, data)
    calls.clear()
    upsert(tmp_path / "t", kind, DATA.slice(0, 1))
    assert not {path for name, path in calls if name == "list"} & {"", "a", "b"}


def test_without_a_metadata_table_it_lists_those_that_it_touches(tmp_path: Path, calls: Calls) -> None:
    options = {**OPTIONS, "hoodie.metadata.enable": "false", "hoodie.clean.automatic": "false"}
    for data in (DATA, DATA.slice(0, 1)):
        upsert(tmp_path / "t", "cow", data, options)
    calls.clear()
    upsert(tmp_path / "t", "cow", DATA.slice(0, 1), options)
    assert {path for name, path in calls if name == "list"} & {"", "a", "b"} == {"a"}


def test_logs_of_version_6_do_not_list_their_partition_each(tmp_path: Path, calls: Calls) -> None:
    options = {**OPTIONS, "hoodie.write.table.version": "6", "hoodie.parquet.small.file.limit": "0"}
    listed = []
    for groups in range(3):
        row = pa.table({"id": [groups], "ts": [1]})
        hudi_py.write(str(tmp_path / "t"), row, "upsert", options, record_key="id", ordering_by="ts", table_type="mor")
        calls.clear()
        data = pa.table({"id": range(groups + 1), "ts": [2] * (groups + 1)})
        hudi_py.write(str(tmp_path / "t"), data, "upsert", options)
        listed.append(calls["list", ""])
    assert len(list(tmp_path.glob("t/*.parquet"))) == 3
    assert len(set(listed)) == 1, listed


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_services_that_are_not_due_take_no_lock(tmp_path: Path, kind: str, created: list[str]) -> None:
    options = {**OPTIONS, "hoodie.clean.commits.retained": "10"}
    upsert(tmp_path / "t", kind, DATA, options)
    created.clear()
    upsert(tmp_path / "t", kind, DATA, options)
    assert created.count(".hoodie/lock") == 2, "to begin and to commit"


@pytest.mark.slow
@pytest.mark.parametrize("service", ["compaction", "log_compaction", "clustering"])
def test_a_plan_is_made_and_begun_under_one_lock(tmp_path: Path, service: str, created: list[str]) -> None:
    """In one process, and by an engine that executes its tasks."""
    kind = "cow" if service == "clustering" else "mor"
    options = {**ALONE, "hoodie.log.compaction.blocks.threshold": "1"}
    for _ in range(3):
        upsert(tmp_path / "t", kind, DATA, options)
    table = hudi_py.open_table(str(tmp_path / "t"), options)
    created.clear()
    assert table.services.run(service).instant is not None
    assert created.count(".hoodie/lock") == 2, "to begin and to commit"
    for _ in range(3):
        upsert(tmp_path / "t", kind, DATA, options)
    resolved = write_configuration(options)
    call = ServiceCall(str(tmp_path / "t"), resolved, metadata_writer(resolved), service)
    created.clear()
    begun = begin(call, None, plans=True)
    assert begun.work is not None
    commit(call, begun.work, execute(call, begun.work, range(begun.work.num_tasks)))
    assert created.count(".hoodie/lock") == 2


def merged(path: Path) -> object:
    """A merge as processes of an engine run it."""
    plan = MergePlan(("id",), (Clause("matched", "update", "s.ts > 0", {"ts": "s.ts"}),))
    options = write_configuration(ALONE)
    call = plan_merge(write_target(str(path), options), plan, DATA.schema)
    staged = stage_source(pickle.loads(pickle.dumps(call)), TaskId(0), DATA.to_batches())
    assert staged is not None
    return commit_merge(pickle.loads(pickle.dumps(call)), [staged])


def updated(path: Path) -> object:
    """An update as the driver of an engine runs it."""
    options, change = write_configuration(ALONE), Update({"ts": "ts + 1"}, "id = 1")
    return run_change(write_target(str(path), options), change)


@pytest.mark.parametrize(("run", "reads"), [(updated, 3), (merged, 4)])
def test_a_small_statement_is_bound_once(
    tmp_path: Path,
    run: Callable[[Path], object],
    reads: int,
    calls: Calls,
    created: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(2):
        upsert(tmp_path / "t", "mor", DATA, ALONE)
    bound: list[object] = []
    for kind in (Update, Merge):
        original = kind.bind

        def noted(self: Any, *given: Any, original: Any = original) -> Any:
            bound.append(self)
            return original(self, *given)

        monkeypatch.setattr(kind, "bind", noted)
    created.clear()
    calls.clear()
    result = run(tmp_path / "t")
    assert isinstance(result, WriteResult)
    assert result.num_updated
    assert len(bound) == 1
    assert created.count(".hoodie/lock") == 2, "to begin and to commit"
    # a merge once to bind it, and like an update: without the table lock, to begin and to commit
    assert calls["names", ".hoodie/timeline"] <= reads
    assert calls["read", ".hoodie/hoodie.properties"] <= reads
