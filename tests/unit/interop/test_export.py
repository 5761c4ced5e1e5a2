"""Copies of tables and of their rows: the same rows as in the source, as of now and before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, HudiError, UnsupportedTableError
from hudi_py.formats.log import HeaderKey, LogBlock, read_blocks
from hudi_py.health.diagnose import diagnose
from hudi_py.storage import Storage, open_storage
from hudi_py.storage.base import copy_file
from tests.support.choice import cases

OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}


def write(path: Path, ids: list[int], ts: int, **new: Any) -> str:
    rows = [{"id": n, "p": "ab"[n % 2], "ts": ts, "v": f"{n}-{ts}"} for n in ids]
    return str(hudi_py.write(str(path), rows, options=OPTIONS, **new).instant)


def make(path: Path, version: int = 9, kind: str = "mor") -> list[str]:
    """Writes to new and known keys, with a compaction in between."""
    new = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": kind, "table_version": version}
    times = [write(path, [0, 1, 2, 3], 1, **new), write(path, [2, 3, 4], 2)]
    if kind == "mor":
        hudi_py.open_table(str(path), options=OPTIONS).compact()
    return [*times, write(path, [5, 6], 3), write(path, [0, 6], 4), write(path, [1], 5)]


def values(path: Path | str, **scan: Any) -> dict[int, str]:
    found = hudi_py.open_table(str(path)).scan(["id", "v"], **scan).to_table()
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


@pytest.mark.parametrize(("version", "kind"), cases(product((6, 8, 9), ("cow", "mor")), "exports", 3))
def test_a_copy_is_a_table(tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    times = make(path, version, kind)
    table = hudi_py.open_table(str(path), options=OPTIONS)
    for number, as_of in enumerate((None, times[3], times[2], times[1])):
        copy = tmp_path / f"copy{number}"
        planned = table.export(copy, as_of=as_of, dry_run=True)
        assert not copy.exists() or not list(copy.iterdir())
        done = table.export(copy, as_of=as_of)
        assert done.to_dict() == {**planned.to_dict(), "dry_run": False}
        expected = values(path) if as_of is None else values(path, as_of=as_of)
        assert values(copy) == expected
        assert done.as_of is not None
        assert (as_of is None) or done.as_of <= as_of
        files = [each for each in copy.rglob("*-0_*") if each.is_file() and ".hoodie" not in each.parts]
        assert sum(not each.name.endswith(".crc") for each in files) == done.num_files
        found = diagnose(open_storage(copy), OPTIONS, full=True)
        assert found.healthy, str(found)
        if as_of is None:
            with pytest.raises(HudiError):  # the files of that time are not in the copy
                values(copy, as_of=times[0])
        write(copy, [2, 50], 9)
        assert values(copy) == {**expected, 2: "2-9", 50: "50-9"}
        hudi_py.open_table(str(copy), options=OPTIONS).clean()
        assert values(copy) == {**expected, 2: "2-9", 50: "50-9"}
    assert "would be copied" in str(planned)


def test_logs_of_version_6_after_an_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named by the base file's instant, whichever commit wrote them."""
    path = tmp_path / "t"
    times = [write(path, [0, 1], 1, record_key="id", ordering_by="ts", table_type="mor", table_version=6)]
    times += [write(path, [1, 2], ts) for ts in (2, 3)]
    table = hudi_py.open_table(str(path), options=OPTIONS)
    table.upgrade(9)
    for number, as_of in enumerate(times):
        table.export(tmp_path / f"copy{number}", as_of=as_of)
        assert values(tmp_path / f"copy{number}") == values(path, as_of=as_of)
    from hudi_py.interop import export

    def appended(storage: Storage, log: str, size: int) -> Iterator[LogBlock]:
        """As on HDFS, where Apache Hudi appends to logs."""
        yield from read_blocks(storage, log, size)
        if ".log.1_" in log:
            yield replace(next(read_blocks(storage, log, size)), header={HeaderKey.INSTANT_TIME: times[2]})

    monkeypatch.setattr(export, "read_blocks", appended)
    with pytest.raises(UnsupportedTableError, match=f"also has rows of {times[2]}; give a later time"):
        table.export(tmp_path / "other", as_of=times[1])
    assert not (tmp_path / "other").exists()


def test_rows_become_parquet_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    times = make(path)
    table = hudi_py.open_table(str(path), options=OPTIONS)
    done = table.export(tmp_path / "files", format="parquet")
    found = ds.dataset(tmp_path / "files", format="parquet", exclude_invalid_files=True).to_table()
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == values(path)
    assert found.schema.names == ["id", "p", "ts", "v"]
    assert (tmp_path / "files/_SUCCESS").read_bytes() == b""
    assert (done.num_rows, done.num_files) == (7, len(list((tmp_path / "files").glob("*.parquet"))))
    planned = table.export(tmp_path / "parts", format="parquet", as_of=times[1], partition_by="p", dry_run=True)
    assert planned.num_rows == 5
    done = table.export(tmp_path / "parts", format="parquet", as_of=times[1], partition_by="p")
    assert (done.num_rows, done.num_partitions) == (5, 2)
    assert {each.name for each in (tmp_path / "parts").iterdir()} == {"p=a", "p=b", "_SUCCESS"}
    found = ds.dataset(tmp_path / "parts", format="parquet", partitioning="hive", exclude_invalid_files=True).to_table()
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == values(path, as_of=times[1])


def test_values_of_folders(tmp_path: Path) -> None:
    rows = [{"id": 1, "c": "a/b"}, {"id": 2, "c": None}, {"id": 3, "c": "x"}]
    hudi_py.write(str(tmp_path / "t"), rows, record_key="id")
    hudi_py.open_table(str(tmp_path / "t")).export(tmp_path / "out", format="parquet", partition_by="c")
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert names == {"c=a%2Fb", "c=__HIVE_DEFAULT_PARTITION__", "c=x", "_SUCCESS"}
    columns = {
        "f": (pa.array([float("nan"), 1.5, None, float("nan")]), {"f=nan", "f=1.5", "f=__HIVE_DEFAULT_PARTITION__"}),
        "t": (pa.array(["", None, "a", "a"]), {"t=a", "t=__HIVE_DEFAULT_PARTITION__"}),
        "b": (pa.array([True, False, True, None]), {"b=true", "b=false", "b=__HIVE_DEFAULT_PARTITION__"}),
    }
    table = pa.table({"id": [1, 2, 3, 4], **{name: values for name, (values, _) in columns.items()}})
    hudi_py.write(str(tmp_path / "u"), table, record_key="id")
    for name, (_, folders) in columns.items():
        done = hudi_py.open_table(str(tmp_path / "u")).export(
            tmp_path / f"out-{name}", format="parquet", partition_by=name
        )
        found = [each for each in (tmp_path / f"out-{name}").iterdir() if each.is_dir()]
        assert {each.name for each in found} == folders
        rows = pa.concat_tables([pq.read_table(file, partitioning=None) for each in found for file in each.iterdir()])
        assert (done.num_rows, sorted(rows["id"].to_pylist())) == (4, [1, 2, 3, 4])


def test_no_rows_have_columns(tmp_path: Path) -> None:
    hudi_py.write(str(tmp_path / "t"), [{"id": 1, "c": "x"}], record_key="id")
    table = hudi_py.open_table(str(tmp_path / "t"))
    table.delete("id = 1")
    for target, given in (("out", {}), ("parts", {"partition_by": "c"})):
        done = table.export(tmp_path / target, format="parquet", **given)
        assert (done.num_rows, done.num_files) == (0, 1)
        found = ds.dataset(tmp_path / target, format="parquet", exclude_invalid_files=True).to_table()
        assert (found.num_rows, found.schema.names) == (0, ["id", "c"])


def test_nested_nullability(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("a", pa.string(), nullable=False), pa.field("b", pa.int64())])
    rows = pa.table({"id": [1, 2], "s": pa.array([{"a": "x", "b": 1}, None], inner)})
    hudi_py.write(str(tmp_path / "t"), rows, record_key="id")
    table = hudi_py.open_table(str(tmp_path / "t"))
    table.export(tmp_path / "out", format="parquet")
    assert pq.read_table(tmp_path / "out")["s"].to_pylist() == [{"a": "x", "b": 1}, None]
    with pytest.raises(ConfigError, match="its values do not name folders"):
        table.export(tmp_path / "parts", format="parquet", partition_by="s")


def test_other_storages() -> None:
    rows = [{"id": n, "ts": 1} for n in range(3)]
    hudi_py.write("memory://export/t", rows, record_key="id", ordering_by="ts")
    hudi_py.open_table("memory://export/t").export("memory://export2/copy")
    assert hudi_py.open_table("memory://export2/copy").scan().count() == 3


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, 9, "cow")
    table = hudi_py.open_table(str(path), options=OPTIONS)
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    for target, given, message in (
        (full, {}, "it is not empty"),
        (path / "copy", {}, "it lies in the table"),
        (path, {}, "it lies in the table"),
        (tmp_path / "n", {"format": "csv"}, "supported: hudi, parquet"),
        (tmp_path / "n", {"partition_by": "p"}, "a copy has the table's own partitions"),
        (tmp_path / "n", {"partition_by": "q", "format": "parquet"}, "columns are id, p, ts, v"),
    ):
        with pytest.raises(ConfigError, match=message):
            table.export(target, **given)
    assert not (tmp_path / "n").exists()


def test_files_that_are_cleaned_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    make(path, 9, "cow")
    table = hudi_py.open_table(str(path), options=OPTIONS)
    from hudi_py.interop import export

    def cleaned(*given: Any) -> None:
        shutil.rmtree(path / "a")
        copy_file(*given)

    monkeypatch.setattr(export, "copy_file", cleaned)
    with pytest.raises(ConflictError, match="was cleaned meanwhile; remove what is at"):
        hudi_py.open_table(str(path), options={**OPTIONS, "hoodie.py.write.threads": "1"}).export(tmp_path / "copy")
    assert not (tmp_path / "copy/.hoodie/hoodie.properties").exists()
    assert table.uri
