"""A made-up kind of index: it is described once, and writes use it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import write as write_config
from hudi_py.write import index as kinds
from hudi_py.write.index.base_files import open_base_files
from hudi_py.write.index.protocol import Index, IndexKind, IndexSettings, KeyLookup

OPENED: list[IndexSettings] = []


def opened(lookup: KeyLookup) -> Index:
    OPENED.append(lookup.settings)
    return open_base_files(lookup)


MADE_UP = IndexKind("MADE_UP", opened, is_global=True, moves_rows=write_config.SIMPLE_INDEX_UPDATE_PARTITION)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The registry and the choices of the option are all that knows it."""
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, MADE_UP))
    parse = write_config.INDEX_TYPE.parse
    object.__setattr__(write_config.INDEX_TYPE, "parse", lambda text: text if text == "MADE_UP" else parse(text))
    OPENED.clear()
    yield
    object.__setattr__(write_config.INDEX_TYPE, "parse", parse)


@pytest.mark.parametrize("moves", ["true", "false"])
def test_writes_look_keys_up_in_it(tmp_path: Path, moves: str) -> None:
    options = {"hoodie.index.type": "MADE_UP", "hoodie.simple.index.update.partition.path": moves}
    rows = pa.table({"id": ["a", "b"], "p": ["x", "x"], "n": [1, 2]})
    hudi_py.write(str(tmp_path), rows, "insert", options, record_key="id", partition_by="p")
    assert not OPENED
    moved = pa.table({"id": ["a", "c"], "p": ["y", "y"], "n": [3, 4]})
    hudi_py.write(str(tmp_path), moved, "upsert", options)
    hudi_py.write(str(tmp_path), moved.slice(1), "delete", options)
    found = hudi_py.open_table(str(tmp_path)).scan(columns=["id", "p", "n"]).to_table().sort_by("id").to_pylist()
    assert [(row["id"], row["n"]) for row in found] == [("a", 3), ("b", 2)]
    assert [settings.type for settings in OPENED] == ["MADE_UP"] * 2
    assert {settings.moves_rows for settings in OPENED} == {moves == "true"}
    assert pickle.loads(pickle.dumps(OPENED[0])) == OPENED[0]


def test_the_option_takes_the_names_of_the_registry() -> None:
    names = [name for kind in kinds.KINDS if kind is not MADE_UP for name in (kind.name, *kind.aliases)]
    assert sorted(names) == sorted(write_config.INDEX_TYPE.choices)
