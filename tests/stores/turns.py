"""hudi-py and Apache Hudi by turns on one table, wherever it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hudi_py
from tests.oracle.client import Oracle
from tests.stores.test_tables import OFF, found, rows


def by_turns(
    oracle: Oracle,
    path: str,
    kind: str,
    version: int,
    *,
    theirs: str = "",
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Each reads, updates and deletes what the other wrote.

    Args:
        theirs: what Apache Hudi calls the path, if something else.
        storage_options: of hudi-py.
    """
    theirs = theirs or path
    more: dict[str, Any] = {"key": "id", "ordering": "ts", "partition": "city", "type": kind, "table_version": version}
    oracle.write(theirs, rows(range(6), 1), "insert", name="t", mode="overwrite", **more)
    table = hudi_py.open_table(path, OFF, storage_options=storage_options)
    table.upsert(rows(range(4, 8), 2))
    oracle.write(theirs, rows(range(1, 3), 3), "upsert", name="t", mode="append", **more)
    expected = {f"k{key}": 2 if key > 3 else 3 if key in (1, 2) else 1 for key in range(8)}
    assert found(table) == expected
    if kind == "mor":
        assert table.compact().instant is not None
    table.delete(rows(range(1), 4))
    del expected["k0"]
    for enabled in ("true", "false"):
        answer = oracle.read(theirs, options={"hoodie.metadata.enable": enabled})
        assert dict(zip(answer["id"].to_pylist(), answer["ts"].to_pylist(), strict=True)) == expected
    oracle.write(theirs, rows(range(7, 9), 5), "upsert", name="t", mode="append", **more)
    expected |= {"k7": 5, "k8": 5}
    assert found(table) == expected
    assert table.metadata.verify().ok
