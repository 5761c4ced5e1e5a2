"""Which log blocks say where the base file has their keys, and that these rows have them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.formats.log import BlockType, HeaderKey, decode_positions, read_blocks
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import open_storage
from tests.support.engine import write_routed
from tests.support.writers import options

ROWS = 90
NOTED = {"hoodie.write.record.positions": "true"}


def data(ids: list[int], ts: int, **more: Any) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{at}", "ts": ts, "v": at * ts, **more} for at in ids])


def made(path: Path, version: int = 9, **more: str) -> tuple[str, dict[str, str]]:
    given = {**options(version, "mor"), "hoodie.record.merge.mode": "EVENT_TIME_ORDERING", **NOTED, **more}
    given |= {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": ""}
    ids = random.Random(1).sample(range(ROWS), ROWS)
    hudi_py.write(str(path), data(ids, 1, _hoodie_is_deleted=False), options=given)
    return str(path), given


def told(root: str) -> list[tuple[BlockType, list[str] | None]]:
    """Of each block of the logs the keys in the rows that it names; None if it names none."""
    (base,) = Path(root).glob("*.parquet")
    keys = pq.read_table(base)[RECORD_KEY].to_pylist()
    found: list[tuple[BlockType, list[str] | None]] = []
    storage = open_storage(root)
    logs = [path for path in Path(root).glob(".*.log.*") if path.suffix != ".crc"]
    for log in sorted(logs, key=lambda path: path.name.partition("_")[2]):
        for block in read_blocks(storage, log.name, log.stat().st_size):
            text = block.header.get(HeaderKey.RECORD_POSITIONS)
            if text is None:
                assert HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS not in block.header
                found.append((block.type, None))
                continue
            instant = block.header[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS]
            assert base.name.endswith(f"_{instant}.parquet")
            count = next(size for size in range(ROWS + 1) if _fits(text, size))
            found.append((block.type, [keys[at] for at in decode_positions(text, count).tolist()]))
    return found


def _fits(text: str, count: int) -> bool:
    try:
        decode_positions(text, count)
    except Exception:
        return False
    return True


def keys(ids: list[int]) -> set[str]:
    return {f"k{at}" for at in ids}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_blocks_name_the_rows_of_their_keys(tmp_path: Path, index: str, routed: bool) -> None:
    root, given = made(tmp_path / "t", **{"hoodie.index.type": index})
    write = write_routed if routed else hudi_py.write
    gone = list(range(1, ROWS, 10))
    some = [at for at in range(0, ROWS, 3) if at not in gone]
    both = pa.concat_tables([data(some, 2, _hoodie_is_deleted=False), data(gone, 2, _hoodie_is_deleted=True)])
    write(root, both, "upsert", given)
    write(root, data([5, 6, 8], 3).select(["id"]), "delete", given)
    write(root, data([6, 7], 4, _hoodie_is_deleted=False), "upsert", given)
    found = told(root)
    assert [kind for kind, _ in found] == [BlockType.AVRO, BlockType.DELETE, BlockType.DELETE, BlockType.AVRO]
    wanted = [keys(some), keys(gone), keys([5, 6, 8]), keys([6, 7])]
    assert [set(named or ()) for _, named in found] == wanted
    assert [len(named or ()) for _, named in found] == list(map(len, wanted))
    rows = {row["id"]: row["v"] for row in hudi_py.open_table(root).scan().to_table().to_pylist()}
    expected = {f"k{at}": at * (2 if at in some else 1) for at in range(ROWS) if at not in (*gone, 5, 8)}
    assert rows == expected | {"k6": 24, "k7": 28}


def test_blocks_of_a_large_log_have_their_part(tmp_path: Path) -> None:
    root, given = made(tmp_path / "t")
    given["hoodie.logfile.data.block.max.size"] = "600"
    hudi_py.write(root, data(list(range(0, ROWS, 2)), 2, _hoodie_is_deleted=False), options=given)
    found = told(root)
    assert len(found) > 2
    assert {key for _, named in found for key in named or ()} == keys(list(range(0, ROWS, 2)))
    rows = hudi_py.open_table(root).scan().to_table().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {f"k{at}": at * (2 - at % 2) for at in range(ROWS)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("version", "more"),
    [
        (6, {}),
        (9, {"hoodie.write.record.positions": "false"}),
        (9, {"hoodie.index.type": "RECORD_LEVEL_INDEX", "hoodie.metadata.record.level.index.enable": "true"}),
        (9, {"hoodie.combine.before.upsert": "false"}),
    ],
    ids=["version 6", "by the option", "record index", "several rows of a key"],
)
def test_blocks_without(tmp_path: Path, version: int, more: dict[str, str]) -> None:
    root, given = made(tmp_path / "t", version, **more)
    hudi_py.write(root, data([3, 4, 5, 3], 2, _hoodie_is_deleted=False), options=given)
    assert told(root) == [(BlockType.AVRO, None)]


def test_a_key_in_several_rows(tmp_path: Path) -> None:
    given = {**options(9, "mor"), **NOTED, "hoodie.datasource.write.recordkey.field": "id"}
    given["hoodie.datasource.write.partitionpath.field"] = ""
    root = str(tmp_path / "t")
    hudi_py.write(root, data([1, 2, 3, 2], 1), "bulk_insert", given)
    hudi_py.write(root, data([1, 2], 2), "upsert", given)
    hudi_py.write(root, data([1], 3), "upsert", given)
    assert told(root) == [(BlockType.AVRO, None), (BlockType.AVRO, ["k1"])]
