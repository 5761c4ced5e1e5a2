from __future__ import annotations

import itertools
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConflictError, CorruptFileError, TableNotFoundError, UnsupportedTableError
from hudi_py.model.layout import BACKUP, PROPERTIES
from hudi_py.model.properties import CHECKSUM, TableConfig, format_properties, parse_properties
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.properties import (
    check_writable,
    create_table_config,
    load_table_config,
    update_table_config,
)

_NAMES = itertools.count()
TABLE = {
    "hoodie.table.name": "t",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.metadata.partitions": "files",
}


class Killed(BaseException):
    """The process dies."""


class KillingStorage(MemoryStorage):
    """Dies at the k-th changing call, before or after it."""

    changes = ("put", "put_if_absent", "delete", "rename", "touch")

    def arm(self, call: int, *, after: bool) -> None:
        self.call, self.after, self.count = call, after, 0

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name not in KillingStorage.changes or "call" not in self.__dict__:
            return attribute

        def run(*arguments: Any) -> Any:
            self.count += 1
            if self.count == self.call and not self.after:
                raise Killed
            result = attribute(*arguments)
            if self.count == self.call:
                raise Killed
            return result

        return run


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"properties-{next(_NAMES)}")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def test_create_then_load(storage: MemoryStorage) -> None:
    assert create_table_config(storage, TABLE) is True
    config = load_table_config(storage)
    assert (config.name, config.version, config.layout) == ("t", 9, 2)
    assert config.properties[CHECKSUM] == str(zlib.crc32(b".t"))
    assert storage.read(PROPERTIES).startswith(b"#Properties saved on 2")


def test_the_second_to_create_loses(storage: MemoryStorage) -> None:
    assert create_table_config(storage, TABLE)
    assert create_table_config(storage, {**TABLE, "hoodie.table.name": "other"}) is False
    assert load_table_config(storage).name == "t"


def test_creating_over_a_broken_off_update_finds_the_table(storage: MemoryStorage) -> None:
    storage.put(BACKUP, format_properties(TABLE, "x").encode())
    assert create_table_config(storage, {**TABLE, "hoodie.table.name": "other"}) is False
    assert load_table_config(storage).name == "t"
    assert storage.stat(BACKUP) is None


def test_missing_table(storage: MemoryStorage) -> None:
    with pytest.raises(TableNotFoundError, match=r"No Hudi table at memory://.*hoodie\.properties is missing"):
        load_table_config(storage)
    storage.put(".hoodie/other", b"")
    with pytest.raises(TableNotFoundError):
        load_table_config(storage)


@pytest.mark.parametrize("below", ["*", "*/*", "city=oslo", "2026-0[12]/*"])
def test_a_path_below_a_table_names_it(tmp_path: Path, below: str) -> None:
    """Older releases of Apache Hudi took wildcards; 1.2.0 refuses them, too."""
    with pytest.raises(
        TableNotFoundError, match=f"the table, as file://{tmp_path}/trips seems to be, and choose partitions"
    ):
        hudi_py.open_table(f"{tmp_path}/trips/{below}")


def test_backup_serves_while_the_file_is_gone_or_torn(storage: MemoryStorage) -> None:
    storage.put(BACKUP, format_properties(TABLE, "x").encode())
    assert load_table_config(storage).name == "t"
    for torn in (b"", b"hoodie.table.version=9\n", b"hoodie.table.name=t\nhoodie.table.checksum=1\n"):
        storage.put(PROPERTIES, torn)
        assert load_table_config(storage).version == 9


def test_an_update_that_goes_on_between_two_reads(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.put(".hoodie/other", b"")

    def appear(seconds: float) -> None:
        storage.put(PROPERTIES, format_properties(TABLE, "x").encode())

    monkeypatch.setattr(time, "sleep", appear)
    assert load_table_config(storage).name == "t"


def test_nothing_valid(storage: MemoryStorage) -> None:
    storage.put(PROPERTIES, b"hoodie.table.name=t\nhoodie.table.checksum=1\n")
    with pytest.raises(CorruptFileError, match=r"neither .* nor its backup is valid"):
        load_table_config(storage)


@pytest.mark.parametrize(
    ("version", "layout", "fine"),
    [("6", "1", True), ("8", "2", True), ("9", "2", True), ("6", "2", False), ("9", "1", False), ("5", "2", False),
     ("5", "1", True), ("4", "1", True), ("3", "1", True), ("2", "1", True), ("2", "0", True), ("6", "0", True),
     ("8", "0", False), ("1", "1", False), ("0", "0", False), ("7", "1", False), ("10", "2", False),
     ("nine", "2", False)],
)  # fmt: skip
def test_versions(storage: MemoryStorage, version: str, layout: str, fine: bool) -> None:
    create_table_config(storage, {**TABLE, "hoodie.table.version": version, "hoodie.timeline.layout.version": layout})
    if fine:
        assert load_table_config(storage).version == int(version)
        return
    with pytest.raises(UnsupportedTableError) as caught:
        load_table_config(storage)
    line = str(caught.value).splitlines()[0]
    assert f"hoodie.table.version={version}" in line
    assert storage.uri in line
    assert "supported: 2 to 6 (timeline layouts 0 and 1), 8 and 9 (timeline layout 2)" in line


def test_a_table_without_version(storage: MemoryStorage) -> None:
    create_table_config(storage, {key: value for key, value in TABLE.items() if "version" not in key})
    with pytest.raises(UnsupportedTableError, match=r"hoodie.table.version=none \(releases before 0.6"):
        load_table_config(storage)


@pytest.mark.parametrize(("version", "layout", "fine"), [("5", "1", False), ("6", "0", False), ("6", "1", True)])
def test_which_tables_are_written(version: str, layout: str, fine: bool) -> None:
    found = TableConfig({**TABLE, "hoodie.table.version": version, "hoodie.timeline.layout.version": layout})
    if fine:
        check_writable(found)
        return
    with pytest.raises(UnsupportedTableError) as caught:
        check_writable(found)
    line = str(caught.value)
    assert line.startswith(f"Cannot write to table 't': it has hoodie.table.version={version} and timeline layout")
    assert "upgrade it with Table.upgrade()" in line


def test_update(storage: MemoryStorage) -> None:
    create_table_config(storage, TABLE)
    config = update_table_config(storage, {"hoodie.table.metadata.partitions": None, "hoodie.x": "a:b=c"})
    assert config.metadata_partitions == ()
    assert config.properties["hoodie.x"] == "a:b=c"
    assert storage.read(PROPERTIES).startswith(b"#Updated at 2")
    assert storage.stat(BACKUP) is None


def test_update_without_a_change_writes_nothing(storage: MemoryStorage) -> None:
    create_table_config(storage, TABLE)
    before = storage.read(PROPERTIES)
    update_table_config(storage, {"hoodie.table.version": "9", "hoodie.absent": None})
    assert storage.read(PROPERTIES) == before


def test_two_updates_at_once(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    create_table_config(storage, TABLE)
    real = MemoryStorage.put_if_absent

    def other_first(self: MemoryStorage, path: str, data: bytes) -> bool:
        real(self, path, b"theirs")
        return real(self, path, data)

    monkeypatch.setattr(MemoryStorage, "put_if_absent", other_first)
    with pytest.raises(ConflictError, match="another process is updating"):
        update_table_config(storage, {"hoodie.x": "1"})


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(1, 6))
def test_killed_at_each_step(call: int, after: bool) -> None:
    storage = KillingStorage(f"properties-{next(_NAMES)}")
    create_table_config(storage, TABLE)
    storage.arm(call, after=after)
    try:
        update_table_config(storage, {"hoodie.x": "1"})
        died = False
    except Killed:
        died = True
    assert died == (call <= 5)
    seen = load_table_config(storage).properties
    assert seen.get("hoodie.x") in (None, "1")
    assert seen["hoodie.table.name"] == "t"
    storage.arm(0, after=False)
    assert update_table_config(storage, {"hoodie.y": "2"}).properties["hoodie.y"] == "2"
    assert storage.stat(BACKUP) is None
    assert parse_properties(storage.read(PROPERTIES).decode())["hoodie.y"] == "2"


@pytest.mark.parametrize("key", ["hoodie.table.ordering.fields", "hoodie.table.partition.fields", CHECKSUM])
def test_a_turned_bit_in_a_key(storage: MemoryStorage, key: str) -> None:
    """The checksum covers the table's name alone, and without the key another row would win."""
    assert create_table_config(storage, {**TABLE, key: "ts"})
    whole = storage.read(PROPERTIES)
    start = whole.index(f"\n{key}=".encode()) + 1
    for at, bit in itertools.product(range(start + 1, start + len(key) + 1), range(7)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        if damaged[at] in b":= \t\f\\\r\n":  # a key may end so, too
            continue
        storage.put(PROPERTIES, bytes(damaged))
        with pytest.raises(CorruptFileError, match=f"{key} in one character, and has no {key}; correct the file"):
            load_table_config(storage)
    storage.put(PROPERTIES, whole + b"hoodie.table.of.a.later.release=1\n")
    assert load_table_config(storage).properties["hoodie.table.of.a.later.release"] == "1"
