"""The commands that publish a table to Iceberg."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.iceberg import assert_published
from tests.unit.cli.conftest import Run


def test_published_and_removed(cli: Run, trips: Path) -> None:
    pytest.importorskip("pyiceberg")
    out = cli("iceberg", "publish", trips).out
    assert out.startswith("Published commit 2")
    assert f"file://{trips}/metadata/v1.metadata.json (" in out
    assert_published(trips)
    assert "was published before" in cli("iceberg", "publish", trips).out
    found = cli("iceberg", "publish", trips, "--base-files-only", "--max-snapshots", "1", "--json").json
    assert (found["changed"], found["expired_snapshots"]) == (True, 1)
    assert_published(trips, query_type="read_optimized")
    assert "confirm with --yes" in cli("iceberg", "unpublish", trips, code=2).err
    assert cli("iceberg", "unpublish", trips, "--yes").out.startswith("Removed ")
    assert cli("iceberg", "unpublish", trips, "--yes", "--json").json == {"deleted_files": 0}
    assert cli("iceberg", "unpublish", trips, "--yes").out == "Nothing was published.\n"


def test_what_is_wrong(cli: Run, trips: Path) -> None:
    assert "without a catalog" in cli("iceberg", "publish", trips, "--name", "lake.trips", code=2).err
    assert "expected a name namespace.table" in cli("iceberg", "publish", trips, "--catalog", "c", code=2).err
