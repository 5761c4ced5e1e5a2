"""Folders of files of which tests make tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq


def rows(ids: Sequence[int], city: str | None = None, *, n: int | None = None) -> pa.Table:
    """Rows with the keys `k1`, `k2`..., and with the city as a column if there is one."""
    columns = {
        "id": pa.array([f"k{each}" for each in ids]),
        "n": pa.array([each if n is None else n for each in ids], pa.int64()),
        "ts": pa.array([1 if n is None else 9] * len(ids), pa.int64()),
    }
    if city is not None:
        columns["city"] = pa.array([city] * len(ids))
    return pa.table(columns)


STYLES = {"hive": ("city=oslo", "city=rome", False), "plain": ("oslo", "rome", True), "flat": ("", "", True)}
"""The folder of each file, and whether it has the city as a column."""


def source(folder: Path, style: str, extension: str = "parquet") -> Path:
    """Two files: k0 to k6 of oslo, in row groups of three, and k7 to k11 of rome."""
    oslo, rome, stored = STYLES[style]
    for place, city, ids in ((oslo, "oslo", range(7)), (rome, "rome", range(7, 12))):
        (folder / place).mkdir(parents=True, exist_ok=True)
        table = rows(ids, city if stored else None)
        path = folder / place / f"{city}.{extension}"
        if extension == "orc":
            pyarrow.orc.write_table(table, str(path))
        else:
            pq.write_table(table, path, row_group_size=3)
    (folder / "_SUCCESS").touch()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
