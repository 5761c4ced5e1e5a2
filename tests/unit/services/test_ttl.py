"""Partition TTL: which partitions expire by each strategy, every door, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hudi_py
from hudi_py.cli.main import main
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.model.instant import Action
from hudi_py.services import ttl
from hudi_py.services.ttl import PartitionTime
from hudi_py.storage import LocalStorage
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.write.operations.overwrite import groups_to_delete
from tests.faults.tables import KINDS

IDS = [f"v{version}-{kind}" for version, kind in KINDS]
QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "20"}
DAYS = "hoodie.partition.ttl.strategy.days.retain"
TYPE = "hoodie.partition.ttl.management.strategy.type"
CLASS = "hoodie.partition.ttl.strategy.class"
LIMIT = "hoodie.partition.ttl.strategy.max.delete.partitions"
SELECTED = "hoodie.partition.ttl.strategy.partition.selected"
INLINE = "hoodie.partition.ttl.inline"
DAY_MS = 24 * 60 * 60 * 1000


def put(path: Path, keys: str, partition: str, ts: int = 1, options: dict[str, str] | None = None, **made: Any) -> str:
    """Upsert a row for each letter, and return the instant."""
    rows = [{"k": key, "p": partition, "ts": ts} for key in keys]
    return str(hudi_py.write(str(path), rows, "upsert", {**QUICK, **(options or {})}, **made).instant)


def make(path: Path, version: int = 9, kind: str = "mor") -> None:
    """Partitions a, b and c, written in this order."""
    made = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": kind, "table_version": version}
    for turn, partition in enumerate("abc"):
        put(path, partition.upper(), partition, **(made if not turn else {}))


def left(path: Path) -> dict[str, int]:
    rows = hudi_py.open_table(str(path)).scan(["p", "ts"]).to_table().to_pylist()
    return {row["p"]: row["ts"] for row in rows}


def pass_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the TTL take what is written until now for older than a day, and what is written later for younger."""
    now = wall_clock_ms() + DAY_MS
    monkeypatch.setattr(ttl, "wall_clock_ms", lambda: now)


class NotB:
    """A strategy by which all expire but b."""

    def expired(self, partitions: Sequence[PartitionTime]) -> Iterable[str]:
        assert [each.path for each in partitions] == ["a", "b", "c"]
        assert partitions[0].written < partitions[1].written < partitions[2].written
        return [each.path for each in partitions if each.path != "b"]


class Strange:
    def expired(self, partitions: Sequence[PartitionTime]) -> Iterable[str]:
        return ["elsewhere"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "kind"), KINDS, ids=IDS)
def test_what_expires_and_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    """An update, which may be in a log alone, is a write; it is no creation."""
    make(tmp_path, version, kind)
    pass_a_day(monkeypatch)
    put(tmp_path, "A", "a", 2)
    table = hudi_py.open_table(str(tmp_path), QUICK)
    assert table.ttl().reason == f"{DAYS} = -1 retains all partitions"
    assert table.ttl(retain_days=2).reason == "no partition has expired"
    created = table.ttl(strategy="keep_by_creation_time", retain_days=1, dry_run=True)
    assert created.partitions == ("a", "b", "c")
    shown = table.ttl(retain_days=1, dry_run=True)
    assert (shown.instant, shown.partitions, shown.num_file_groups) == (None, ("b", "c"), 2)
    assert left(tmp_path) == {"a": 2, "b": 1, "c": 1}
    report = table.ttl(retain_days=1)
    assert (report.partitions, report.num_left, report.reason) == (("b", "c"), 0, "")
    assert str(report) == f"ttl {report.instant}: 2 partitions (b, c) expired, 2 file groups"
    assert left(tmp_path) == {"a": 2}
    table = hudi_py.open_table(str(tmp_path), QUICK)
    newest = table.timeline.write_completed[-1]
    assert (newest.time, newest.action) == (report.instant, Action.REPLACE_COMMIT)
    metadata = read_commit_metadata(LocalStorage(str(tmp_path)), table.timeline.layout, newest)
    assert (metadata.operation, list(metadata.stats)) == ("DELETE_PARTITION", [])
    assert set(metadata.replaced) == {"b", "c"}
    assert table.metadata.verify().ok
    assert table.ttl(retain_days=1).reason == "no partition has expired"


def test_archived_updates_of_version_6_are_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log files have the name of their base instant, and the commits that wrote them may be archived."""
    make(tmp_path, 6)
    pass_a_day(monkeypatch)
    put(tmp_path, "A", "a", 2)
    for _ in range(6):
        put(tmp_path, "D", "d")
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    assert hudi_py.open_table(str(tmp_path), QUICK).archive(options=few).num_instants >= 4
    assert hudi_py.open_table(str(tmp_path), QUICK).ttl(retain_days=1).partitions == ("b", "c")


def test_many_days_and_selected_and_limited_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    table = hudi_py.open_table(str(tmp_path), {**QUICK, LIMIT: "1"})
    for days in (25, 50, 100, 10**9):  # with which Apache Hudi 1.2.0 computes in 32 bits
        assert table.ttl(retain_days=days).instant is None
    pass_a_day(monkeypatch)
    assert table.ttl(retain_days=1, partitions=["c", "unknown"], dry_run=True).partitions == ("c",)
    report = table.ttl(retain_days=1, options={SELECTED: "c,b"})
    assert (report.partitions, report.num_left) == (("b",), 1)
    assert left(tmp_path) == {"a": 1, "c": 1}


def test_every_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    pass_a_day(monkeypatch)
    table = hudi_py.open_table(str(tmp_path), QUICK)
    assert [each for each in table.services.due() if each.service == "ttl"] == []
    (due,) = [each for each in table.services.due(options={DAYS: "1"}) if each.service == "ttl"]
    assert (due.due, due.reason) == (True, "3 partitions expired")
    ran = CliRunner().invoke(
        main,
        ["run", str(tmp_path), "ttl", "--retain-days=1", "--partitions=a", "--yes", "--json"],
        catch_exceptions=False,
    )
    assert json.loads(ran.stdout)["partitions"] == ["a"]
    assert table.services.run("ttl", retain_days="1", partitions="b").to_dict()["partitions"] == ("b",)
    written = hudi_py.write(
        str(tmp_path), [{"k": "D", "p": "d", "ts": 1}], options={**QUICK, INLINE: "true", DAYS: "1"}
    )
    assert list(written.services) == ["ttl"]
    assert left(tmp_path) == {"d": 1}


@pytest.mark.parametrize("name", ["KeepByTimeStrategy", "org.apache.hudi.table.action.ttl.strategy.KeepByTimeStrategy"])
def test_classes_prevail_over_the_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    make(tmp_path)
    pass_a_day(monkeypatch)
    put(tmp_path, "A", "a", 2)
    given = {**QUICK, DAYS: "1", TYPE: "keep_by_creation_time"}
    table = hudi_py.open_table(str(tmp_path), {**given, CLASS: name})
    assert table.ttl(dry_run=True).partitions == ("b", "c")
    assert table.ttl(strategy="KEEP_BY_CREATION_TIME", dry_run=True).partitions == ("a", "b", "c")


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "mor")])
def test_a_class_in_python(tmp_path: Path, version: int, kind: str) -> None:
    make(tmp_path, version, kind)
    table = hudi_py.open_table(str(tmp_path), {**QUICK, CLASS: f"{__name__}:NotB"})
    assert table.ttl().partitions == ("a", "c")
    assert left(tmp_path) == {"b": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({TYPE: "KEEP_FOREVER"}, "KEEP_FOREVER"),
        ({DAYS: "soon"}, "expected"),
        ({LIMIT: "0"}, "at least 1"),
        ({CLASS: "com.example.Strategy"}, "or module:Class"),
        ({CLASS: "no.such.module:Class"}, "the module must be importable"),
        ({CLASS: f"{__name__}:Path"}, "is not a strategy: it needs a method expired"),
        ({CLASS: f"{__name__}:Strange"}, "returned 'elsewhere', which is not one of the partitions"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    make(tmp_path)
    with pytest.raises(ConfigError, match=message):
        hudi_py.open_table(str(tmp_path), {**QUICK, DAYS: "1", **options}).ttl()
    if "Strange" not in str(options):
        with pytest.raises(ConfigError, match=message):  # before the write
            put(tmp_path, "E", "e", options={DAYS: "1", INLINE: "true", **options})
    assert left(tmp_path) == {"a": 1, "b": 1, "c": 1}


def test_an_inline_flag_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="true or false"):
        put(tmp_path, "E", "e", options={INLINE: "perhaps"}, record_key="k")


def test_a_pending_plan_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, 9, "cow")
    pass_a_day(monkeypatch)
    table = hudi_py.open_table(str(tmp_path), QUICK)
    planned = table.clustering.schedule(options={"hoodie.clustering.plan.strategy.sort.columns": "ts"})
    assert planned is not None
    with pytest.raises(ConflictError, match="drop it with unschedule"):
        table.ttl(retain_days=1)
    assert left(tmp_path) == {"a": 1, "b": 1, "c": 1}
    table.services.unschedule(planned)
    assert table.ttl(retain_days=1).partitions == ("a", "b", "c")


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_a_write_beside_it_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    make(tmp_path, version, kind)
    pass_a_day(monkeypatch)
    several = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    choose = groups_to_delete

    def late(*given: Any) -> Any:
        groups = choose(*given)
        put(tmp_path, "A", "a", 2, several)
        return groups

    monkeypatch.setattr(ttl, "groups_to_delete", late)
    with pytest.raises(ConflictError, match="completed since this write began"):
        hudi_py.open_table(str(tmp_path), {**QUICK, **several}).ttl(retain_days=1)
    assert left(tmp_path) == {"a": 2, "b": 1, "c": 1}


def test_a_table_without_partitions(tmp_path: Path) -> None:
    hudi_py.write(str(tmp_path), [{"k": "a", "ts": 1}], record_key="k", options=QUICK)
    table = hudi_py.open_table(str(tmp_path), {**QUICK, DAYS: "1"})
    assert table.ttl().reason == "the table has no partitions"
    assert [each for each in table.services.due() if each.service == "ttl"] == []


def test_creation_times_of_parquet_metafiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a metafile, a partition is kept."""
    key = "hoodie.partition.metafile.use.base.format"
    put(tmp_path, "A", "a", options={key: "true"}, record_key="k", partition_by="p")
    put(tmp_path, "B", "b")
    (tmp_path / "b" / ".hoodie_partition_metadata.parquet").unlink()
    pass_a_day(monkeypatch)
    table = hudi_py.open_table(str(tmp_path), QUICK)
    assert table.ttl(strategy="keep_by_creation_time", retain_days=1).partitions == ("a",)
