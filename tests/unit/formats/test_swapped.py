"""Files in the place of others of the same size: what tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import CorruptFileError
from hudi_py.formats.base.files import iter_base_batches, read_footer
from hudi_py.formats.base.origin import check_first_record
from hudi_py.formats.base.parquet import block_batches, read_metadata
from hudi_py.formats.log import read_blocks, read_content
from hudi_py.health.diagnose import diagnose
from hudi_py.health.facts import ExaminationLimits
from hudi_py.storage import LocalStorage

TAKEN = "another file has taken its place"
QUIET = {"hoodie.compact.inline": "false", "hoodie.py.write.threads": "1"}


def row(key: str, partition: str, v: int) -> dict[str, object]:
    return {"id": key, "p": partition, "ts": v, "v": v}


def equal(folder: Path, make: Callable[[Path], tuple[hudi_py.Table, Path, Path]]) -> tuple[hudi_py.Table, Path, Path]:
    """A table with two files of one size: checksums and file ids are of chance, and take a byte more or less."""
    for number in range(60):
        table, one, other = make(folder / str(number))
        if one.stat().st_size == other.stat().st_size:
            return table, one, other
    raise AssertionError("no two files have one size")


def swap(one: Path, other: Path) -> None:
    data, more = one.read_bytes(), other.read_bytes()
    assert len(data) == len(more)
    one.write_bytes(more)
    other.write_bytes(data)


def write(path: Path, rows: list[dict[str, object]], version: int, **more: Any) -> hudi_py.Table:
    options = {**QUIET, **more.pop("options", {})}
    settings = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_version": version, **more}
    hudi_py.write(path, rows, options=options, **settings)
    return hudi_py.open_table(path, QUIET)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("file_format", "version"), [("PARQUET", 6), ("PARQUET", 9), ("ORC", 6), ("ORC", 9), ("LANCE", 9)]
)
def test_a_file_of_another_partition(file_format: str, version: int, tmp_path: Path) -> None:
    if file_format == "LANCE":
        pytest.importorskip("lance")

    def make(path: Path) -> tuple[hudi_py.Table, Path, Path]:
        options = {"hoodie.table.base.file.format": file_format}
        table = write(path, [row("k1", "a", 1), row("k2", "b", 2)], version, options=options)
        one, other = (next((path / partition).glob(f"*.{file_format.lower()}")) for partition in "ab")
        return table, one, other

    table, one, other = equal(tmp_path, make)
    path = one.parents[1]
    assert table.doctor().healthy
    swap(one, other)
    for columns in (["v"], None):
        with pytest.raises(CorruptFileError, match=f"rows are those of .* {TAKEN}"):
            table.scan(columns).to_table()
        with pytest.raises(CorruptFileError, match=TAKEN):
            list(iter_base_batches(LocalStorage(str(path)), f"a/{one.name}", columns))
    with pytest.raises(CorruptFileError, match=TAKEN):
        table.upsert([row("k1", "a", 3)])
    assert {finding.partition for finding in table.doctor().of("files.corrupt")} == {"a", "b"}


@pytest.mark.parametrize("extension", ["parquet", "lance"])
def test_an_older_version_of_a_file(extension: str, tmp_path: Path) -> None:
    if extension == "lance":
        pytest.importorskip("lance")

    def make(path: Path) -> tuple[hudi_py.Table, Path, Path]:
        table = write(path, [row("k1", "a", 1)], 9, options={"hoodie.table.base.file.format": extension.upper()})
        table.upsert([row("k1", "a", 2)])
        old, new = sorted((path / "a").glob(f"*.{extension}"), key=lambda file: file.stat().st_mtime_ns)
        return table, old, new

    table, old, new = equal(tmp_path, make)
    new.write_bytes(old.read_bytes())
    with pytest.raises(CorruptFileError, match=f"rows are those of {old.name}"):
        table.scan(["v"]).to_table()


def test_releases_before_0_11_keep_the_name_of_an_older_version(tmp_path: Path) -> None:
    """Their Parquet is older than 1.13: rows that a write copied name the file from which they come."""
    write(tmp_path / "t", [row("k1", "a", 1)], 9)
    storage = LocalStorage(str(tmp_path / "t"))
    (file,) = (tmp_path / "t" / "a").glob("*.parquet")
    data = file.read_bytes()
    created = pq.read_metadata(file).created_by.encode()
    renamed = file.with_name(file.name.rpartition("_")[0] + "_29990101000000000.parquet")
    for writer, passes in ((b"parquet-mr version 1.12.3", True), (b"parquet-mr version 1.13.1", False)):
        renamed.write_bytes(data.replace(created, writer.ljust(len(created))))
        for reading in (read_footer, read_metadata):
            if passes:
                assert reading(storage, f"a/{renamed.name}").num_rows == 1
            else:
                with pytest.raises(CorruptFileError, match=TAKEN):
                    reading(storage, f"a/{renamed.name}")
    other = file.with_name(file.name.replace(file.name[:8], "00000000"))
    other.write_bytes(data.replace(created, b"parquet-mr version 1.10.1".ljust(len(created))))
    with pytest.raises(CorruptFileError, match=TAKEN):
        read_footer(storage, f"a/{other.name}")


def log_of(folder: Path, last: bool = True) -> Path:
    return sorted(folder.glob(".*.log.*"), key=lambda file: file.stat().st_mtime_ns)[-1 if last else 0]


def merge_on_read(path: Path, version: int, **options: str) -> hudi_py.Table:
    """Two partitions with a base file and a log of one commit each."""
    rows = [row("k1", "a", 1), row("k2", "b", 2)]
    table = write(path, rows, version, table_type="MERGE_ON_READ", options=options)
    table.upsert([row("k1", "a", 3), row("k2", "b", 4)], options=options)
    return table


LOGS: dict[str, tuple[int, dict[str, str]]] = {
    "version 6": (6, {}),
    "version 9": (9, {}),
    "without base files": (9, {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}),
    "file ids that recur": (
        9,
        {
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        },
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", LOGS)
def test_a_log_of_another_partition(case: str, tmp_path: Path) -> None:
    version, options = LOGS[case]

    def make(path: Path) -> tuple[hudi_py.Table, Path, Path]:
        return merge_on_read(path, version, **options), log_of(path / "a"), log_of(path / "b")

    table, one, other = equal(tmp_path, make)
    assert table.doctor().healthy
    swap(one, other)
    for reading in (
        lambda: table.scan(["v"]).to_table(),
        lambda: table.scan(filter="id = 'k1'").to_table(),
        lambda: table.compact(),
    ):
        with pytest.raises(CorruptFileError, match=TAKEN):
            reading()
    for limits in (ExaminationLimits(), ExaminationLimits(rows=0)):  # the comparison of keys notices it, too
        found = diagnose(LocalStorage(str(one.parents[1])), limits=limits)
        assert {finding.partition for finding in found.of("files.corrupt")} == {"a", "b"}


def test_a_log_of_deletes_of_another_partition(tmp_path: Path) -> None:
    table = merge_on_read(tmp_path / "t", 9)
    table.delete([{"id": "k1", "p": "a"}, {"id": "k2", "p": "b"}])
    swap(log_of(tmp_path / "t" / "a"), log_of(tmp_path / "t" / "b"))
    with pytest.raises(CorruptFileError, match=TAKEN):
        table.scan(["v"]).to_table()
    assert {finding.partition for finding in table.doctor().of("files.corrupt")} == {"a", "b"}


@pytest.mark.parametrize("version", [8, 9])
def test_a_log_of_another_commit(version: int, tmp_path: Path) -> None:
    """Of the same file group: the instants of its blocks are committed, but by a commit that wrote another file."""
    table = merge_on_read(tmp_path / "t", version)
    table.upsert([row("k1", "a", 5)])
    swap(log_of(tmp_path / "t" / "a"), log_of(tmp_path / "t" / "a", last=False))
    with pytest.raises(CorruptFileError, match=r"has blocks of \d+, which wrote other files"):
        table.scan(["v"]).to_table()
    assert [finding.partition for finding in table.doctor().of("files.corrupt")] == ["a", "a"]


def test_a_parquet_block_of_another_file_group(tmp_path: Path) -> None:
    merge_on_read(tmp_path / "t", 9, **{"hoodie.logfile.data.block.format": "parquet"})
    storage, log = LocalStorage(str(tmp_path / "t")), log_of(tmp_path / "t" / "a")
    (block,) = read_blocks(storage, f"a/{log.name}", log.stat().st_size)
    content = read_content(storage, block)
    assert [batch.to_pydict() for batch in block_batches(content, ["v"], block.path, 0)] == [{"v": [3]}]
    with pytest.raises(CorruptFileError, match=TAKEN):
        list(block_batches(content, ["v"], f"a/.0{log.name}", 0))


def test_a_repair_leaves_out_a_log_of_another_file_group(tmp_path: Path) -> None:
    path = tmp_path / "t"
    merge_on_read(path, 9)
    swap(log_of(path / "a"), log_of(path / "b"))
    report = hudi_py.repair(path, hudi_py.repair_plan(path, lose_rows=True))
    assert report.rows_lost == 2
    table = hudi_py.open_table(path)
    assert table.doctor().healthy
    assert sorted(table.scan(["v"]).to_table()["v"].to_pylist()) == [1, 2]


def test_rows_without_a_name_are_taken(tmp_path: Path) -> None:
    options = {"hoodie.populate.meta.fields": "false"}
    table = merge_on_read(tmp_path / "t", 9, **options)
    assert sorted(table.scan(["v"]).to_table()["v"].to_pylist()) == [3, 4]
    # Apache Hudi's bulk insert by rows leaves texts empty
    meta = {name: [""] for name in ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")}
    pq.write_table(pa.table({**meta, "v": [1]}), tmp_path / "f-0_0-1-0_20240101000000000.parquet")
    assert read_footer(LocalStorage(str(tmp_path)), "f-0_0-1-0_20240101000000000.parquet").num_rows == 1


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "[",
        "{}",
        '{"fields": [{"name": "_hoodie_file_name", "type": "long"}]}',
        '{"fields": [{"name": "x", "type": ["null", "long"]}, {"name": "_hoodie_file_name", "type": "string"}]}',
    ],
)
def test_records_of_other_schemas_are_left_to_who_decodes_them(schema: str) -> None:
    check_first_record(bytes(8) + b"\x02other", schema, "a/.f_1.log.1_0-0-0")


@pytest.mark.parametrize("null_first", [True, False])
def test_the_first_record_of_a_block(null_first: bool) -> None:
    kind = '["null", "string"]' if null_first else '["string", "null"]'
    schema = f'{{"fields": [{{"name": "x", "type": {kind}}}, {{"name": "_hoodie_file_name", "type": "string"}}]}}'
    text, null = (b"\x02", b"\x00") if null_first else (b"\x00", b"\x02")
    name = b"f" * 70
    for leading in (null, text + b"\x04xy"):
        content = bytes([0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 90]) + leading + b"\x8c\x01" + name
        check_first_record(content, schema, f"a/.{name.decode()}_1.log.1_0-0-0")
        with pytest.raises(CorruptFileError, match=TAKEN):
            check_first_record(content, schema, "a/.g_1.log.1_0-0-0")
        for end in range(len(content) - 1):  # torn, which other checks notice
            if content[:end].count(b"f") == 0:
                check_first_record(content[:end], schema, "a/.g_1.log.1_0-0-0")
