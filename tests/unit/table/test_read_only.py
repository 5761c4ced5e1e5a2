"""Tables that this release only reads say so when they are opened, and refuse a write before there is work."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import create_table_config

PLAIN = {
    "hoodie.table.name": "t",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.recordkey.fields": "id",
}
READ_ONLY = [
    {"hoodie.table.version": "5", "hoodie.timeline.layout.version": "1"},
    {"hoodie.partition.metafile.use.base.format": "true", "hoodie.table.base.file.format": "ORC"},
    {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "all"},
    {"hoodie.table.keygenerator.type": "GLOBAL_DELETE"},
    {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.example.Own"},
]
OF_SETTINGS = READ_ONLY[-1:]
"""Refused before the first row is read, though not before the input's schema is."""


class Unread:
    """Input which no one may look at."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"the input was asked for {name}")


def table(path: Path, more: dict[str, str]) -> hudi_py.Table:
    assert create_table_config(open_storage(path), {**PLAIN, **more})
    return hudi_py.open_table(path)


@pytest.mark.parametrize("more", READ_ONLY, ids=str)
def test_why_a_table_is_read_only(tmp_path: Path, more: dict[str, str]) -> None:
    found = table(tmp_path / "t", more)
    assert found.read_only is not None
    assert any(text and text in found.read_only for pair in more.items() for text in pair)
    assert repr(found).endswith(", read only)")
    before = sorted(tmp_path.rglob("*"))
    data: Any = pa.table({"id": ["a"]}) if more in OF_SETTINGS else Unread()
    with pytest.raises(hudi_py.UnsupportedTableError):
        found.upsert(data)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_table_that_can_be_written(tmp_path: Path) -> None:
    found = table(tmp_path / "t", {})
    assert found.read_only is None
    assert "read only" not in repr(found)
    assert found.upsert(pa.table({"id": ["a"]})).num_inserted == 1


def test_services_of_a_table_of_an_old_version(tmp_path: Path) -> None:
    found = table(tmp_path / "t", READ_ONLY[0])
    for call in (found.compact, found.clean, found.archive, found.savepoint):
        with pytest.raises(hudi_py.UnsupportedTableError, match="hoodie.table.version=5 and timeline layout 1"):
            call()
