"""Damage to the files of a table, and what is read of it afterwards."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import orc

import hudi_py
from hudi_py.formats.log import BlockType, read_blocks
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


BY_CONTENT: Final = (
    *("deltacommit", "commit", "hoodie.properties", "requested", "inflight"),
    *("clean", "rollback", "savepoint", "restore", "indexing"),
)
"""Ends of the names of files whose turned bits may not show, nor their loss."""


def files_of(path: Path) -> dict[str, bytes]:
    """The files of a table by their paths, relative to its base path."""
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def answers(
    files: Mapping[str, bytes], queries: Sequence[Query] = QUERIES, options: Mapping[str, str] | None = None
) -> list[list[str] | None]:
    """The rows of each query, sorted; None where it ends in an error of ours. Other errors are not caught.

    Args:
        options: of the table.
    """
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
                scan = Table(storage, load_table_config(storage), options or {}).scan(**arguments)
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
    options: Mapping[str, str] | None = None,
) -> tuple[int, list[str]]:
    """How many damages were tried on the chosen files, and those that gave other rows or an error that is not ours."""
    whole = answers(files, queries, options)
    assert None not in whole
    tried, failures = 0, []
    for path, data in chosen.items():
        for what, damaged in damages(path, data, flips, seed=seed):
            others = {name: content for name, content in files.items() if name != path}
            tried += 1
            try:
                found = answers(others if damaged is None else {**others, path: damaged}, queries, options)
            except Exception as error:
                failures.append(f"{path} {what}: {error!r}")
                continue
            for query, good, got in zip(queries, whole, found, strict=True):
                if got is not None and got != good:
                    failures.append(f"{path} {what}: {len(got)} rows of {len(good or ())}, query {dict(query)}")
    return tried, failures


def findable(failures: list[str], files: dict[str, bytes]) -> Iterator[str]:
    """Failures without those that the format gives no means to find."""
    for failure in failures:
        path, _, what = failure.partition(" ")
        hidden = path.endswith(BY_CONTENT) and what.startswith(("removed", "bit"))
        if turned := re.match(r"bit \d of byte (\d+) turned", what):
            if path.endswith(".orc"):
                hidden = is_in_stripe(files[path], int(turned[1]))
            elif ".log." in path:
                hidden = is_value(files[path], int(turned[1]))
        if not hidden or "Error" in what:
            yield failure


def is_in_stripe(base_file: bytes, at: int) -> bool:
    """Whether a byte of an ORC file belongs to its stripes, which have no checksum; its statistics, footer and
    postscript are behind them."""
    return 0 <= at - len("ORC") < orc.ORCFile(pa.BufferReader(base_file)).content_length


def is_value(log: bytes, at: int) -> bool:
    """Whether a byte of a log file belongs to the records of an Avro block, change logs among them, which have no
    checksum."""
    storage = MemoryStorage("log")
    storage.put("log", log)
    blocks = [block for block in read_blocks(storage, "log", len(log)) if block.type in (BlockType.AVRO, BlockType.CDC)]
    return any(0 <= at - block.content_offset < block.content_length for block in blocks)
