"""The doctor names each planted fault, finds nothing in healthy tables, and changes nothing."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import StorageError
from hudi_py.health import CODES, Severity
from hudi_py.health.diagnose import diagnose
from hudi_py.health.facts import ListedStorage
from hudi_py.health.findings import Diagnosis, Finding
from hudi_py.storage import MemoryStorage, open_storage
from tests.golden.old import tables as old
from tests.golden.tables import Extracted, load
from tests.support.choice import cases
from tests.support.damage import files_of
from tests.support.ill_tables import BY_NAME, FAULTS, OPTIONS, Fault, newest_file
from tools.doctor_page import doctor_page

ILL = {
    "v6_cow_orc": {"keys.duplicate"},  # inserted twice
    "v6_mor_inflight": {"timeline.dead_write"},
    "v6_mor_rollback": {"files.stranger"},  # a failed write, of which a file is left
    "v6_mor_torn_log": {"files.short"},
    "v8_mor_rollback": {"files.stranger"},
    "v9_cow_expression_index": {"metadata.index"},  # Apache Hudi left its second index without records
    "v9_cow_insert_dups": {"keys.duplicate"},
    "v9_cow_schema_on_read": {"keys.duplicate"},
    "v9_cow_vector": {"keys.duplicate"},
    "v9_mor_all_types": {"metadata.index"},  # Apache Hudi bounds binary columns in logs by signed bytes
    "v9_mor_inflight": {"timeline.dead_write"},
    "v9_mor_long_unicode_keys": {"index.record"},  # Apache Hudi loses keys that come back after a delete
    "v9_mor_torn_log": {"files.short"},
}
"""Golden tables that are not healthy, and what is wrong with them."""


@pytest.fixture
def ill(made: Callable[[int, str], Path], tmp_path: Path) -> Callable[[Fault, int, str], Path]:
    """`ill(fault, version, kind)` is a copy of a healthy table with a fault planted."""

    def plant(fault: Fault, version: int, kind: str) -> Path:
        path = tmp_path / "t"
        shutil.copytree(made(version, kind), path)
        fault.plant(path)
        return path

    return plant


def examine(path: Path, fault: Fault | None = None, **more: str) -> Diagnosis:
    options = {**(fault.options if fault else {}), **more}
    return diagnose(open_storage(path), options, full=fault is not None and fault.full)


def rows(path: Path) -> list[tuple[object, ...]]:
    found = hudi_py.open_table(path).scan(["id", "p", "ts", "v"]).to_table()
    return sorted(tuple(row.values()) for row in found.to_pylist())


EVERY = [(fault.name, version, kind) for fault in FAULTS for version in fault.versions for kind in fault.kinds]


def test_faults_are_many() -> None:
    assert len(EVERY) > 200
    assert len(FAULTS) >= 60
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize(("name", "version", "kind"), cases(EVERY, "ill tables", 30))
def test_a_fault_is_named(name: str, version: int, kind: str, ill: Callable[[Fault, int, str], Path]) -> None:
    fault = BY_NAME[name]
    path = ill(fault, version, kind)
    before = files_of(path)
    found = examine(path, fault)
    severity = CODES[fault.code].severity
    worst = {finding.code for finding in found.findings if finding.severity >= severity}
    if severity is not Severity.NOTICE:
        assert worst == {fault.code}, str(found)
        assert not found.healthy
    else:
        assert fault.code in worst
        assert found.healthy, str(found)
    assert json.loads(json.dumps(found.to_dict()))["findings"][0]["code"] == found.findings[0].code
    assert files_of(path) == before


@pytest.mark.parametrize(("version", "kind"), cases([(v, k) for v in (6, 8, 9) for k in ("cow", "mor")], "healthy", 2))
def test_a_healthy_table_has_no_findings(version: int, kind: str, made: Callable[[int, str], Path]) -> None:
    path = made(version, kind)
    for full in (False, True):
        found = diagnose(open_storage(path), OPTIONS, full=full)
        assert not found.findings, str(found)
        assert not found.skipped
        assert len(found.checked) == (4 if full else 3)


@pytest.mark.parametrize("name", cases([(name,) for name in load()], "golden tables and the doctor", 4))
def test_golden_tables_are_as_healthy_as_they_should_be(name: str, golden: Extracted) -> None:
    found = diagnose(open_storage(golden(name)), full=True)
    bad = {finding.code for finding in found.findings if finding.severity >= Severity.WARNING}
    assert bad == ILL.get(name, set()), str(found)


@pytest.mark.parametrize("name", cases([(name,) for name in old.load()], "old tables and the doctor", 2))
def test_old_tables_are_healthy(name: str, tmp_path: Path) -> None:
    found = diagnose(open_storage(old.extract(name, tmp_path)), full=True)
    assert found.healthy, str(found)
    assert found.of("release.read_only")
    assert not found.of("metadata.unusable")


def test_keys_in_several_partitions_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for part in ("a", "b"):  # the row was meant to move
        hudi_py.write(path, [{"id": "1", "p": part}, {"id": part, "p": part}], record_key="id", partition_by="p")
    found = examine(tmp_path / "t")
    (finding,) = found.of("keys.partitions")
    assert "rows of several partitions share 1 key; for example '1'" in finding.what
    assert finding.details["keys"] == 1
    assert found.healthy
    hudi_py.open_table(path).delete("p = 'a'")
    assert not examine(tmp_path / "t").of("keys.partitions")


def test_every_code_is_planted_or_found_elsewhere() -> None:
    elsewhere = {"files.small", "files.long_slice", "index.record", "metadata.index"}
    elsewhere |= {"environment.spark", "environment.java", "files.nested_partition", "examination.stopped"}
    elsewhere |= {"keys.partitions"}
    assert CODES.keys() - {fault.code for fault in FAULTS} == elsewhere


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_no_damage_of_the_metadata_table_stops_it(
    version: int, kind: str, made: Callable[[int, str], Path], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(made(version, kind), tmp_path / "t"))
    metadata = path / ".hoodie/metadata"
    rows_of = {name: sorted(each for each in (metadata / name).iterdir()) for name in ("record_index", "files")}
    # the largest log or base file of each partition has records that are looked up
    victims = [max(files, key=lambda each: each.stat().st_size) for files in rows_of.values()]
    siblings = [next(each for each in files if each not in victims) for files in rows_of.values()]
    for victim, sibling in zip(victims, siblings, strict=True):
        whole = victim.read_bytes()
        for damage in (None, b"", whole[: len(whole) // 2], sibling.read_bytes(), whole[::-1]):
            victim.unlink()
            if damage is not None:
                victim.write_bytes(damage)
            for full in (False, True):
                found = diagnose(open_storage(path), OPTIONS, full=full)
                assert not found.of("examination.stopped"), str(found)
                if full:
                    assert not found.healthy, (victim.name, damage and len(damage))
            victim.write_bytes(whole)
    assert diagnose(open_storage(path), OPTIONS, full=True).healthy


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(
    made: Callable[[int, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copytree(made(9, "cow"), tmp_path / "t"))
    newest_file(path).unlink()

    def check_clock(facts: object) -> Iterator[Finding]:
        raise OverflowError("a date of the year 99999")
        yield

    examination = importlib.import_module("hudi_py.health.diagnose")
    checks = tuple(check_clock if check.__name__ == "check_clock" else check for check in examination._OF_TIMELINE)
    monkeypatch.setattr(examination, "_OF_TIMELINE", checks)
    found = diagnose(open_storage(path), OPTIONS)
    (stopped,) = found.of("examination.stopped")
    assert stopped.what == "the examination of clock was stopped by an error: OverflowError: a date of the year 99999"
    assert found.of("files.missing")

    def check_length(facts: object) -> Iterator[Finding]:
        raise StorageError("the store cannot be reached")
        yield

    monkeypatch.setattr(examination, "_OF_TIMELINE", (check_length,))
    with pytest.raises(StorageError, match="cannot be reached"):
        diagnose(open_storage(path), OPTIONS)
    with pytest.raises(hudi_py.ConfigError):
        diagnose(open_storage(path), {"hoodie.keep.min.commits": "9", "hoodie.keep.max.commits": "3"})


def test_the_page_is_current_and_its_example_runs(made: Callable[[int, str], Path], tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "doctor.md"
    text = page.read_text("utf-8")
    assert text == doctor_page(), "run: python -m tools.doctor_page > docs/doctor.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    path = Path(shutil.copytree(made(9, "cow"), tmp_path / "t"))
    BY_NAME["staging left"].plant(path)
    before = files_of(path)
    known: dict[str, Any] = {}
    exec(code.replace('"/data/trips"', repr(str(path))), known)
    assert known["diagnosis"].healthy
    assert known["report"].id
    assert files_of(path) == before


def test_an_examination_cannot_change_the_storage() -> None:
    storage = MemoryStorage("health-listed")
    storage.put("a/b", b"x")
    listed = ListedStorage(storage)
    assert [info.path for info in listed.list("a")] == ["a/b"]
    storage.put("a/c", b"y")
    assert [info.path for info in listed.list("a")] == ["a/b"]  # listed once
    changes: list[Callable[[], object]] = [
        lambda: listed.put("a/b", b""),
        lambda: listed.put_if_absent("a/d", b""),
        lambda: listed.open_output("a/b"),
        lambda: listed.delete("a/b"),
        lambda: listed.delete_tree("a"),
        lambda: listed.rename("a/b", "a/d"),
        lambda: listed.touch("a/b"),
    ]
    for change in changes:
        with pytest.raises(PermissionError, match="changes nothing"):
            change()
    assert storage.read("a/b") == b"x"


def test_there_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(hudi_py.TableNotFoundError, match="there is no timeline"):
        hudi_py.doctor(tmp_path / "nothing")


def test_small_files_and_long_slices(made: Callable[[int, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_py.health.files._MIN_SMALL_FILES", 1)
    monkeypatch.setattr("hudi_py.health.files._MAX_LOGS", 0)
    found = examine(made(9, "mor"))
    assert {finding.code for finding in found.findings} == {"files.small", "files.long_slice"}
    assert found.healthy
    assert found.worst is Severity.NOTICE


def test_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: Callable[[int, str], Path]
) -> None:
    found = hudi_py.doctor(made(9, "cow"))
    assert {"hudi-py", "hudi_py", "python", "pyarrow"} <= set(found.environment)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '9.9|/elsewhere/hudi_py/__init__.py'\n")
    python.chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = hudi_py.doctor(made(9, "cow"))
    assert [finding.code for finding in found.findings] == ["environment.spark", "environment.java"]
    assert "/elsewhere/" in found.findings[0].what
    assert "11.0.2" in found.findings[1].what
    assert found.healthy
