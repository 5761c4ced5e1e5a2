"""Tables written by Apache Hudi 0.9 to 0.13, with the rows that Apache Hudi reads from them; see README.md."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.support import archives

HERE: Final = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class OldQuery:
    """One query, and what Apache Hudi answered."""

    table: str
    kind: str
    as_of: str | None
    begin: str | None
    query: int | None
    """Number of its rows in `expected.parquet`; None where nobody answered."""
    by: str
    """The release whose rows these are: 1.2.0, or the one that wrote the table where 1.2.0 does not answer."""
    own: str
    """What the release that wrote the table answered: `same rows`, `other rows`, or an error."""
    newest: str | None
    """The error of 1.2.0."""

    @property
    def id(self) -> str:
        return "-".join(part for part in (self.table, self.kind, self.as_of or self.begin) if part)

    def rows(self) -> pa.Table:
        assert self.query is not None, f"{self.id}: nobody answered: {self.newest}; {self.own}"
        rows = pq.read_table(HERE / self.table / "expected.parquet")
        return rows.filter(pc.equal(rows["query"], self.query)).drop_columns(["query"])


@functools.cache
def load() -> Mapping[str, tuple[OldQuery, ...]]:
    """Every table's queries by its name."""
    return {
        entry["name"]: tuple(
            OldQuery(
                entry["name"],
                query["kind"],
                query.get("as_of"),
                query.get("begin"),
                query.get("query"),
                query["by"],
                query["own"],
                query.get("newest"),
            )
            for query in entry["expected"]
        )
        for entry in json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    }


def extract(name: str, folder: Path) -> Path:
    """Unpacks a table below `folder`, unless it is there, modification times kept; its path."""
    path = folder / name
    if not path.exists():
        archives.extract(HERE / name / "table.tar.gz", folder)
    return path
