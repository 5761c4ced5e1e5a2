"""Tables that hudi-py has made of files: Apache Hudi reads them and works on them by turns with hudi-py."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.inspect.procedures import procedure_report
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.support.choice import cases
from tests.support.sources import contents, rows, source

pytestmark = pytest.mark.slow

SELECTOR = "org.apache.hudi.client.bootstrap.selector."
MIXED = {
    "hoodie.bootstrap.mode.selector": f"{SELECTOR}BootstrapRegexModeSelector",
    "hoodie.bootstrap.mode.selector.regex": ".*oslo",
}
ROWS = [
    (version, kind, style, extension, mixed)
    for version in (6, 8, 9)
    for kind in ("cow", "mor")
    for style in ("hive", "plain", "flat")
    for extension in ("parquet", "orc")
    for mixed in (False, True)
    if not (mixed and style == "flat") and not (extension == "orc" and kind == "mor")
]


def procedure(path: Path, name: str, **given: Any) -> list[tuple[Any, ...]]:
    report = procedure_report(str(path), Options.resolve({}, Scope.READ), name, given)
    return [tuple(row.values()) for row in report.to_pylist()]


def compare(oracle: Oracle, path: Path) -> dict[str, int]:
    found = hudi_py.open_table(str(path)).scan().to_table()
    assert_rows_equal(found, oracle.read(path))
    assert oracle.check(path)["problems"] == []
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


@pytest.mark.parametrize(("version", "kind", "style", "extension", "mixed"), cases(ROWS, "bootstrap by turns", 1))
def test_by_turns(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, style: str, extension: str, mixed: bool
) -> None:
    folder, path = source(tmp_path / "source", style, extension), tmp_path / "t"
    before = contents(folder)
    partition = None if style == "flat" else "city"
    made = hudi_py.bootstrap(
        str(path),
        str(folder),
        record_key="id",
        partition_by=partition,
        ordering_by="ts",
        table_type=kind,
        table_version=version,
        options=MIXED if mixed else {},
    )
    assert made.num_inserted == 12
    expected = {f"k{each}": each for each in range(12)}
    assert compare(oracle, path) == expected
    shown = oracle.call(path, "show_bootstrap_mapping(table => '{table}', limit => 100)")
    ours = procedure(path, "show_bootstrap_mapping", limit=100)
    assert sorted(tuple(row.values()) for row in shown) == sorted(ours)
    shown = oracle.call(path, "show_bootstrap_partitions(table => '{table}')")
    assert [tuple(row.values()) for row in shown] == procedure(path, "show_bootstrap_partitions")
    oracle.write(path, rows([1, 20], "oslo", n=100), partition=partition or "")
    expected |= {"k1": 100, "k20": 100}
    assert compare(oracle, path) == expected
    hudi_py.write(str(path), rows([2, 8], "rome", n=200).set_column(3, "city", [["oslo", "rome"]]))
    expected |= {"k2": 200, "k8": 200}
    assert compare(oracle, path) == expected
    table = hudi_py.open_table(str(path))
    if kind == "mor":
        oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')")
        assert compare(oracle, path) == expected
        hudi_py.write(str(path), rows([9], "rome", n=300))
        expected |= {"k9": 300}
        table.compact(options={"hoodie.compact.inline.max.delta.commits": "1"})
        assert compare(oracle, path) == expected
    table.cluster("n")
    assert compare(oracle, path) == expected
    oracle.write(path, rows([3], "oslo", n=400), partition=partition or "")
    expected |= {"k3": 400}
    oracle.call(path, "run_clean(table => '{table}', retain_commits => 1)")
    assert compare(oracle, path) == expected
    table.clean(options={"hoodie.clean.commits.retained": "1"})
    assert compare(oracle, path) == expected
    assert contents(folder) == before


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "mixed"), cases(product(("cow", "mor"), (False, True)), "versions of bootstrapped tables", 1)
)
def test_versions_change(oracle: Oracle, tmp_path: Path, kind: str, mixed: bool) -> None:
    """The metadata table has been compacted at a time made of the bootstrap's."""
    folder, path = source(tmp_path / "source", "hive"), tmp_path / "t"
    options = {"hoodie.metadata.compact.max.delta.commits": "1", **(MIXED if mixed else {})}
    new: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering_by": "ts", "table_type": kind}
    hudi_py.bootstrap(str(path), str(folder), table_version=6, options=options, **new)
    expected = {f"k{number}": number for number in range(12)}
    for turn, version in enumerate((9, 8)):
        table = hudi_py.open_table(str(path))
        (table.downgrade if turn else table.upgrade)(version)
        assert compare(oracle, path) == expected
        oracle.write(path, rows([turn], "oslo", n=100), partition="city")
        hudi_py.write(str(path), rows([2 + turn], "oslo", n=200), options={"hoodie.write.auto.upgrade": "false"})
        expected |= {f"k{turn}": 100, f"k{2 + turn}": 200}
        assert compare(oracle, path) == expected
