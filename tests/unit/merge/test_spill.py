"""A log larger than the memory it may take gives the same rows, within it, and leaves no file behind."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.formats.log import HeaderKey
from hudi_py.merge import LogMemory, LogRecords, LogSpec, MergeSettings, SpilledLog
from hudi_py.merge.settings import EVENT_TIME
from hudi_py.schema import with_meta
from tests.unit.merge.test_log import file_of
from tests.unit.read.tables import SCHEMA, MadeTable, deletes, plain, row

PART = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("price", pa.float64())])


def made(path: Path, **properties: str) -> MadeTable:
    """A base file and logs of 4000 keys, of lengths from 0 on and beyond ASCII; the last logs hold partial updates."""
    rnd = random.Random(11)
    table = MadeTable(str(path / "t"), properties=properties)
    keys = ["", "é", "\U0001f600x"] + [f"{number}" * (number % 5 + 1) for number in range(4000)]
    keys = list(dict.fromkeys(keys))
    table.base(1, [row(key, rnd.randint(1, 5), "base", 0.5) for key in keys if rnd.random() < 0.8])
    table.commit(1)
    for at in range(2, 8):
        chosen = [key for key in keys if rnd.random() < 0.5]
        gone = [key for key in keys if rnd.random() < 0.05]
        rows: list[dict[str, Any]] = [row(key, rnd.randint(1, 5), f"write {at}", float(at)) for key in chosen]
        if at > 5:
            rows = [{"id": key, "ts": 6, "price": float(at)} for key in chosen]
            table.log(at, rows, schema=PART, header={HeaderKey.IS_PARTIAL: "true"})
        else:
            table.log(at, rows, deletes(*gone, ts=4))
        table.commit(at)
    return table


@pytest.mark.parametrize("mode", ["", "IGNORE_DEFAULTS"])
def test_the_same_rows_in_parts(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path, **({"hoodie.table.partial.update.mode": mode} if mode else {}))
    folder = tmp_path / "spill"
    scan = hudi_py.open_table(table.uri).scan
    whole = scan().to_table()
    options = {"hoodie.memory.merge.max.size": 1 << 20, "hoodie.memory.spillable.map.path": str(folder)}
    parts = scan(options=options)
    assert parts.splits()[0].spec.logs.memory == LogMemory(1 << 20, str(folder))
    found = parts.to_table()
    assert folder.exists()
    assert os.listdir(folder) == []
    assert plain(found) == plain(whole)
    assert found.num_rows > 3000
    assert parts.to_table().equals(found), "the order is not the same each time"
    (split,) = parts.splits()
    rest = pa.Table.from_batches(list(hudi_py.read_split(split, skip_rows=1234)))
    assert rest.equals(found.slice(1234))
    emitted = scan(emit_deletes=True).to_table()
    gone = scan(emit_deletes=True, options=options).to_table()
    assert plain(gone) == plain(emitted)
    assert gone.num_rows > found.num_rows


def test_a_reader_that_stops_leaves_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    folder = tmp_path / "spill"
    options = {"compaction.max_memory": 1, "hoodie.memory.spillable.map.path": str(folder)}
    (split,) = hudi_py.open_table(table.uri).scan(options=options).splits()
    assert split.spec.logs.memory.limit == 1 << 20
    batches = hudi_py.read_split(split)
    next(batches)
    assert os.listdir(folder)
    batches.close()  # type: ignore[attr-defined]
    assert os.listdir(folder) == []


def test_what_fits_stays_in_memory(tmp_path: Path) -> None:
    table = made(tmp_path)
    settings = MergeSettings(EVENT_TIME, ("ts",))
    files = [file_of(table, info.path) for info in table.storage.list("") if ".log." in info.path]
    files.sort(key=lambda file: file.path)
    schema = with_meta(SCHEMA)
    assert isinstance(LogSpec(settings).open(table.storage, files).load(schema), LogRecords)
    log = LogSpec(settings, memory=LogMemory(1 << 20)).open(table.storage, files).load(schema)
    assert isinstance(log, SpilledLog)
    log.close()
    assert LogSpec(settings).open(table.storage, []).load(schema) is None


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of one program is told there")
def test_ten_times_the_limit_within_it(tmp_path: Path) -> None:
    """Peak memory of a process that reads 200 MB of log with a limit of 20 MB, against one that reads nothing.

    What `getrusage` tells is no less than this process had when it started the other one.
    """
    table = MadeTable(str(tmp_path / "t"))
    table.base(1, [row("base", 1)])
    table.commit(1)
    body = "x" * 2000
    for at in range(2, 12):
        table.log(
            at, *[[row(f"k{at % 3}-{block}-{number}", at, body) for number in range(1000)] for block in range(10)]
        )
        table.commit(at)
    code = textwrap.dedent(
        """
        import json, sys
        import hudi_py
        options = {"hoodie.memory.merge.max.size": sys.argv[2]}
        rows, table = 0, hudi_py.open_table(sys.argv[1])
        if sys.argv[2] != "0":
            scan = table.scan(options=options, columns=["id", "name"])
            for batch in scan.to_batches(threads=1):
                rows += batch.num_rows
        with open("/proc/self/status") as status:
            peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
        print(json.dumps([rows, int(peak)]))
        """
    )

    def peak(limit: int) -> tuple[int, int]:
        ran = subprocess.run([sys.executable, "-c", code, table.uri, str(limit)], capture_output=True, check=True)
        rows, kilobytes = json.loads(ran.stdout)
        return rows, kilobytes * 1024

    _, idle = peak(0)
    rows, used = peak(20 << 20)
    assert rows == 30_001
    assert used - idle < 5 * (20 << 20), f"{(used - idle) >> 20} MB above idle"
