"""The whole metadata table made, completed and removed by one call."""

from __future__ import annotations

from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError
from hudi_py.wiring import IndexChange

STATS = {"hoodie.metadata.index.column.stats.enable": "true"}


def change(path: Path, action: str, **options: str) -> list[str]:
    """The partitions that the table then has."""
    IndexChange(action).run(str(path), Options.resolve(options, Scope.WRITE))
    return sorted(
        filter(None, hudi_py.open_table(path).properties.get("hoodie.table.metadata.partitions", "").split(","))
    )


def test_a_metadata_table_is_made_completed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    hudi_py.write(str(path), [{"id": 1}], record_key="id", options={"hoodie.metadata.enable": "false"})
    with pytest.raises(ConfigError, match="there is none; Table.metadata.rebuild"):
        change(path, "complete")
    with pytest.raises(ConfigError, match="hoodie.metadata.enable is false"):
        change(path, "make", **{"hoodie.metadata.enable": "false"})
    bare = {"hoodie.metadata.index.column.stats.enable": "false"}
    assert change(path, "make", **bare) == ["files"]
    with pytest.raises(ConfigError, match="it exists, with files; Table.metadata.rebuild"):
        change(path, "make")
    assert "column_stats" in change(path, "complete", **STATS)
    assert "column_stats" in change(path, "complete", **STATS)  # nothing is missing
    assert hudi_py.open_table(path).metadata.verify().ok
    assert change(path, "remove") == []
    assert not (path / ".hoodie" / "metadata").exists()
    assert change(path, "remove") == []
    assert "files" in change(path, "make")
    assert hudi_py.open_table(path).scan().to_table()["id"].to_pylist() == [1]
