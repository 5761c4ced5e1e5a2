"""Tables with a metadata table that is kept up, written with hardly any waiting for clock skew."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.metadata.files import read_files
from hudi_py.metadata.table import FILES, MetadataTable
from hudi_py.metadata_write.maintenance.services import run_due
from hudi_py.metadata_write.table.session import open_metadata_session
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import Instant
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.services.planned.service import ServiceReport
from hudi_py.storage import FolderStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.transaction.protocols import MetadataUpdate, TableChange
from hudi_py.transaction.session import TableSession, WriteTarget
from hudi_py.view import StorageLister
from hudi_py.write.api import TableArguments, write_options, write_rows
from hudi_py.write.result import WriteResult
from tests.support.sessions import session_of

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.int64()), ("p", pa.string())])


def rows(ids: Iterable[int], ts: int = 1) -> pa.Table:
    listed = [{"id": i, "name": f"n{i}-{ts}", "ts": ts, "p": "ab"[i % 2]} for i in ids]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


def options(version: int, kind: str, given: dict[str, str] | None = None) -> Options:
    """Of a write to such a table."""
    return write_options(
        {
            "hoodie.table.name": "t",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.time.generator.max_expected_clock_skew_ms": "5",
            # two would make the calls in another order, and another number of them, each time
            "hoodie.py.write.threads": "1",
            **(given or {}),
        },
        TableArguments(record_key="id", partition_by="p", ordering_by="ts", table_type=kind, table_version=version),
    )


def maintain(storage: Storage, chosen: Options, clock: InstantClock) -> list[ServiceReport]:
    """What is due on the metadata table of the table at `storage`, where it has one."""
    session = session_of(storage, clock=clock)
    if FILES not in session.config.metadata_partitions:
        return []
    own = open_metadata_session(session)
    return run_due(own, own.timeline(), session.timeline(), chosen)


def write(
    storage: Storage,
    data: pa.Table,
    operation: str = "upsert",
    *,
    version: int = 9,
    kind: str = "mor",
    given: dict[str, str] | None = None,
    maintained: bool = True,
) -> WriteResult:
    """One write; `maintained=False` leaves the metadata table's services out."""
    chosen = options(version, kind, given)
    writer = MetadataTableWriter(chosen)
    return write_rows(WriteTarget(storage, chosen, writer if maintained else Unmaintained(chosen)), data, operation)


class Unmaintained(MetadataTableWriter):
    """Runs no services."""

    def record(self, session: TableSession, timeline: Timeline, change: TableChange) -> MetadataUpdate:
        return MetadataUpdate(super().record(session, timeline, change).dropped)


def clock_of(storage: Storage) -> InstantClock:
    return InstantClock(load_table_config(storage), skew_ms=5)


def own(storage: Storage) -> FolderStorage:
    """The metadata table's folder."""
    return FolderStorage(storage, METADATA_TABLE)


def own_instants(storage: Storage) -> list[Instant]:
    """Instants of the metadata table, oldest first."""
    folder = own(storage)
    return list(load_timeline(folder, load_table_config(folder)).instants)


def check_listing(storage: Storage) -> None:
    """The metadata table lists what the storage does, of committed files."""
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    listed = read_files(MetadataTable(TableState(storage, config, timeline)))
    lister = StorageLister(storage, config)
    assert set(listed.pop("__all_partitions__")) == {str(path) for path in lister.partitions()}
    for partition in lister.partitions():
        found = {
            info.name: info.size
            for info in lister.files(partition)
            if (parsed := parse_base_file_name(info.name) or parse_log_file_name(info.name)) is not None
            and timeline.is_committed(parsed.instant)
        }
        assert listed[str(partition)] == found
