"""Writes made by hand through the transaction API: data files of arbitrary bytes, for tests of the write protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hudi_py.config import Options
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, read_blocks
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import LogFile
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, PartitionPath, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.action import CommitResult, OperationResult
from hudi_py.transaction.handle import TransactionHandle
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import load_view
from hudi_py.write.api import create_table
from tests.support.sessions import session_of, settings_of

SCHEMA = '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"id","type":["null","long"]}]}'
SETTINGS = settings_of(LOCK_WAIT_MS=200_000, LOCK_RETRIES=0, LOCK_RETRY_WAIT_MS=20)
IMPATIENT = settings_of(LOCK_WAIT_MS=50, LOCK_RETRIES=0, LOCK_RETRY_WAIT_MS=10)

Snapshot = dict[str, list[tuple[str, str | None, list[str]]]]
"""Partition to (file id, base file, log files) of its latest slices."""


def new_table(storage: Storage, version: int = 9, *, mor: bool = False, partitioned: bool = True) -> TableConfig:
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if mor else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p" if partitioned else "",
        "hoodie.table.timeline.timezone": "UTC",
    }
    return create_table(storage, Options.resolve(options, defaults={}))[0]


def fast_clock(config: TableConfig) -> InstantClock:
    return InstantClock(config, sleep=lambda seconds: None)


def write_action(config: TableConfig) -> Action:
    return Action.DELTA_COMMIT if config.is_mor else Action.COMMIT


def begin(storage: Storage, config: TableConfig, **changes: object) -> WriteTransaction:
    session, arguments = _arguments(storage, config, changes)
    return WriteTransaction.begin(session, **arguments)  # type: ignore[arg-type]


def plan(storage: Storage, config: TableConfig, **changes: object) -> TransactionHandle:
    session, arguments = _arguments(storage, config, changes)
    return WriteTransaction.plan(session, **arguments)  # type: ignore[arg-type]


def _arguments(
    storage: Storage, config: TableConfig, changes: dict[str, object]
) -> tuple[TableSession, dict[str, object]]:
    """The session, and the arguments besides it, of `plan` and `begin`."""
    arguments = {"action": write_action(config), "operation": "UPSERT", **changes}
    of_session = {name: arguments.pop(name) for name in ("settings", "clock") if name in arguments}
    given = {"settings": SETTINGS, "clock": fast_clock(config), **of_session}
    metadata = arguments.pop("metadata", None)
    session = session_of(storage, metadata, config=config, **given)  # type: ignore[arg-type]
    return session, arguments


def attach(handle: TransactionHandle, storage: Storage) -> WriteTransaction:
    return WriteTransaction.attach(handle, storage=storage, clock=fast_clock(handle.config))


def write_base(
    tx: WriteTransaction, partition: str, file_id: str, *, token: str = "0-1-0", previous: str | None = None
) -> WriteStat:
    """Publishes a base file that holds its own path."""
    permit = tx.publication.permit_base_file(
        PartitionPath(partition), FileId(file_id), token, merges=previous is not None
    )
    content = permit.path.encode()
    with tx.storage.open_output(permit.temp_path) as out:
        out.write(content)
    tx.publication.publish(permit)
    return WriteStat(
        file_id=file_id,
        path=permit.path,
        partition_path=partition,
        prev_commit=previous or "null",
        num_writes=1,
        num_inserts=1,
        file_size=len(content),
        total_write_bytes=len(content),
    )


def write_log(
    tx: WriteTransaction, partition: str, file_id: str, *, token: str = "0-1-0", base_instant: str, version: int = 1
) -> WriteStat:
    """Publishes a log file with one delete block without keys."""
    permit = tx.publication.permit_log_file(
        PartitionPath(partition), FileId(file_id), token, base_instant=base_instant, version=version
    )
    header = {HeaderKey.INSTANT_TIME: tx.instant, HeaderKey.SCHEMA: SCHEMA}
    content = encode_block(BlockType.DELETE, header, b"\x00\x00\x00\x03\x00\x00\x00\x01\x00")
    with tx.storage.open_output(permit.temp_path) as out:
        out.write(content)
    tx.publication.publish(permit)
    return WriteStat(
        file_id=file_id,
        path=permit.path,
        partition_path=partition,
        prev_commit=base_instant,
        num_writes=1,
        num_deletes=1,
        file_size=len(content),
        total_write_bytes=len(content),
        log_version=version,
        log_offset=0,
        base_file="",
        log_files=(permit.path.rpartition("/")[2],),
    )


def java_pending(storage: Storage, config: TableConfig, instant: str) -> None:
    """A pending write as Apache Hudi leaves one: empty files, no heartbeat."""
    layout, action = load_timeline(storage, config).layout, write_action(config)
    storage.put(layout.path(layout.requested_name(instant, action)), b"")
    storage.put(layout.path(layout.inflight_name(instant, action)), b"")


def commit(
    tx: WriteTransaction, stats: Sequence[WriteStat], extra: Mapping[str, str] | None = None, **written: Any
) -> CommitResult:
    return tx.commit(OperationResult(stats, **written), schema_json=SCHEMA, extra=extra)


def first_write(storage: Storage, config: TableConfig, partitions: Sequence[str] = ("a", "b")) -> CommitResult:
    """One base file in each partition, file ids `f-<partition>`."""
    with begin(storage, config) as tx:
        return commit(tx, [write_base(tx, partition, f"f-{partition}") for partition in partitions])


def update(storage: Storage, config: TableConfig, partitions: Sequence[str] = ("a", "b")) -> CommitResult:
    """Rewrites the file groups of `first_write`; on merge-on-read appends to them."""
    with begin(storage, config) as tx:
        return commit(tx, write_update(tx, partitions))


def write_update(tx: WriteTransaction, partitions: Sequence[str] = ("a", "b")) -> list[WriteStat]:
    stats: list[WriteStat] = []
    for partition in partitions:
        for piece in tx.view.latest_slices_for_write(PartitionPath(partition)):
            if tx.config.is_mor:
                taken = [
                    name.version
                    for info in tx.storage.list(partition)
                    if (name := parse_log_file_name(info.name)) and name.instant == piece.base_instant
                ]
                stats.append(
                    write_log(
                        tx,
                        partition,
                        piece.file_id,
                        base_instant=piece.base_instant,
                        version=max(taken, default=0) + 1 if tx.config.version < 8 else 1,
                    )
                )
            else:
                stats.append(write_base(tx, partition, piece.file_id, previous=piece.base_instant))
    return stats


def snapshot(storage: Storage, config: TableConfig) -> Snapshot:
    """What a reader sees: of logs, those with a valid block."""
    timeline = load_timeline(storage, config)
    view = load_view(TableState(storage, config, timeline))

    def valid(log: LogFile) -> bool:
        blocks = read_blocks(storage, log.path, log.size)
        return any(
            block.type is BlockType.DELETE and timeline.is_committed(block.instant_time or "") for block in blocks
        )

    return {
        partition: sorted(
            (
                piece.file_id,
                piece.base_file.path if piece.base_file else None,
                [log.path for log in piece.log_files if valid(log)],
            )
            for piece in view.latest_slices(partition)
        )
        for partition in view.partitions()
        if view.latest_slices(partition)
    }


def data_files(storage: Storage) -> set[str]:
    """Every file outside `.hoodie` except partition metafiles."""
    return {
        info.path
        for info in storage.walk()
        if not info.path.startswith(".hoodie/") and info.name != ".hoodie_partition_metadata"
    }


def leftovers(storage: Storage) -> set[str]:
    """Files that a write must not leave behind."""
    return {
        info.path
        for folder in (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.hudi_py")
        for info in storage.walk(folder)
    } | {info.path for info in storage.list(".hoodie") if info.name == "lock"}
