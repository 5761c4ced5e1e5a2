"""Partitions without rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError
from hudi_py.storage import open_storage
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.table.ddl import add_partitions

OPTIONS = Options.resolve({}, Scope.WRITE)


@pytest.mark.parametrize("metadata", ["true", "false"])
def test_partitions_without_rows(tmp_path: Path, metadata: str) -> None:
    path = tmp_path / "t"
    options = {"hoodie.metadata.enable": metadata}
    hudi_py.write(path, [{"id": 1, "p": "a"}], options=options, record_key="id", partition_by="p")
    storage = open_storage(str(path))
    add_partitions(WriteTarget(storage, OPTIONS), ["b", "c"])
    text = (path / "b" / ".hoodie_partition_metadata").read_text()
    assert {"commitTime=00000000000000", "partitionDepth=1"} <= set(text.split())
    with pytest.raises(ConfigError, match="Cannot add the partition b .* exists already"):
        add_partitions(WriteTarget(storage, OPTIONS), ["d", "b"])
    assert not (path / "d").exists(), "none is made if one cannot be"
    add_partitions(WriteTarget(storage, OPTIONS), ["d", "a"], if_not_exists=True)
    assert (path / "d").is_dir()
    table = hudi_py.open_table(path, options)
    table.upsert([{"id": 2, "p": "b"}])
    assert sorted(table.scan(["id", "p"]).to_table().to_pylist(), key=str) == [{"id": 1, "p": "a"}, {"id": 2, "p": "b"}]
    assert table.metadata.verify().ok if metadata == "true" else True
