"""Damage to the files of a table, and what is read of it afterwards."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import hudi_py
from hudi_py.storage import MemoryStorage, memory
from hudi_py.table import Table
from hudi_py.timeline.properties import load_table_config

Query = Mapping[str, Any]
"""Arguments of a scan; `count`: its rows are only counted."""
QUERIES: Final[tuple[Query, ...]] = (
    {},
    {"query_type": "incremental", "begin": "000"},
    {"filter": "v = 3"},
    {"query_type": "read_optimized"},
)


def files_of(path: Path) -> dict[str, bytes]:
    """The files of a table by their paths, relative to its base path."""
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def answers(files: Mapping[str, bytes], queries: Sequence[Query] = QUERIES) -> list[list[str] | None]:
    """The rows of each query, sorted; None where it ends in an error of ours. Other errors are not caught."""
    memory._STORES.pop("damage", None)
    storage = MemoryStorage("damage")
    for path, data in files.items():
        storage.put(path, data)
    found: list[list[str] | None] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for query in queries:
            arguments = {name: value for name, value in query.items() if name != "count"}
            try:
                scan = Table(storage, load_table_config(storage), {}).scan(**arguments)
                if "count" in query:
                    found.append([f"{scan.count()} rows"])
                    continue
                table: pa.Table = scan.to_table()
                found.append(sorted(map(str, table.to_pylist())))
            except hudi_py.HudiError:
                found.append(None)
    return found


def damages(path: str, data: bytes, flips: int, *, seed: int = 0) -> Iterator[tuple[str, bytes | None]]:
    """A file cut, emptied, removed (None), and with one bit turned at so many places; each with what was done."""
    rng = random.Random(f"{seed}:{path}")
    if data:
        yield "cut by a byte", data[:-1]
        yield "cut in half", data[: len(data) // 2]
        yield "emptied", b""
    yield "removed", None
    for _ in range(flips if data else 0):
        at, bit = rng.randrange(len(data)), rng.randrange(8)
        turned = bytearray(data)
        turned[at] ^= 1 << bit
        yield f"bit {bit} of byte {at} turned", bytes(turned)


def wrong_answers(
    files: Mapping[str, bytes],
    chosen: Mapping[str, bytes],
    flips: int,
    *,
    seed: int = 0,
    queries: Sequence[Query] = QUERIES,
) -> tuple[int, list[str]]:
    """How many damages were tried on the chosen files, and those that gave other rows or an error that is not ours."""
    whole = answers(files, queries)
    assert None not in whole
    tried, failures = 0, []
    for path, data in chosen.items():
        for what, damaged in damages(path, data, flips, seed=seed):
            others = {name: content for name, content in files.items() if name != path}
            tried += 1
            try:
                found = answers(others if damaged is None else {**others, path: damaged}, queries)
            except Exception as error:
                failures.append(f"{path} {what}: {error!r}")
                continue
            for query, good, got in zip(queries, whole, found, strict=True):
                if got is not None and got != good:
                    failures.append(f"{path} {what}: {len(got)} rows of {len(good or ())}, query {dict(query)}")
    return tried, failures
