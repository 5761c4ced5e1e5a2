"""Apache Hudi's streaming sink and ours write batches of the same query in turn, each batch once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hudi_py
from hudi_py.storage import open_storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.write.stream import CHECKPOINT_KEY
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn
from tests.support.streams import BASE, Stream, part

pytestmark = pytest.mark.slow

SCHEMA = "id long, p string, v long, _hoodie_is_deleted boolean"
INSERT = {"hoodie.datasource.write.operation": "insert", "hoodie.table.name": "t"}


class Turns:
    """A table into which batch `n` brings the row `n` from us, or `100 + n` from Apache Hudi."""

    def __init__(self, oracle: Oracle, folder: Path, options: dict[str, str]) -> None:
        self.oracle = oracle
        self.folder = folder
        self.path = str(folder / "t")
        self.options = {**INSERT, **options}
        self.files = 0
        (folder / "in").mkdir()

    def ours(self, *batches: int) -> None:
        stream = Stream(self.path, **self.options)
        for batch in batches:
            stream.write(batch, part(batch))

    def theirs(self, batches: int) -> None:
        """So many batches more."""
        for _ in range(batches):
            file = self.folder / "in" / f"{self.files:03}.json"
            text = f'{{"id": {100 + self.files}, "p": "a", "v": 0, "_hoodie_is_deleted": false}}\n'
            file.write_text(text, "utf-8")
            os.utime(file, (1_700_000_000 + self.files,) * 2)  # Spark reads files in this order
            self.files += 1
        given = {key: value for key, value in BASE.items() if not key.startswith("hoodie.py.")}
        checkpoint = self.folder / "checkpoint"
        self.oracle.stream(self.path, self.folder / "in", SCHEMA, checkpoint, {**given, **self.options})

    def theirs_again(self) -> None:
        """Their last batch, whose end Spark had not noted."""
        (self.folder / "checkpoint" / "commits" / f"{self.files - 1}").unlink()
        (self.folder / "checkpoint" / "commits" / f".{self.files - 1}.crc").unlink()
        self.theirs(0)

    @property
    def ids(self) -> list[int]:
        return sorted(hudi_py.open_table(self.path).scan(columns=["id"]).to_table()["id"].to_pylist())

    @property
    def noted(self) -> list[str | None]:
        storage = open_storage(self.path)
        timeline = load_timeline(storage, load_table_config(storage))
        found = [read_commit_metadata(storage, timeline.layout, each) for each in timeline.write_completed]
        return [metadata.extra.get(CHECKPOINT_KEY) for metadata in found]


def in_turns(turns: Turns) -> None:
    turns.ours(0, 1)
    turns.theirs(3)  # 0 and 1 are there
    assert turns.ids == [0, 1, 102]
    turns.ours(2, 3)  # 2 is there
    assert turns.ids == [0, 1, 3, 102]
    turns.theirs(2)  # 3 is there
    turns.theirs_again()
    assert turns.ids == [0, 1, 3, 102, 104]
    assert turns.noted == [f'{{"default_single_writer":"{batch}"}}' for batch in range(5)]
    assert turns.oracle.check(turns.path)["problems"] == []


KINDS = [("6", "MERGE_ON_READ"), ("9", "COPY_ON_WRITE"), ("9", "MERGE_ON_READ")]


@in_turn("batches by turns", 1, 2, chosen="nightly")
@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "batches by turns", 1))
def test_batches_by_turns(oracle: Oracle, tmp_path: Path, version: str, kind: str) -> None:
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    in_turns(Turns(oracle, tmp_path, options))


@in_turn("batches by turns", 0, 2, chosen="nightly")
def test_batches_by_turns_with_the_oldest_release(oracle_015: Oracle, tmp_path: Path) -> None:
    kind = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    turns = Turns(oracle_015, tmp_path, kind)
    Stream(turns.path, **turns.options, **{"hoodie.write.table.version": "6"}).write(0, part(0))
    turns.theirs(2)
    turns.ours(1, 2)
    turns.theirs(2)
    assert turns.ids == [0, 2, 101, 103]
