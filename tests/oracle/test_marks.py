"""What hudi-py keeps of its own in `.hoodie`: the mark of a first write in the properties, and the note of writes that
left keys unique. Apache Hudi works with both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.model.properties import FIRST_WRITE
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.properties import load_table_config, update_table_config
from tests.oracle.client import Oracle
from tests.support.choice import cases

pytestmark = pytest.mark.nightly

INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
MARK = '{"id":"11111111-1111-1111-1111-111111111111","host":"elsewhere","pid":1,"started":1}'
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


def rows(first: int, last: int, ts: int = 1) -> pa.Table:
    numbers = range(first, last)
    parts = [f"p{number % 2}" for number in numbers]
    return pa.table(
        {"id": [f"k{n}" for n in numbers], "p": parts, "ts": [ts] * len(parts), "v": [n * ts for n in numbers]}
    )


@pytest.mark.parametrize(
    ("version", "kind"), cases([(6, "mor"), (6, "cow"), (8, "mor"), (9, "cow"), (9, "mor")], "marks", 1)
)
def test_apache_hudi_keeps_them(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    path, note = tmp_path / "t", tmp_path / "t" / ".hoodie" / ".index_defs" / "record_keys.json"
    storage = LocalStorage(str(path))
    settings: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
    hudi_py.write(path, rows(0, 20), table_type=TYPES[kind], table_version=version, options=INDEX, **settings)
    hudi_py.open_table(path).upsert(rows(5, 12, 2), options=INDEX)
    noted = note.read_text()
    update_table_config(storage, {FIRST_WRITE: MARK})  # as a writer leaves it that is killed after its commit

    def check(step: str) -> None:
        assert load_table_config(storage).properties[FIRST_WRITE] == MARK, step
        assert note.read_text() == noted, step
        ours = hudi_py.open_table(path)
        whole = ours.scan().to_table()
        assert_rows_equal(whole, oracle.read(path))
        for key in ("k6", "k11", "k23"):
            expected = whole.filter(pc.equal(whole["id"], key))
            assert_rows_equal(ours.scan(keys=[key]).to_table(), expected)
        report = oracle.check(path)
        assert report["problems"] == [], (step, report["problems"])
        assert "validate_metadata_table_files" in report, step
        assert not ours.doctor().of("files.corrupt"), step

    check("read")
    oracle.write(path, rows(10, 25, 3), options={**INDEX, "hoodie.clean.commits.retained": "1"})
    oracle.write(path, rows(3, 5, 4), "delete", options=INDEX)
    check("upsert and delete")
    if kind == "mor":
        oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')")
    oracle.call(path, "run_clean(table => '{table}', retain_commits => 1)")
    oracle.call(path, "run_clustering(table => '{table}')")
    check("services")
    oracle.call(path, "delete_metadata_table(table => '{table}')")
    oracle.write(path, rows(20, 22, 5), options=INDEX)
    check("metadata table made anew")
    if version < 9:
        oracle.call(path, "upgrade_table(table => '{table}', to_version => 'NINE')")
        check("upgrade")
    oracle.call(path, f"downgrade_table(table => '{{table}}', to_version => '{'SIX' if version == 6 else 'EIGHT'}')")
    oracle.write(path, rows(21, 23, 6), options={"hoodie.metadata.enable": "true"})
    check("downgrade")
    # what has rows is never made anew, whatever its mark says
    hudi_py.write(path, rows(30, 31))
    assert hudi_py.open_table(path).scan(keys=["k30", "k6"]).count() == 2
    assert FIRST_WRITE not in load_table_config(storage).properties


def test_the_first_release_works_with_them(oracle_015: Oracle, tmp_path: Path) -> None:
    path, storage = tmp_path / "t", LocalStorage(str(tmp_path / "t"))
    settings: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_version": 6}
    hudi_py.write(path, rows(0, 20), table_type="MERGE_ON_READ", options=INDEX, **settings)
    update_table_config(storage, {FIRST_WRITE: MARK})
    oracle_015.write(path, rows(10, 25, 3))
    oracle_015.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')")
    oracle_015.call(path, "run_clean(table => '{table}', retain_commits => 1)")
    assert oracle_015.check(path)["problems"] == []
    assert_rows_equal(hudi_py.open_table(path).scan().to_table(), oracle_015.read(path))
    assert hudi_py.open_table(path).scan(keys=["k11", "k24"]).count() == 2
    # it leaves out what it does not know when it writes the properties: a table with commits needs no mark
    assert FIRST_WRITE not in load_table_config(storage).properties
