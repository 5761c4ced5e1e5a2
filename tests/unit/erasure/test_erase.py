"""Erasing rows from every file. The tests look for what is left themselves: in the bytes of every file, in what is
compressed in them, and in the columns of Avro and Parquet files."""

from __future__ import annotations

import contextlib
import io
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.erasure import run
from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError, SchemaMismatchError
from hudi_py.interop import iceberg
from hudi_py.services.clean import execute
from hudi_py.transaction.recovery.failed_writes import recover_failed_writes
from hudi_py.transaction.session import TableSession
from tests.support.renamed import renamed

BY_HAND = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.compression.codec": "uncompressed",
}
INDEXES = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
NONE = {"hoodie.metadata.enable": "false"}
CDC = {"hoodie.table.cdc.enabled": "true"}
KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
JANE, EMAIL = b"person-jane", b"zz-jane"
NOW = "email = 'zz-jane-2@example.com'"


def rows(ts: int, *names: str) -> list[dict[str, object]]:
    """Jane has the greatest address, so that statistics of columns have it."""
    everyone = names or ("ann", "bob", "jane", "joe")
    return [
        {
            "id": f"person-{name}",
            "p": "ab"[len(name) % 2],
            "ts": ts,
            "email": f"{_initial(name)}{name}-{ts}@example.com",
        }
        for name in everyone
    ]


def _initial(name: str) -> str:
    return "zz-" if name == "jane" else ""


def make(path: Path, *, version: int = 9, kind: str = "cow", **options: str) -> hudi_py.Table:
    given = {**BY_HAND, **options}
    for ts in range(3):
        hudi_py.write(path, rows(ts), "upsert", given, table_type=kind, table_version=version, **KEYED)
    return hudi_py.open_table(path, given)


def holding(path: Path, *needles: bytes) -> list[str]:
    """The files in which any of these bytes are, relative to the table."""
    found = []
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        if any(needle in part for part in parts_of(file) for needle in needles):
            found.append(str(file.relative_to(path)))
    return found


def parts_of(file: Path) -> Iterator[bytes]:
    data = file.read_bytes()
    yield data
    for magic, bits in ((b"\x1f\x8b\x08", 31), (b"\x78\x9c", 15), (b"\x78\x5e", 15), (b"\x78\xda", 15)):
        at = data.find(magic)
        while at >= 0:
            with contextlib.suppress(zlib.error):
                yield zlib.decompressobj(bits).decompress(data[at:])
            at = data.find(magic, at + 1)
    if data[:4] == b"Obj\x01":
        yield repr(list(fastavro.reader(io.BytesIO(data)))).encode()
    elif data[:4] == b"PAR1":
        yield repr(pq.read_table(io.BytesIO(data)).to_pylist()).encode()


def shown(table: hudi_py.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.scan(["id", "p", "ts", "email"]).to_table().sort_by("id").to_pylist()
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("version", "kind", "options", "published"),
    [
        (9, "cow", INDEXES | CDC, True),
        (9, "mor", INDEXES, True),
        (9, "mor", {"hoodie.logfile.data.block.format": "parquet"}, False),
        (8, "mor", INDEXES | CDC, False),
        (8, "cow", NONE | CDC | {"hoodie.table.cdc.supplemental.logging.mode": "op_key_only"}, False),
        (6, "cow", INDEXES, True),
        (6, "mor", INDEXES, False),
        (6, "mor", NONE, False),
    ],
)
def test_nothing_is_left(tmp_path: Path, version: int, kind: str, options: dict[str, str], published: bool) -> None:
    path = tmp_path / "t"
    table = make(path, version=version, kind=kind, **options)
    if options.keys() >= INDEXES.keys() and version > 6:
        table.index("by_email", "email")
        table.index("low", "email", using="column_stats", index_options={"expr": "lower"})
    if published:
        iceberg.publish(table)
    others = [row for row in shown(table) if row["id"] != JANE.decode()]
    before = holding(path, JANE, EMAIL)
    plan = table.preview_erase(NOW)
    assert (plan.num_rows, plan.in_the_way, plan.searched.unread) == (1, (), {})
    assert {trace.path for trace in plan.searched.traces} >= {
        file
        for file in before
        if not file.startswith((".hoodie/metadata/partition_stats", ".hoodie/metadata/expr_index", "metadata/"))
    }
    assert holding(path, JANE, EMAIL) == before

    report = table.erase(NOW, reference="4711")
    assert report.complete, str(report)
    assert holding(path, JANE, EMAIL) == []
    assert {*report.removed} >= {file for file in before if not file.startswith((".hoodie/metadata", "metadata/"))}
    assert (report.steps[0].what, report.reference) == ("delete", "4711")
    assert JANE.decode() not in str(report.to_dict())
    assert not table.preview_erase(keys=[JANE.decode()]).needed

    assert shown(table) == others
    assert table.metadata.verify().ok if NONE.items() - options.items() else True
    diagnosis = table.doctor(full=True)
    assert diagnosis.healthy, str(diagnosis)
    if "hoodie.table.cdc.enabled" in options:
        with pytest.raises(HistoryCleanedError):
            table.scan(query_type="cdc", begin="000").to_table()
    table.upsert(rows(9, "ann", "jim"))
    assert [row["ts"] for row in shown(table)] == [9, 2, 9, 2]
    if published:
        iceberg.publish(table)
        assert holding(path, JANE, EMAIL) == []


def test_rows_that_were_true_before_stay(tmp_path: Path) -> None:
    table = make(tmp_path / "t", kind="mor", **INDEXES)
    table.delete_where("id = 'person-joe'")
    # Jane's and Ann's old addresses, and all of Joe, who had one of them and is deleted
    report = table.erase("email IN ('zz-jane-1@example.com', 'ann-0@example.com', 'joe-0@example.com')")
    assert report.complete, str(report)
    assert [step.what for step in report.steps] == ["compaction", "clean", "indexes"]
    assert holding(tmp_path / "t", b"zz-jane-1", b"ann-0", b"person-joe", b"joe-") == []
    assert [(row["id"], row["ts"]) for row in shown(table)] == [
        (f"person-{name}", 2) for name in ("ann", "bob", "jane")
    ]


def test_keys_are_erased_in_all_partitions_and_only_there(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    first = table.history()["instant"][0].as_py()
    other = {"id": "person-jane", "p": "c", "ts": 1, "email": "other@example.com"}
    table.upsert([other])
    assert table.erase(NOW).complete
    assert [row for row in shown(table) if row["id"] == "person-jane"] == [other]
    assert table.erase(keys="person-jane").complete
    assert holding(path, JANE) == []
    assert [row["id"] for row in shown(table)] == ["person-ann", "person-bob", "person-joe"]
    with pytest.raises(HistoryCleanedError):
        table.scan(as_of=first).to_table()
    assert "nothing was to be erased" in str(table.erase(keys=["person-jane"]))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_all_rows_of_a_key(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    table = make(path, kind=kind, **NONE)
    for ts in (3, 4):
        table.insert(rows(ts, "jane"))
    assert table.preview_erase(keys=["person-jane"]).num_rows == 3
    assert table.erase(keys=["person-jane"]).complete
    assert holding(path, JANE, EMAIL) == []
    assert len(shown(table)) == 3


def test_file_groups_that_were_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path, **INDEXES)
    table.insert_overwrite_table(rows(5, "ann", "bob"))
    assert holding(path, EMAIL)
    assert table.erase(keys=["person-jane"]).complete
    assert holding(path, JANE, EMAIL) == []
    assert [row["ts"] for row in shown(table)] == [5, 5]


def test_savepoints_are_named_and_deleted_if_they_may_be(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    saved = table.savepoint().savepoint
    before = sorted(each for each in path.rglob("*"))
    assert table.preview_erase(NOW).savepoints == (saved,)
    with pytest.raises(ConflictError, match=f"the savepoint {saved} keeps files .* nothing was changed"):
        table.erase(NOW)
    assert sorted(each for each in path.rglob("*")) == before
    report = table.erase(NOW, delete_savepoints=True)
    assert report.complete
    assert [step.what for step in report.steps] == ["delete", "savepoint", "clean", "indexes"]
    assert holding(path, JANE, EMAIL) == []


def test_what_else_is_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path, kind="mor")
    planned = table.compaction.schedule()
    kept = path / ".hoodie/.hudi_py_repair/20260101000000000-abc/kept/a"
    base = next(path.glob("a/*.parquet"))
    kept.mkdir(parents=True)
    shutil.copy(base, kept / base.name)
    instant = base.name.rpartition("_")[2].partition(".")[0]
    stranger = base.with_name(base.name.replace(instant, "29990101000000000"))
    stranger.write_bytes(renamed(base.read_bytes(), stranger.name))
    running = [path / f".hoodie/timeline/29991231000000000.deltacommit.{state}" for state in ("requested", "inflight")]
    for file in running:
        file.touch()
    found = table.preview_erase(keys=["person-jane"]).in_the_way
    assert [text.split(";")[0] for text in found] == [
        "the deltacommit 29991231000000000 of another engine is under way",
        f"the pending compaction {planned} has file groups with the rows",
        "the repair 20260101000000000-abc keeps files with the rows",
        f"a/{stranger.name} belongs to no completed write",
    ]
    with pytest.raises(ConflictError, match="under way.*pending compaction.*the repair.*belongs to no completed write"):
        table.erase(keys=["person-jane"])
    for file in running:
        file.unlink()
    table.compact()
    table.health.forget("20260101000000000-abc")
    stranger.unlink()
    assert table.erase(keys=["person-jane"]).complete


def test_another_write_meanwhile_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", **NONE)

    def meanwhile(session: TableSession) -> None:
        table.upsert(rows(7))
        recover_failed_writes(session)

    monkeypatch.setattr(run, "recover_failed_writes", meanwhile)
    with pytest.raises(ConflictError, match="since its rows were read"):
        table.erase(keys=["person-jane"])
    assert [row["ts"] for row in shown(table)] == [7, 7, 7, 7]


def test_logs_of_other_file_groups_are_compacted_later(tmp_path: Path) -> None:
    table = make(tmp_path / "t", kind="mor")
    table.erase(keys=["person-jane"])
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    assert [len(row["log_files"]) for row in table.files().to_pylist()] == [0, 2]
    table.upsert([{"id": "person-jill", "p": "a", "ts": 1, "email": None}], options=inline)
    assert [len(row["log_files"]) for row in table.files().to_pylist()] == [0, 0]


def test_what_is_left_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = make(path, **INDEXES)
    stuck = next(path.glob("a/*.parquet")).name
    delete = execute._delete_file
    monkeypatch.setattr(
        execute, "_delete_file", lambda storage, file: "busy" if file[1] == stuck else delete(storage, file)
    )
    report = table.erase(NOW)
    assert not report.complete
    left = {trace.path: trace.note for trace in report.left if trace.kind != "index"}
    assert left == {f"a/{stuck}": "could not be deleted"}
    assert f"a/{stuck}" in holding(path, JANE)
    left = {trace.path for trace in report.left}
    assert all(file in left or "/partition_stats/" in file for file in holding(path, JANE, EMAIL))
    assert f"a/{stuck}: base file, 1 (could not be deleted)" in str(report)
    monkeypatch.undo()
    assert table.erase(keys=["person-jane"]).complete
    assert holding(path, JANE, EMAIL) == []


def test_files_that_cannot_be_read_and_texts_with_a_key_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    (path / "notes.txt").write_text("ask person-jane; not person-janet")
    torn = path / ".hoodie/.hudi_py_repair/x/kept/a/f-0_0-1-0_20200101000000000.parquet"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"no Parquet file")
    report = table.erase(NOW)
    assert not report.complete
    assert [(trace.path, trace.kind, trace.count) for trace in report.left] == [("notes.txt", "other", 1)]
    assert list(report.after.unread) == [str(torn.relative_to(path))]


def test_arguments(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for given in ({}, {"filter": NOW, "keys": ["person-jane"]}):
        with pytest.raises(ConfigError, match="give a filter, or record keys"):
            table.erase(**given)
    with pytest.raises(SchemaMismatchError, match="column 'mail', which does not exist"):
        table.erase("mail = 'x'")
