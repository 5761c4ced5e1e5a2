"""Damage that causes no error by itself: files of a table or its metadata table that are missing, short or replaced."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py import CorruptFileError
from hudi_py.formats.log.blocks import MAGIC

LISTED = {"hoodie.metadata.enable": "false"}
Damage = Callable[[Path], object]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


def write(path: Path, ids: list[str], value: int, **options: Any) -> hudi_py.WriteResult:
    data = pa.table({"id": ids, "ts": [value] * len(ids), "v": [value] * len(ids)})
    return hudi_py.write(str(path), data, record_key="id", ordering_by="ts", **options)


def made(path: Path, kind: str, version: int, options: dict[str, str] | None = None) -> Path:
    """Three writes, each of which updates two rows of the one before and inserts one, and one that only updates."""
    for number in range(3):
        ids = [f"k{each}" for each in range(number, number + 3)]
        write(path, ids, number, table_type=kind, table_version=version, options=options)
    write(path, ["k3", "k4"], 3, options=options)
    return path


def rows(path: Path, options: dict[str, str] | None = None, **query: Any) -> list[tuple[str, int]]:
    found = hudi_py.open_table(str(path), options).scan(["id", "v"], **query).to_table()
    return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda file: (file.stat().st_mtime_ns, file.name))


@pytest.mark.parametrize(
    ("kind", "version", "damage"),
    [
        ("MERGE_ON_READ", 6, cut),
        ("MERGE_ON_READ", 8, remove),
        ("MERGE_ON_READ", 9, cut),
        ("COPY_ON_WRITE", 6, empty),
        ("COPY_ON_WRITE", 9, halve),
    ],
)
@pytest.mark.sampled(3)
def test_a_damaged_metadata_log_hides_nothing(tmp_path: Path, kind: str, version: int, damage: Damage) -> None:
    path = made(tmp_path / "t", kind, version)
    whole = rows(path)
    damage(newest(path / ".hoodie/metadata/files", ".files-*"))
    with pytest.warns(UserWarning, match="files are listed instead"):
        assert rows(path) == whole
    # no service makes the loss permanent, neither does making the partition anew
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "MERGE_ON_READ":
            hudi_py.open_table(str(path)).compact()
            assert rows(path) == whole
        hudi_py.open_table(str(path)).metadata.rebuild()
    assert rows(path) == whole
    damage(newest(path / ".hoodie/metadata/files", "[!.]*" if damage is remove else "*files-0000*"))
    with pytest.warns(UserWarning, match="is rebuilt"):
        write(path, ["z"], 9)
    assert rows(path) == sorted([*whole, ("z", 9)])
    assert hudi_py.open_table(str(path)).metadata.verify().ok


@pytest.mark.parametrize("damage", [cut, remove])
@pytest.mark.parametrize(("version", "listed"), [(6, True), (6, False), (9, True), (9, False), (8, True)])
@pytest.mark.sampled(5)
def test_a_log_that_lacks_what_a_commit_wrote(tmp_path: Path, version: int, listed: bool, damage: Damage) -> None:
    path = made(tmp_path / "t", "MERGE_ON_READ", version, LISTED if listed else None)
    log = newest(path, ".*.log.*")
    damage(log)
    with pytest.raises(CorruptFileError, match=log.name):
        rows(path)
    with pytest.raises(hudi_py.HudiError, match="cleaned|damaged=true|metadata.verify"):
        rows(path, query_type="incremental", begin="000")
    with pytest.raises(hudi_py.HudiError, match=log.name):
        hudi_py.open_table(str(path), LISTED if listed else None).compact()
    if listed or damage is not remove:
        with pytest.warns(UserWarning, match="Rows are missing or old"):
            left = rows(path, {"hoodie.py.read.damaged": "true"})
        assert left == [("k0", 0), ("k1", 1), ("k2", 2), ("k3", 2), ("k4", 2)]


def test_a_log_cut_between_two_blocks(tmp_path: Path) -> None:
    path = made(tmp_path / "t", "MERGE_ON_READ", 9, LISTED)
    log = newest(path, ".*.log.*")
    data = log.read_bytes()
    log.write_bytes(data + data[data.index(MAGIC) :])  # a second block that its commit did not record is passed over
    whole = rows(path)
    log.write_bytes(data + data[:-9])
    assert rows(path) == whole
    log.write_bytes(b"")
    with pytest.raises(CorruptFileError, match=rf"has 0 of its {len(data)} bytes"):
        rows(path)


@pytest.mark.parametrize("version", [6, 9])
def test_a_block_whose_instant_has_changed_by_a_bit(tmp_path: Path, version: int) -> None:
    path = made(tmp_path / "t", "MERGE_ON_READ", version, LISTED)
    log = newest(path, ".*.log.*")
    damaged = bytearray(log.read_bytes())
    damaged[damaged.index(b"20")] ^= 1  # the year 3026; an instant before the timeline would count as archived
    log.write_bytes(damaged)
    with pytest.raises(CorruptFileError, match=r"block.* of instant"):
        rows(path)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("name", ["_hoodie_commit_time", "_hoodie_record_key", "id", "ts", "v"])
@pytest.mark.sampled(5)
def test_a_column_whose_name_has_changed_by_a_bit(tmp_path: Path, version: int, name: str) -> None:
    path = made(tmp_path / "t", "MERGE_ON_READ", version, LISTED)
    log = newest(path, ".*.log.*")
    whole = log.read_bytes()
    at = whole.index(f'"name":"{name}"'.encode()) + len('"name":"')
    damaged = bytearray(whole)
    damaged[at] ^= 1
    log.write_bytes(damaged)
    for query in ({}, {"query_type": "incremental", "begin": "000"}):
        with pytest.raises(CorruptFileError, match=name):
            hudi_py.open_table(str(path), LISTED).scan(**query).to_table()


@pytest.mark.parametrize("options", [None, LISTED])
def test_a_lost_base_file_is_missing_not_cleaned(tmp_path: Path, options: dict[str, str] | None) -> None:
    path = made(tmp_path / "t", "COPY_ON_WRITE", 9, options)
    base = newest(path, "*.parquet")
    base.unlink()
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=rf"{base.name}.* missing.*metadata\.verify\(\)"):
            rows(path)


def test_a_file_that_a_clean_removed_since_the_plan(tmp_path: Path) -> None:
    path = made(tmp_path / "t", "COPY_ON_WRITE", 9)
    scan = hudi_py.open_table(str(path)).scan()
    for number in (4, 5):
        write(path, ["k2", "k3", "k4"], number)
    keep = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    hudi_py.open_table(str(path), keep).clean()
    with pytest.raises(hudi_py.HistoryCleanedError, match="scan again"):
        scan.to_table()


@pytest.mark.parametrize("version", [6, 9])
def test_files_that_went_rightly_are_not_missed(tmp_path: Path, version: int) -> None:
    """Cleaned, replaced, rolled back and restored; with the storage listed, as the check is made then."""
    path = made(tmp_path / "t", "MERGE_ON_READ", version, LISTED)
    table = hudi_py.open_table(str(path), LISTED)
    kept, saved = rows(path), table.savepoint().instant
    newer = write(path, ["k2", "k3"], 5, options=LISTED).instant
    table.rollback(newer)
    assert rows(path) == kept
    write(path, ["k2", "k3"], 5, options=LISTED)
    table.restore(saved)
    assert rows(path) == kept
    write(path, ["k4"], 6, options=LISTED)
    table.compact()
    write(path, ["k4"], 7, options=LISTED)
    keep = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    hudi_py.open_table(str(path), {**LISTED, **keep}).clean()
    assert ("k4", 7) in rows(path)
    data = pa.table({"id": ["n"], "ts": [8], "v": [8]})
    hudi_py.open_table(str(path), LISTED).insert_overwrite_table(data)
    hudi_py.open_table(str(path), {**LISTED, **keep}).clean()
    assert rows(path) == [("n", 8)]


def test_an_archive_that_is_gone(tmp_path: Path) -> None:
    archiving = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    path = tmp_path / "t"
    for number in range(8):
        write(path, [f"k{number}", "k0"], number, options={**LISTED, **archiving})
    history = path / ".hoodie/timeline/history"
    query = {"query_type": "incremental", "begin": "000"}
    whole = rows(path, **query)
    named = history / f"manifest_{(history / '_version_').read_text()}"
    content = named.read_bytes()
    named.unlink()
    with pytest.raises(CorruptFileError, match=f"{named.name}, which is missing"):
        rows(path, **query)
    named.write_bytes(content)
    properties = path / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("path=history", "path=histosy"))
    with pytest.raises(CorruptFileError, match="it does not exist, although"):
        rows(path, **query)
    properties.write_text(text)
    assert rows(path, **query) == whole
    shutil.rmtree(history)
    with pytest.raises(CorruptFileError, match="it does not exist, although"):
        rows(path, **query)


def test_a_timeline_in_another_place_than_the_properties_say(tmp_path: Path) -> None:
    path = made(tmp_path / "t", "COPY_ON_WRITE", 9, LISTED)
    properties = path / ".hoodie/hoodie.properties"
    properties.write_text(f"{properties.read_text()}\nhoodie.timeline.path=timelind\n")
    with pytest.raises(CorruptFileError, match=r"it has no instants, but \.hoodie/timeline has"):
        rows(path)


@pytest.mark.parametrize("version", [6, 9])
def test_a_base_file_replaced_by_a_longer_one(tmp_path: Path, version: int) -> None:
    """A valid Parquet file of the same table, such as one of another writer or a copy that was mixed up."""
    path = made(tmp_path / "t", "COPY_ON_WRITE", version, LISTED)
    base = newest(path, "*.parquet")
    size = base.stat().st_size
    pq.write_table(pq.read_table(base), base, compression="none")
    assert base.stat().st_size > size
    with pytest.raises(CorruptFileError, match=rf"{base.name}.* bytes instead of {size}, so it was replaced") as caught:
        rows(path, LISTED)
    assert (caught.value.path, caught.value.expected) == (base.name, size)
    with pytest.warns(UserWarning, match="Rows are missing or old"):
        assert rows(path, {**LISTED, "hoodie.py.read.damaged": "true"})


def turn_a_bit_of_a_value(file: Path, start: int, content: bytes, column: str) -> None:
    """In the dictionary of a column of Parquet content, which begins at a byte of a file."""
    group = pq.read_metadata(pa.BufferReader(content)).row_group(0)
    (found,) = [each for at in range(group.num_columns) if (each := group.column(at)).path_in_schema == column]
    damaged = bytearray(file.read_bytes())
    damaged[start + found.data_page_offset - 1] ^= 1
    file.write_bytes(damaged)


def test_a_bit_of_a_value_in_a_parquet_log_block(tmp_path: Path) -> None:
    plain = {"hoodie.logfile.data.block.format": "parquet", "hoodie.parquet.compression.codec": "uncompressed"}
    path = made(tmp_path / "t", "MERGE_ON_READ", 9, {**LISTED, **plain})
    log = newest(path, ".*.log.*")
    data = log.read_bytes()
    start, end = data.index(b"PAR1"), data.rindex(b"PAR1") + 4
    turn_a_bit_of_a_value(log, start, data[start:end], "v")
    with pytest.raises(CorruptFileError, match=rf"Parquet block .*{log.name}"):
        rows(path)


def test_pages_of_the_archive_have_checksums(tmp_path: Path) -> None:
    path = made(tmp_path / "t", "COPY_ON_WRITE", 9, LISTED)
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    hudi_py.open_table(str(path)).archive(options={**LISTED, **keep})
    data = newest(path / ".hoodie/timeline/history", "*.parquet").read_bytes()
    column = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0)
    header = data[column.data_page_offset :]
    # in Thrift's compact form: type, size, compressed size, then `crc` as another int32; or, without it, a struct
    assert re.match(rb"(\x15[\x80-\xff]*[\x00-\x7f]){3}\x15", header)


def emptied(path: Path, version: int) -> tuple[Path, bytes]:
    """The file of the newest completed commit, which is emptied, and what it was."""
    timeline = path / (".hoodie/timeline" if version > 6 else ".hoodie")
    files = sorted(each for each in timeline.iterdir() if each.name.endswith("commit"))
    content = files[-1].read_bytes()
    empty(files[-1])
    return files[-1], content


@pytest.mark.parametrize(
    ("version", "kind", "metadata"),
    [
        (6, "COPY_ON_WRITE", "true"),
        (6, "MERGE_ON_READ", "false"),
        (8, "COPY_ON_WRITE", "false"),
        (9, "MERGE_ON_READ", "true"),
    ],
)
def test_an_emptied_commit_that_added_a_column(tmp_path: Path, version: int, kind: str, metadata: str) -> None:
    """Apache Hudi takes it for a commit without a schema: the column would leave the table with the next write."""
    path = tmp_path / "t"
    options = {"hoodie.metadata.enable": metadata}
    more = {"record_key": "id", "ordering_by": "ts", "table_type": kind, "table_version": version, "options": options}
    hudi_py.write(path, [{"id": "a", "ts": 1, "v": 1}, {"id": "b", "ts": 1, "v": 2}], **more)
    first = hudi_py.open_table(path).timeline.write_completed[0].time
    before = hudi_py.open_table(path).scan(["id", "v"]).to_table().to_pylist()
    hudi_py.write(path, [{"id": "b", "ts": 2, "v": 3, "w": "new"}], options=options)
    file, content = emptied(path, version)
    whole = "is empty, and .* has the column 'w' of type string.* restore .* from a copy"
    table = hudi_py.open_table(path, options)
    for query in ({}, {"query_type": "incremental", "begin": "000"}):
        with pytest.raises(CorruptFileError, match=whole if not query else "empty"):
            table.scan(**query).to_table()
    assert table.scan(["id", "v"], as_of=first).to_table().to_pylist() == before
    for change in (
        lambda: table.upsert([{"id": "a", "ts": 3, "v": 4}]),
        lambda: table.delete([{"id": "a"}]),
        lambda: table.update({"v": "5"}, where="id = 'a'"),
        lambda: table.delete_where("v = 1"),
    ):
        with pytest.raises(CorruptFileError, match="Cannot (write to|read) the table .* is empty"):
            change()
    assert table.doctor().findings[0].code == "timeline.empty_newest"
    assert file.read_bytes() == b""
    file.write_bytes(content)
    assert sorted(hudi_py.open_table(path, options).scan(["w"]).to_table()["w"].to_pylist(), key=str) == [None, "new"]


@pytest.mark.parametrize("version", [6, 9])
def test_an_emptied_statement_that_added_a_column(tmp_path: Path, version: int) -> None:
    """It wrote no file, so that nothing but its own file names the column."""
    path = tmp_path / "t"
    write(path, ["k1"], 1, table_type="MERGE_ON_READ", table_version=version)
    hudi_py.open_table(str(path)).alter(add={"w": pa.float64()})
    file, content = emptied(path, version)
    with pytest.raises(CorruptFileError, match="is empty, and it left no files that tell whether it changed columns"):
        hudi_py.open_table(str(path)).scan().to_table()
    file.write_bytes(content)
    assert hudi_py.open_table(str(path)).scan(["w"]).to_table()["w"].to_pylist() == [None]


@pytest.mark.parametrize("version", [6, 9])
def test_an_emptied_commit_that_added_none(tmp_path: Path, version: int) -> None:
    """Its rows are read; what it did is not known, so nothing is written until a later commit has a schema."""
    path = tmp_path / "t"
    options = {"hoodie.metadata.enable": "false"}
    write(path, ["k1"], 1, table_type="COPY_ON_WRITE", table_version=version, options=options)
    write(path, ["k2"], 2, options=options)
    kept = shutil.copytree(path, tmp_path / "kept")
    write(path, ["k3"], 3, options=options)
    timeline = path / (".hoodie/timeline" if version > 6 else ".hoodie")
    empty(sorted(timeline.glob("2*.commit"))[1])
    assert len(rows(path)) == 3
    write(path, ["k4"], 4, options=options)
    assert len(rows(path)) == 4
    emptied(kept, version)
    assert len(rows(kept)) == 2
    with pytest.raises(CorruptFileError, match="Cannot write to the table .* what it did to the columns is not known"):
        write(kept, ["k3"], 3, options=options)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("changes", [1, 2])
def test_an_emptied_commit_that_changed_columns(tmp_path: Path, version: int, changes: int) -> None:
    """Apache Hudi takes the empty file for a commit without metadata; the table would have its old columns."""
    path = tmp_path / "t"
    options = {"hoodie.schema.on.read.enable": "true"}
    write(path, ["k1"], 1, table_type="COPY_ON_WRITE", table_version=version, options=options)
    for number in range(changes):
        hudi_py.open_table(str(path), options).alter(rename={"v" if not number else f"v{number}": f"v{number + 1}"})
    timeline = path / (".hoodie/timeline" if version > 6 else ".hoodie")
    empty(newest(timeline, "2*.commit"))
    with pytest.raises(CorruptFileError, match="Cannot determine the columns of the table.*is empty"):
        hudi_py.open_table(str(path)).scan().to_table()


@pytest.mark.parametrize("version", [6, 9])
def test_a_block_of_a_change_log_whose_instant_has_changed_by_a_bit(tmp_path: Path, version: int) -> None:
    """The blocks of other instants are passed over elsewhere; a change log has those of its own alone."""
    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "data_before_after"}
    path = made(tmp_path / "t", "COPY_ON_WRITE", version, options)
    log = newest(path, ".*.cdc")
    damaged = bytearray(log.read_bytes())
    damaged[damaged.index(b"20")] ^= 1
    log.write_bytes(damaged)
    query = {"query_type": "cdc", "begin": "000"}
    with pytest.raises(CorruptFileError, match=r"change log .* is a CDC block of instant 3"):
        hudi_py.open_table(str(path)).scan(**query).to_table()
    found = hudi_py.open_table(str(path)).scan(**query, options={"hoodie.py.read.damaged": "true"}).to_table()
    assert found.num_rows > 0


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut, empty, remove])
def test_a_file_of_the_archive_of_version_6(tmp_path: Path, damage: Damage) -> None:
    """It is known from the commits after it, whose files follow those of its commits."""
    path = tmp_path / "t"
    options = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    for number in range(9):
        write(path, ["k0", f"k{number}"], number, table_type="COPY_ON_WRITE", table_version=6, options=options)
    files = sorted((path / ".hoodie/archived").glob(".commits_*"))
    assert len(files) > 1
    query = {"query_type": "incremental", "begin": "000"}
    assert len(rows(path, **query)) == 9
    damage(files[0])
    with pytest.raises(CorruptFileError, match=r"follows \d{17}, which is neither on the timeline nor in the archive"):
        rows(path, **query)


@pytest.mark.parametrize("version", [6, 9])
def test_time_travel_to_a_version_that_is_gone(tmp_path: Path, version: int) -> None:
    """The listing has only an older version, and cannot show that a newer one is missing."""
    path = made(tmp_path / "t", "COPY_ON_WRITE", version, LISTED)
    table = hudi_py.open_table(str(path), LISTED)
    *_, before, last = sorted(row["instant"] for row in table.history().to_pylist())
    gone = next(each for each in path.rglob(f"*_{before}.parquet"))
    earlier = table.scan().to_table()
    gone.unlink()
    with pytest.raises(
        hudi_py.HistoryCleanedError, match=rf"as of {before}.*{gone.name}.* is missing: it was cleaned, or lost"
    ):
        table.scan(as_of=before).to_table()
    assert hudi_py.open_table(str(path), LISTED).scan(as_of=last).to_table() == earlier
