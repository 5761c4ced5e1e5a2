"""Tables of old releases, upgraded: rows, time travel, archive and properties, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.services.upgrade.properties import changed_properties
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.properties import load_table_config, update_table_config
from tests.golden.old.tables import extract, load
from tests.support.choice import cases

KEPT = {"hoodie.skip.default.partition.validation": "true"}
"""Takes the partition `default`, which most tables of versions 2 to 4 have."""
HIVE, ENCODED = (f"hoodie.datasource.write.{name}" for name in ("hive_style_partitioning", "partitionpath.urlencode"))
KEYGEN = "hoodie.table.keygenerator.class"
THEIRS: Mapping[str, Mapping[str, str | None]] = {
    "v2_cow": {HIVE: "true", ENCODED: "false"},
    "v2_mor": {HIVE: "true", ENCODED: "false"},
    "v2_mor_archived": {HIVE: "false", ENCODED: "false"},
    "v2_mor_layout_0": {HIVE: "true", ENCODED: "false", KEYGEN: "org.apache.hudi.keygen.SimpleKeyGenerator"},
}
"""What a write of Apache Hudi 0.15.0 to tables of version 2 changes besides the version, if its options have the right
names of partitions. It changes nothing else of tables of versions 3 to 5."""
_UNKEPT = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"}
"""Columns that a compaction changes."""


def properties_of(path: Path) -> Mapping[str, str]:
    return load_table_config(LocalStorage(str(path))).properties


def answers(name: str, path: Path) -> dict[str, pa.Table]:
    """The rows of every query of the manifest which the table answers."""
    table, found = hudi_py.open_table(str(path)), {}
    for query in load()[name]:
        scan = {"as_of": query.as_of} if query.as_of is not None else {"query_type": query.kind, "begin": query.begin}
        try:
            found[query.id] = table.scan(**scan).to_table()  # type: ignore[arg-type]
        except HistoryCleanedError:
            continue
    return found


def bare(rows: pa.Table) -> pa.Table:
    named = (name for name in rows.column_names if name.startswith("_hoodie_") and name != "_hoodie_is_deleted")
    return rows.drop_columns(list(named))


@pytest.mark.slow
@pytest.mark.parametrize("name", cases(list(load()), "old upgrade", 8))
def test_through_all_versions(tmp_path: Path, name: str) -> None:
    path = extract(name, tmp_path)
    table, stored = hudi_py.open_table(str(path)), dict(properties_of(path))
    version, instants = table.version, table.instants(archived=True)
    before, expected = answers(name, path), table.scan().to_table()
    planned = table.upgrade(6, dry_run=True, options=KEPT)
    assert properties_of(path) == stored
    report = table.upgrade(6, options=KEPT)
    assert (report.source, report.target) == (version, 6)
    assert (report.steps, report.properties) == (planned.steps, planned.properties)
    assert report.undo.startswith(f"downgrade_table of Apache Hudi 0.14 or 0.15 to version {version}, since")
    changed = {key: text for key, text in report.properties.items() if not key.startswith("hoodie.table.metadata.")}
    if name in THEIRS or version > 2:
        layout = {"hoodie.timeline.layout.version": "1"} if name.endswith("layout_0") else {}
        assert changed == {**THEIRS.get(name, {}), **layout, "hoodie.table.version": "6"}
    compacted = load_table_config(LocalStorage(str(path))).is_mor
    for query, rows in answers(name, path).items():
        if not compacted:
            assert_rows_equal(rows, before[query])
        elif "snapshot" in query or "time_travel" in query:  # others show rows of logs as well
            assert_rows_equal(rows.drop_columns(list(_UNKEPT)), before[query].drop_columns(list(_UNKEPT)))
    if compacted:
        assert hudi_py.open_table(str(path)).scan(query_type="read_optimized").count() == expected.num_rows
    assert not list((path / ".hoodie" / ".aux").glob("*.requested"))
    assert not (path / ".hoodie" / "metadata").exists()
    now = hudi_py.open_table(str(path)).instants(archived=True)
    assert {*instants["instant"].to_pylist()} <= {*now["instant"].to_pylist()}
    assert compacted or now.num_rows == instants.num_rows
    assert table.upgrade(6).reason == "the table has version 6 already"
    often = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    assert hudi_py.write(str(path), bare(expected).slice(0, 1), options=often).num_updated == 1
    assert hudi_py.open_table(str(path)).metadata.verify().ok
    for to in (8, 9):
        table.upgrade(to)
        found = hudi_py.open_table(str(path)).scan().to_table()
        assert_rows_equal(found.drop_columns(list(_UNKEPT)), expected.drop_columns(list(_UNKEPT)))
    assert {each.code for each in table.doctor().findings} <= {"leftovers.markers"}


def test_at_once_to_the_newest_version(tmp_path: Path) -> None:
    """With a compaction whose plan is only in the auxiliary folder, and a write that failed."""
    path = extract("v2_mor_layout_0", tmp_path)
    meta = path / ".hoodie"
    (requested,) = meta.glob("*.compaction.requested")
    requested.rename(requested.with_suffix(".inflight"))
    newest = max(meta.glob("*.deltacommit"))
    newest.rename(newest.with_suffix(".deltacommit.inflight"))
    table = hudi_py.open_table(str(path))
    before = table.scan().to_table()
    report = table.upgrade(options=KEPT)
    assert [step for step in report.steps if "copied from .hoodie/.aux" in step]
    assert [step for step in report.steps if step.startswith("1 pending write rolled back")]
    assert [limit for limit in report.limits if "rows of the partition city=default keep it" in limit]
    assert (report.source, report.target) == (2, 9)
    assert report.undo.startswith("hudi-py downgrade PATH --to 6, then downgrade_table of Apache Hudi")
    assert report.properties["hoodie.table.keygenerator.type"] == "SIMPLE"
    found = hudi_py.open_table(str(path))
    assert_rows_equal(found.scan().to_table().drop_columns(list(_UNKEPT)), before.drop_columns(list(_UNKEPT)))
    assert not found.timeline.pending
    assert found.metadata.verify().ok


def test_nulls_in_the_partition_default_are_refused(tmp_path: Path) -> None:
    path = extract("v4_cow", tmp_path)
    table = hudi_py.open_table(str(path))
    stored = dict(properties_of(path))
    for to in (6, 9):
        with pytest.raises(
            ConfigError, match=r"with a null partition value to city=default.*give hoodie\.skip\."
        ) as it:
            table.upgrade(to)
        assert it.value.key == "hoodie.skip.default.partition.validation"
    assert properties_of(path) == stored
    table.upgrade(6, options=KEPT)
    rows = table.scan(filter="city = 'default'").to_table()
    assert rows.num_rows
    # as the documentation moves them
    moved = bare(rows).set_column(bare(rows).column_names.index("city"), "city", pa.nulls(rows.num_rows, pa.string()))
    everything = table.scan().count()
    table.upsert(moved)
    table.delete_partition(["city=default"])
    assert table.scan(filter="city is null").count() == rows.num_rows
    assert table.scan().count() == everything


def test_a_metadata_table_is_built_anew(tmp_path: Path) -> None:
    path = extract("v5_12_mor_metadata", tmp_path)
    table = hudi_py.open_table(str(path))
    report = table.upgrade(6)
    assert report.steps[0] == "the metadata table of the old release deleted; the next write builds it anew"
    assert report.properties["hoodie.table.metadata.partitions"] is None
    hudi_py.write(str(path), bare(table.scan().to_table()).slice(0, 1))
    assert hudi_py.open_table(str(path)).metadata.verify().ok


def test_what_version_2_does_not_store(tmp_path: Path) -> None:
    """Names of partitions are taken from the folders, and the key generator is compared with the rows."""
    path = extract("v2_cow", tmp_path)
    table, storage = hudi_py.open_table(str(path)), LocalStorage(str(path))
    with pytest.raises(ConfigError, match=rf"with {HIVE}=false: its partitions have names such as city=default"):
        table.upgrade(6, options={**KEPT, HIVE: "false"})
    assert table.upgrade(6, dry_run=True, options={**KEPT, HIVE: "true"}).properties[HIVE] == "true"
    (path / "city=oslo").rename(path / "city=os%20lo")
    with pytest.raises(ConfigError, match=rf"its partition city=os%20lo may be url-encoded.*give {ENCODED}=true"):
        hudi_py.open_table(str(path)).upgrade(6, options=KEPT)
    (path / "city=os%20lo").rename(path / "oslo")
    with pytest.raises(ConfigError, match=r"such as city=default, and others are not, such as oslo"):
        hudi_py.open_table(str(path)).upgrade(6, options=KEPT)
    (path / "oslo").rename(path / "city=oslo")
    update_table_config(storage, {KEYGEN: None})
    chosen = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"}
    with pytest.raises(ConfigError, match=r"rows have another record key \('.' in city=.*makes \('id:.'\), which"):
        table.upgrade(6, options={**KEPT, **chosen})
    update_table_config(storage, {"hoodie.table.recordkey.fields": None})
    with pytest.raises(ConfigError, match=r"does not store its record key; give hoodie\.datasource\.write\.recordkey"):
        table.upgrade(6, options=KEPT)
    for wrong, message in (("name", "another record key"), ("id", "")):
        given = {**KEPT, "hoodie.datasource.write.recordkey.field": wrong}
        if message:
            with pytest.raises(ConfigError, match=message):
                table.upgrade(6, options=given)
        else:
            assert table.upgrade(6, options=given).properties["hoodie.table.recordkey.fields"] == wrong
    assert properties_of(path)[KEYGEN] == "org.apache.hudi.keygen.SimpleKeyGenerator"


def test_what_is_under_way_is_refused(tmp_path: Path) -> None:
    path = extract("v5_13_mor", tmp_path)
    meta, table = path / ".hoodie", hudi_py.open_table(str(path))
    (meta / "20261121092505171.deltacommit.requested").touch()
    (meta / "20261121092505171.deltacommit.inflight").touch()
    with pytest.raises(ConflictError, match="the deltacommit 20261121092505171 of another engine is under way"):
        table.upgrade(6)
    assert "1 pending write rolled back, unless under way" in table.upgrade(6, dry_run=True).steps
    for file in meta.glob("20261121092505171.*"):
        file.unlink()
    (meta / "20261121092505171.rollback.inflight").touch()
    with pytest.raises(ConflictError, match="the rollback 20261121092505171 was killed, and as of a release before"):
        table.upgrade(6)
    assert hudi_py.open_table(str(path)).version == 5


def test_a_failed_write_is_rolled_back(tmp_path: Path) -> None:
    path = extract("v5_12_cow", tmp_path)
    (path / ".hoodie" / "20261121081419014.commit").unlink(missing_ok=True)
    newest = max(each.name for each in (path / ".hoodie").glob("*.inflight") if each.name.count(".") == 1)
    (path / ".hoodie" / newest.replace("inflight", "commit")).unlink(missing_ok=True)
    table = hudi_py.open_table(str(path))
    before = table.scan().to_table()
    assert [step for step in table.upgrade(6).steps if "pending write" in step]
    found = hudi_py.open_table(str(path))
    assert_rows_equal(found.scan().to_table(), before)
    assert not found.timeline.pending
    assert found.timeline.completed[-1].action is Action.ROLLBACK


def test_there_is_no_way_below_version_6(tmp_path: Path) -> None:
    path = extract("v5_13_mor_ordering_string", tmp_path)
    table = hudi_py.open_table(str(path))
    with pytest.raises(hudi_py.UnsupportedTableError, match=r"upgrade it with Table\.upgrade\(\)"):
        table.downgrade(4)
    table.upgrade(6)
    for call in (table.downgrade, table.upgrade):
        with pytest.raises(ConfigError, match=r"versions before 6 are only read, and Apache Hudi 0\.14 and 0\.15 down"):
            call(5)


def test_a_killed_upgrade_is_swept(tmp_path: Path) -> None:
    """Copies of plans are left if it dies after the properties are replaced."""
    path = extract("v5_13_mor", tmp_path)
    aux, kept = path / ".hoodie" / ".aux", tmp_path / "aux"
    shutil.copytree(aux, kept)
    table = hudi_py.open_table(str(path))
    table.upgrade(6)
    for to in (6, 8):
        shutil.copytree(kept, aux, dirs_exist_ok=True)
        table.upgrade(to)
        assert not list(aux.glob("*.requested"))


def test_version_6_with_layout_0(tmp_path: Path) -> None:
    """As Apache Hudi 0.15.0 leaves it."""
    path = extract("v2_cow_layout_0", tmp_path)
    update_table_config(LocalStorage(str(path)), {"hoodie.table.version": "6", HIVE: "true"})
    table = hudi_py.open_table(str(path))
    before = table.scan().to_table()
    with pytest.raises(hudi_py.UnsupportedTableError, match=r"timeline layout 0.*upgrade it with Table\.upgrade\(\)"):
        hudi_py.write(str(path), bare(before).slice(0, 1))
    assert table.upgrade(6).properties == {"hoodie.timeline.layout.version": "1"}
    assert_rows_equal(table.scan().to_table(), before)
    row = table.scan(filter="city = 'oslo'", limit=1).to_table()
    assert hudi_py.write(str(path), bare(row)).num_updated == 1


@pytest.mark.parametrize(("version", "keygen"), [(2, "Complex"), (3, None)])
def test_properties_of_each_step(version: int, keygen: str | None) -> None:
    keys = {"hoodie.table.recordkey.fields": "a,b", "hoodie.table.partition.fields": "c"}
    config = TableConfig({"hoodie.table.name": "t", "hoodie.table.version": str(version), **keys})
    found = changed_properties(config, 6, Options.resolve({}, defaults={}))
    assert found.get(KEYGEN) == (f"org.apache.hudi.keygen.{keygen}KeyGenerator" if keygen else None)
    assert found["hoodie.table.version"] == "6"
