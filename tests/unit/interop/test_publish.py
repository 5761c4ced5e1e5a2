"""Tables published to Iceberg, and read by pyiceberg: rows are those of a scan, whatever happened to the table."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, TableNotFoundError, UnsupportedTableError
from hudi_py.interop.iceberg import publish, unpublish
from hudi_py.storage import LocalStorage
from tests.meta.sources import ROOT
from tests.support.iceberg import assert_published, iceberg_table, metadata, newest, read

pytest.importorskip("pyiceberg")
pytestmark = pytest.mark.slow  # tests/unit/cli/test_iceberg.py has a quick one

QUICK = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.enable": "false",
}
ENABLED = {**QUICK, "hoodie.py.iceberg.enable": "true"}
KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering_by": "ts"}
CITIES = ("oslo", "lima", "rome")


def rows(ts: int, first: int = 0, count: int = 9) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "ts": pa.array([ts] * count, pa.int64()),
            "city": [CITIES[n % 3] for n in numbers],
            "fare": [n * 1.5 + ts for n in numbers],
            "tags": [{"a": n, "b": [str(n)]} if n % 2 else None for n in numbers],
        }
    )


def make(path: Path, kind: str = "mor", options: dict[str, str] | None = None) -> hudi_py.Table:
    hudi_py.write(path, rows(1), options=options or QUICK, **KEYED, table_type=kind)
    return hudi_py.open_table(path, options or QUICK)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_by_turns(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    first = publish(table)
    assert (first.changed, first.added_files, first.removed_files, first.delete_files) == (True, 3, 0, 0)
    assert_published(tmp_path)
    table.upsert(rows(2, 3, 2))
    table.delete("id = 'k8'")
    after = publish(table)
    # one file group for each of two upserts and a delete
    if kind == "cow":
        assert (after.added_files, after.removed_files, after.delete_files) == (3, 3, 0)
    else:
        assert (after.removed_files, after.delete_files) == (0, 3)
    assert assert_published(tmp_path).num_rows == 8
    again = publish(table)
    assert not again.changed
    assert again.location == after.location
    assert str(again).startswith(f"commit {after.instant} was published before: file://")
    table.upsert(rows(3, 20, 4))
    if kind == "mor":
        table.compact()
    publish(table)
    assert_published(tmp_path)
    table.delete_partition("oslo")
    publish(table)
    assert assert_published(tmp_path).column("city").unique().to_pylist() in (["lima", "rome"], ["rome", "lima"])
    # each state that was published can still be read
    counts = [read(tmp_path, snapshot_id=each["snapshot-id"]).num_rows for each in metadata(tmp_path)["snapshots"]]
    assert counts[:3] == [9, 8, 12]


def test_slices_of_which_logs_replace_everything_or_that_have_only_logs(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(2))
    assert publish(table).delete_files == 0  # the base files have no row left
    assert_published(tmp_path)
    table.upsert(rows(3, 0, 1))
    publish(table)
    assert_published(tmp_path)
    bucket = {**QUICK, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    other = tmp_path / "b"
    hudi_py.write(other, rows(1), options=bucket, **KEYED, table_type="mor")
    hudi_py.write(other, rows(2, 2, 5), options=bucket)
    publish(other)
    assert_published(other)
    hudi_py.open_table(other, bucket).delete("ts > 0")
    publish(other)
    assert assert_published(other).num_rows == 0


def test_base_files_only(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(2, 3, 2))
    publish(table, base_files_only=True)
    assert_published(tmp_path, query_type="read_optimized")
    assert not (tmp_path / "metadata" / "rows").exists()
    publish(table)
    assert_published(tmp_path)
    publish(table, base_files_only=True)
    assert_published(tmp_path, query_type="read_optimized")


def test_unchanged_slices_are_not_merged_again(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(2, 3, 2))
    publish(table)
    sides = {each.name for each in (tmp_path / "metadata" / "rows").iterdir()}
    table.upsert(rows(3, 5, 1))  # the third partition
    report = publish(table)
    assert (report.added_files, report.removed_files) == (2, 0)
    assert sides < {each.name for each in (tmp_path / "metadata" / "rows").iterdir()}
    assert_published(tmp_path)


def test_time_travel_goes_as_far_as_hudi_has_not_cleaned(tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    for ts in range(2, 5):
        publish(table)
        table.upsert(rows(ts, 0, 3))
    publish(table)
    files = len(list((tmp_path / "metadata").iterdir()))
    table.clean(options={"hoodie.clean.commits.retained": "1"})
    assert publish(table).expired_snapshots == 2
    found = metadata(tmp_path)
    for snapshot in found["snapshots"]:
        assert read(tmp_path, snapshot_id=snapshot["snapshot-id"]).num_rows == 9
    assert len(found["snapshots"]) == 3
    assert len(list((tmp_path / "metadata").iterdir())) < files
    assert not publish(table).changed


def test_few_snapshots_and_metadata_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_py.interop.iceberg.metadata._METADATA_LOG", 2)
    table = make(tmp_path)
    for ts in range(2, 7):
        table.upsert(rows(ts, 3, 1))
        publish(table, max_snapshots=2)
    assert len(metadata(tmp_path)["snapshots"]) == 2
    names = [each.name for each in (tmp_path / "metadata").iterdir()]
    assert len([name for name in names if name.endswith(".json")]) == 3
    assert len([name for name in names if "-snapshot-" in name]) == 2
    # a side file that was removed is needed by the snapshot before
    assert len(list((tmp_path / "metadata" / "rows").iterdir())) == 4
    for snapshot in metadata(tmp_path)["snapshots"]:
        assert read(tmp_path, snapshot_id=snapshot["snapshot-id"]).num_rows == 9
    with pytest.raises(ConfigError, match="max_snapshots must be at least 1"):
        publish(table, max_snapshots=0)


def test_many_small_manifests_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hudi_py.interop.iceberg import snapshot

    monkeypatch.setattr(snapshot, "_MAX_SMALL_MANIFESTS", 2)
    monkeypatch.setattr(snapshot, "MANIFEST_FILES", 10)
    table = make(tmp_path, "cow")
    for ts in range(2, 6):
        publish(table)
        table.insert(rows(ts, 9 * ts, 3), options={**QUICK, "hoodie.parquet.small.file.limit": "0"})
    publish(table)
    assert_published(tmp_path)
    found = iceberg_table(newest(tmp_path))
    assert len(found.current_snapshot().manifests(found.io)) <= 3


def test_published_after_each_commit_service_and_restore(tmp_path: Path) -> None:
    table = make(tmp_path, options=ENABLED)
    result = table.upsert(rows(2, 3, 2))
    assert result.services == ("iceberg",)
    assert assert_published(tmp_path).num_rows == 9
    saved = table.savepoint()
    table.upsert(rows(3, 0, 4))
    table.compact()
    summary = metadata(tmp_path)["snapshots"][-1]["summary"]
    assert summary["total-delete-files"] == "0"
    assert_published(tmp_path)
    table.restore(saved.savepoint)
    assert max(assert_published(tmp_path).column("ts").to_pylist()) == 2


def test_what_was_published_on_demand_is_published_again_after_a_rollback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    table.upsert(rows(2, 3, 2))
    publish(table, base_files_only=True)
    last = table.upsert(rows(3, 3, 2))
    table.rollback(last)
    assert_published(tmp_path, query_type="read_optimized")
    last = table.upsert(rows(3, 3, 2))
    monkeypatch.setattr("hudi_py.interop.iceberg.run.publish_table", _failing)
    table.rollback(last)
    assert not (tmp_path / "metadata" / "version-hint.text").exists()
    assert "does not show the rollback" in caplog.text


def _failing(*_: object, **more: object) -> None:
    raise OSError("no space is left\nin detail")


def test_a_publication_that_fails_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr("hudi_py.interop.iceberg.publication.expire", _failing)
        result = hudi_py.write(tmp_path, rows(1), options=ENABLED, **KEYED)
    assert result.services == ()
    assert f"does not show commit {result.instant}: no space is left; the next commit publishes it" in caplog.text
    # what it had written is gone
    assert [each.name for each in (tmp_path / "metadata").iterdir()] == []
    hudi_py.write(tmp_path, rows(2, 50, 1), options=ENABLED)
    assert assert_published(tmp_path).num_rows == 10


def test_who_comes_later_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    publish(table)
    table.upsert(rows(2, 3, 2))
    put = LocalStorage.put_if_absent
    tries = []

    def overtaken(self: LocalStorage, path: str, data: bytes) -> bool:
        if path.endswith(".metadata.json"):
            tries.append(path)
            if len(tries) == 1:
                monkeypatch.setattr(LocalStorage, "put_if_absent", put)
                publish(str(tmp_path))
                monkeypatch.setattr(LocalStorage, "put_if_absent", overtaken)
        return put(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", overtaken)
    assert not publish(table).changed
    assert_published(tmp_path)
    sides = list((tmp_path / "metadata" / "rows").iterdir())
    assert len(sides) == 4  # none of the one that gave up
    table.upsert(rows(3, 3, 2))
    monkeypatch.setattr(LocalStorage, "put_if_absent", lambda self, path, data: False)
    with pytest.raises(ConflictError, match="other publications came first 10 times"):
        publish(table)


def test_what_may_be_committed_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    put = LocalStorage.put_if_absent

    def lost(self: LocalStorage, path: str, data: bytes) -> bool:
        done = put(self, path, data)
        if path.endswith(".metadata.json"):
            raise OSError("the answer was lost")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put_if_absent", lost)
        with pytest.raises(OSError, match="the answer was lost"):
            publish(table)
    assert not publish(table).changed
    table.upsert(rows(2, 3, 2))
    publish(table)
    assert_published(tmp_path)
    table.upsert(rows(3, 3, 2))
    with monkeypatch.context() as patch:  # the store repeats a request
        patch.setattr(LocalStorage, "put_if_absent", lambda *args: put(*args) and put(*args))
        publish(table)
    assert_published(tmp_path)


def test_a_hint_that_is_behind_or_lost(tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    publish(table)
    table.upsert(rows(2, 3, 2))
    assert publish(table).location.endswith("/v2.metadata.json")
    hint = tmp_path / "metadata" / "version-hint.text"
    hint.write_text("1")
    assert not publish(table).changed
    hint.unlink()
    table.upsert(rows(3, 3, 2))
    assert publish(table).location.endswith("/v3.metadata.json")
    assert hint.read_text() == "3"


def test_unpublished(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(2, 3, 2))
    before = table.scan().to_table()
    assert unpublish(table) == 0
    publish(table)
    assert unpublish(str(tmp_path)) > 5
    assert [each for each in (tmp_path / "metadata").rglob("*") if each.is_file()] == []
    assert table.scan().to_table().equals(before)
    publish(table)
    (tmp_path / "metadata" / "v1.metadata.json").write_text("[")
    with pytest.raises(hudi_py.CorruptFileError, match="unpublish the table and publish it again"):
        publish(table)
    unpublish(table)
    assert [each for each in (tmp_path / "metadata").rglob("*") if each.is_file()] == []
    publish(table)
    assert_published(tmp_path)


def test_what_others_wrote_is_left_alone(tmp_path: Path) -> None:
    table = make(tmp_path)
    publish(table)
    path = tmp_path / "metadata" / "v1.metadata.json"
    found = json.loads(path.read_text())
    found["properties"] = {"XTABLE_METADATA": "..."}
    path.write_text(json.dumps(found))
    for act in (publish, unpublish):
        with pytest.raises(UnsupportedTableError, match="from another program"):
            act(table)
    assert path.exists()


def test_readers_of_hudi_tables_see_nothing_of_it(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(2, 3, 2))
    before = table.files()
    publish(table)
    assert table.files().equals(before)
    assert table.scan(options={"hoodie.metadata.enable": "false"}).count() == 9
    assert [each.code for each in table.doctor().findings if each.code.startswith("files.")] == []


def test_options_that_contradict_each_other(tmp_path: Path) -> None:
    for more, why in (
        ({"catalog": "glue"}, "expected namespace.table"),
        ({"table": "lake.trips"}, "and no catalog"),
        ({"catalog": "c", "table": "a.b", "catalog.properties": "uri"}, "expected key=value"),
    ):
        options = {**ENABLED, **{f"hoodie.py.iceberg.{key}": value for key, value in more.items()}}
        with pytest.raises(ConfigError, match=why):
            hudi_py.write(tmp_path / "t", rows(1), options=options, **KEYED)
    assert not (tmp_path / "t").exists()


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        publish(tmp_path / "none")
    table = make(tmp_path / "t")
    with pytest.raises(ConfigError, match="without a catalog"):
        publish(table, name="lake.trips")
    with pytest.raises(ConfigError, match=r"expected a name namespace\.table"):
        publish(table, "glue", "trips")
    publish(table)
    with pytest.raises(ConfigError, match="give that location, or unpublish it first"):
        publish(table, location="s3://lake/t")
    hudi_py.write("memory://ice/t", rows(1), options=QUICK, **KEYED)
    with pytest.raises(ConfigError, match="no other program can read a table in memory"):
        publish("memory://ice/t")


def test_locations_are_those_of_the_engines(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows(2, 3, 2))
    report = publish(table, location="abfss://lake@account.dfs.core.windows.net/t/")
    assert report.location == "abfss://lake@account.dfs.core.windows.net/t/metadata/v1.metadata.json"
    text = (tmp_path / "metadata" / "v1.metadata.json").read_text()
    assert str(tmp_path) not in text
    table.upsert(rows(3, 3, 2))
    publish(table, location="abfss://lake@account.dfs.core.windows.net/t")
    unpublish(table)
    assert [each for each in (tmp_path / "metadata").rglob("*") if each.is_file()] == []


def test_the_example_of_the_document_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "iceberg.md").read_text(encoding="utf-8")
    block = text.split("```python\n")[1].split("```")[0]
    exec(block.replace("/tmp/trips", str(tmp_path)), {"print": str})
    assert assert_published(tmp_path).column("fare").to_pylist() in ([13.0, 7.0], [7.0, 13.0])


def test_columns_with_nan_have_no_bounds(tmp_path: Path) -> None:
    """Engines in which NaN is the greatest number would leave out its rows by them; Arrow's statistics ignore NaN."""

    def data(*values: float) -> pa.Table:
        numbers = pa.array(values, pa.float64())
        nested = pa.StructArray.from_arrays([numbers], ["y"])
        return pa.table(
            {
                "id": list(range(len(values))),
                "x": numbers,
                "plain": pa.array(values).is_nan().cast("double"),
                "s": nested,
            }
        )

    hudi_py.write(tmp_path, data(1.0, float("nan"), 3.0), record_key="id", table_type="mor", options=QUICK)
    table = hudi_py.open_table(tmp_path, QUICK)
    publish(table)
    bounded = [
        {field for field, low in each["readable_metrics"].items() if low["lower_bound"] is not None}
        for each in iceberg_table(newest(tmp_path)).inspect.data_files().to_pylist()
    ]
    assert [names & {"id", "x", "plain"} for names in bounded] == [{"id", "plain"}]
    table.upsert(data(float("nan"), 2.0))
    publish(table)
    sides = sorted(tmp_path.rglob("*-rows.parquet"))
    assert len(sides) == 1
    footer = pq.read_metadata(sides[0])
    columns = {
        footer.row_group(0).column(at).path_in_schema: footer.row_group(0).column(at)
        for at in range(footer.num_columns)
    }
    assert [name for name in ("id", "x", "plain", "s.y") if columns[name].is_stats_set] == ["id"]
    assert_published(tmp_path)
