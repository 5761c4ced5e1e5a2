"""Versions of golden tables, changed up and down: rows, time travel, archive and files, beside what Apache Hudi 1.2.0
made of the same tables."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.properties import load_table_config
from tests.golden.tables import Extracted, load
from tests.support import archives
from tests.support.choice import cases

SERVICES = Path(__file__).resolve().parent / "services"
THEIRS: Mapping[str, Mapping[str, Any]] = json.loads((SERVICES / "upgrades" / "expected.json").read_text())
PATHS = {6: (8, 9, 8, 6), 8: (9, 8, 6, 8), 9: (8, 6, 8, 9)}
REFUSED = {"v6_mor_clustering_pending", "v6_mor_torn_log", "v9_mor_torn_log", "v9_cow_multi_partition"}
"""Logs that a pending clustering has, that are torn; keys that may have two forms."""
CHANGED = {"v6_mor_overwrite_latest", "v6_mor_debezium_mysql"}
"""Time travel merges their old logs as the new version does, or refuses to."""
UNINDEXED = {"v9_mor_long_unicode_keys"}
"""Apache Hudi left keys out of its record index."""
UNDEFINED = {"v6_cow_column_stats", "v6_cow_mdt_compaction"}
"""Column statistics of a release that did not define them: the next write builds them anew."""
NAMES = [name for name, table in load().items() if table.version in PATHS and name not in REFUSED]
_UNKEPT = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"}
"""Columns that a compaction changes."""


def change(path: str, to: int, *, dry_run: bool = False) -> Any:
    table = hudi_py.open_table(path)
    call = table.upgrade if to > version_of(path) else table.downgrade
    return call(to, dry_run=dry_run)


def version_of(path: str) -> int:
    return load_table_config(LocalStorage(path)).version


def rows(path: str, as_of: str | None = None) -> pa.Table:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Column .* is not read")
        found = hudi_py.open_table(path).scan(as_of=as_of).to_table()
    return found.drop_columns([name for name in found.column_names if name in _UNKEPT])


@pytest.mark.slow
@pytest.mark.parametrize("name", cases(NAMES, "upgrade", 10))
def test_through_all_versions(golden: Extracted, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    shutil.copytree(golden(name), path)
    before = rows(path)
    found = {finding.code for finding in hudi_py.open_table(path).doctor().findings}  # some have repeated keys
    times = {each.as_of for each in load()[name].expected if each.as_of and not each.error} - {None}
    earlier = {time: rows(path, time) for time in times} if name not in CHANGED else {}
    for to in PATHS[version_of(path)]:
        planned = change(path, to, dry_run=True)
        assert planned.steps
        assert planned.reason == "this was a dry run"
        report = change(path, to)
        assert (report.steps, report.properties) == (planned.steps, planned.properties)
        assert version_of(path) == to
        assert_rows_equal(rows(path), before)
        for time, expected in earlier.items():
            assert_rows_equal(rows(path, time), expected)
    assert change(path, to).steps == ()
    table = hudi_py.open_table(path)
    unbuilt = {"metadata.unfinished"} if name in UNDEFINED else set()
    assert unbuilt <= {finding.code for finding in table.doctor().findings} <= found | unbuilt, str(table.doctor())
    assert table.metadata.verify().ok is (name not in UNINDEXED)


def files(path: str) -> list[str]:
    config = load_table_config(LocalStorage(path))
    return [name for name in LocalStorage(path).names(config.timeline_folder) if name[0].isdigit()]


def test_the_files_and_properties_are_those_of_apache_hudi(golden: Extracted, tmp_path: Path) -> None:
    """All but what it leaves although no reader of the version knows it, and the payload class that it forgets."""
    path = str(tmp_path / "t")
    shutil.copytree(golden("v6_cow_archived"), path)
    archived = hudi_py.open_table(path).instants(archived=True)
    for to, name in (
        (8, "upgraded_6_to_8"),
        (9, "upgraded_8_to_9"),
        (8, "downgraded_9_to_8"),
        (6, "downgraded_8_to_6"),
    ):
        change(path, to)
        theirs = THEIRS[f"{name}_archived"]
        assert files(path) == theirs["timeline"]
        expected = dict(theirs["properties"])
        if to == 6:  # it builds an index of columns while it downgrades
            expected |= {"hoodie.table.metadata.partitions": "files"}
            for key in ("initial.version", "keygenerator.type", "index.defs.path"):
                del expected[f"hoodie.table.{key}"]
            del expected["hoodie.timeline.path"]
        assert load_table_config(LocalStorage(path)).properties == expected
        own = load_table_config(LocalStorage(f"{path}/.hoodie/metadata")).properties
        for key in ("hoodie.table.version", "hoodie.record.merge.mode", "hoodie.timeline.layout.version"):
            assert own.get(key) == theirs["metadata_properties"].get(key)
        found = hudi_py.open_table(path).instants(archived=True)
        assert found["instant"].to_pylist() == archived["instant"].to_pylist()
        assert found["completion_time"].to_pylist() == archived["completion_time"].to_pylist()


def test_a_downgrade_from_what_apache_hudi_upgraded(tmp_path: Path) -> None:
    """Its own downgrade loses two of the archived instants."""
    name = "upgraded_8_to_9_archived"
    for folder, there in (("kept", True), ("gone", False)):  # the old archive, which its upgrade leaves
        archives.extract(SERVICES / name / "table.tar.gz", tmp_path / folder)
        path = str(tmp_path / folder / name)
        if not there:
            shutil.rmtree(f"{path}/.hoodie/archived")
        before = hudi_py.open_table(path).instants(archived=True)
        report = change(path, 6)
        assert report.num_archived == (0 if there else before.num_rows - report.num_instants)
        after = hudi_py.open_table(path).instants(archived=True)
        for column in ("instant", "action", "completion_time"):
            assert after[column].to_pylist() == before[column].to_pylist()


def test_a_pending_clustering_stays(golden: Extracted, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    shutil.copytree(golden("v9_cow_clustering"), path)
    table = hudi_py.open_table(path)
    instant = table.clustering.schedule()
    before = rows(path)
    for to in (6, 9):
        change(path, to)
        assert hudi_py.open_table(path).clustering.pending() == [instant]
    assert hudi_py.open_table(path).clustering.run().instant == instant
    assert_rows_equal(rows(path), before)


def test_what_is_refused(golden: Extracted) -> None:
    path = str(golden("v6_mor_clustering_pending"))
    table = hudi_py.open_table(path)
    with pytest.raises(ConflictError, match="the pending clustering 20261121014433720 has file groups with logs"):
        table.upgrade(8)
    two_forms = hudi_py.open_table(str(golden("v9_cow_multi_partition")))
    with pytest.raises(ConfigError, match=r"COMPLEX with the single key field order_id"):
        two_forms.downgrade(8)
    for call, message in (
        (lambda: table.upgrade(7), "there is no version 7; supported versions are 6, 8, 9"),
        (lambda: two_forms.upgrade(8), "version 8 is older; use downgrade"),
        (lambda: table.downgrade(9), "version 9 is newer; use upgrade"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
