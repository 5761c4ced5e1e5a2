"""Base files in the place of another one of the same size: what tells them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import hudi_py
from hudi_py.errors import CorruptFileError
from hudi_py.formats.base_files import iter_base_batches
from hudi_py.storage import LocalStorage


def row(key: str, partition: str, v: int) -> dict[str, object]:
    return {"id": key, "p": partition, "ts": v, "v": v}


@pytest.mark.parametrize(("file_format", "version"), [("ORC", 6), ("ORC", 9), ("LANCE", 9)])
def test_a_file_of_another_partition(file_format: str, version: int, tmp_path: Path) -> None:
    if file_format == "LANCE":
        pytest.importorskip("lance")
    options = {"hoodie.table.base.file.format": file_format, "hoodie.orc.compression.codec": "NONE"}
    path = tmp_path / "t"
    settings = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_version": version}
    hudi_py.write(path, [row("k1", "a", 1), row("k2", "b", 2)], options=options, **settings)  # type: ignore[arg-type]
    one, other = (next((path / partition).glob(f"*.{file_format.lower()}")) for partition in "ab")
    table = hudi_py.open_table(path, {"hoodie.py.write.threads": "1"})
    assert table.doctor().healthy
    data = one.read_bytes()
    assert len(data) == other.stat().st_size
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    for columns in (["v"], None):
        with pytest.raises(CorruptFileError, match="rows are those of .* another file has taken its place"):
            table.scan(columns).to_table()
        with pytest.raises(CorruptFileError, match="another file has taken its place"):
            list(iter_base_batches(LocalStorage(str(path)), f"a/{one.name}", columns))
    with pytest.raises(CorruptFileError, match="another file has taken its place"):
        table.upsert([row("k1", "a", 3)])
    assert {finding.partition for finding in table.doctor().of("files.corrupt")} == {"a", "b"}
