"""A lake of small tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import hudi_py

OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
"""Hardly waits for the skew of clocks."""
BY_HAND = {**OPTIONS, "hoodie.table.services.enabled": "false"}


def make(
    path: Path,
    kind: str = "cow",
    version: int = 9,
    writes: int = 2,
    *,
    part: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Path:
    """A table whose 12 rows were written so many times, without services."""
    for ts in range(writes):
        rows = [{"id": f"{n}", "ts": ts, "city": ("oslo", "lima")[n % 2], "fare": n * 1.5} for n in range(12)]
        hudi_py.write(
            path,
            rows,
            options={**BY_HAND, **(options or {})},
            table_type=kind,
            table_version=version,
            record_key="id",
            ordering_by="ts",
            partition_by=part,
        )
    return path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of each version, two of which are due for compaction, and one for a clean."""
    lake = tmp_path_factory.mktemp("tending") / "lake"
    make(lake / "sales" / "trips", "mor", 9, 6, part="city")
    make(lake / "sales" / "rides", "mor", 6, 6)
    make(lake / "sales" / "young", "mor", 8, 2)
    make(lake / "hr" / "many", "cow", 9, 13)
    make(lake / "hr" / "many" / "below", "cow", 8)
    (lake / "_staging" / "x").mkdir(parents=True)
    (lake / "plain" / "day=1").mkdir(parents=True)
    (lake / "plain" / "day=1" / "rows.parquet").write_bytes(b"x")
    return lake


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    """A copy that the test may change."""
    target = tmp_path / "lake"
    shutil.copytree(made, target)
    return target


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Callable[[str], Path]:
    """`table("sales/trips")` is a copy of one table, alone in its folder."""

    def copy(name: str) -> Path:
        target = tmp_path / "one" / name.rpartition("/")[2]
        shutil.copytree(made / name, target)
        return target

    return copy


def rows_of(path: Path) -> list[dict[str, object]]:
    """The rows by key, without meta columns."""
    found: list[dict[str, object]] = hudi_py.open_table(path).scan(meta=False).to_table().sort_by("id").to_pylist()
    return found
