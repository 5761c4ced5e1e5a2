"""The golden tables: written by Apache Hudi, with the rows Apache Hudi 1.2.0 reads from them. See README.md."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import archives

DATA: Final = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True, slots=True)
class Expected:
    """One query that Apache Hudi was asked, and what came of it: a file of rows, or an error."""

    table: str
    kind: str
    as_of: str | None
    begin: str | None
    end: str | None
    file: str | None
    num_rows: int | None
    error: str | None

    @property
    def id(self) -> str:
        """A short name, unique among all queries of all tables."""
        return "-".join(part for part in (self.table, self.kind, self.as_of, self.begin, self.end) if part)

    def rows(self) -> pa.Table:
        """The expected rows; only where `error` is None."""
        assert self.file is not None, f"{self.id}: Apache Hudi answered with an error: {self.error}"
        table = pq.read_table(DATA / self.table / self.file)
        assert table.num_rows == self.num_rows
        return table


@dataclass(frozen=True, slots=True)
class GoldenTable:
    """One table of the set; `entry` is its whole entry of the manifest."""

    name: str
    version: int
    table_type: str
    writer: str
    features: tuple[str, ...]
    expected: tuple[Expected, ...]
    entry: Mapping[str, Any]

    def extract(self, folder: Path) -> Path:
        """Unpack the table below `folder`, modification times kept (version 6 completes instants by them); its path."""
        archives.extract(DATA / self.entry["archive"], folder)
        return folder / self.name


def _expected(table: str, entry: Mapping[str, Any]) -> Expected:
    return Expected(
        table,
        entry["kind"],
        entry.get("as_of"),
        entry.get("begin"),
        entry.get("end"),
        entry.get("file"),
        entry.get("rows"),
        entry.get("error"),
    )


@functools.cache
def load() -> Mapping[str, GoldenTable]:
    """Every table of the manifest by name."""
    entries: Sequence[Mapping[str, Any]] = json.loads((DATA / "manifest.json").read_text(encoding="utf-8"))["tables"]
    return {
        entry["name"]: GoldenTable(
            entry["name"],
            entry["table_version"],
            entry["table_type"],
            entry["writer"],
            tuple(entry["features"]),
            tuple(_expected(entry["name"], each) for each in entry["expected"]),
            entry,
        )
        for entry in entries
    }


class Extracted:
    """The golden tables in a folder, each unpacked when it is first asked for. Not to be written to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> Path:
        """The path of a table."""
        path = self.folder / name
        return path if os.path.exists(path) else load()[name].extract(self.folder)
