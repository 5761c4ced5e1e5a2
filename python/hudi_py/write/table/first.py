"""Creates the table of a first write: it exists before the first rows do, and is removed again if they never come.

Its properties carry the mark `hoodie.py.first.write` until something is committed. Until then, a failed write removes
the table that it created, and the next first write with other settings recreates a table that a killed write left.
Tables created on purpose (`create_table`, `CREATE TABLE`, or by Apache Hudi) have no mark and stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.errors import ConflictError, HudiError, first_line
from hudi_py.model.instant import Action
from hudi_py.model.layout import BACKUP, LOCK_FILE, META_FOLDER, PARTITION_METAFILE, PROPERTIES
from hudi_py.model.properties import FIRST_WRITE, TableConfig
from hudi_py.storage import Storage
from hudi_py.transaction.handle import same_settings
from hudi_py.transaction.locks import TableLock
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.owner.identity import (
    ProcessIdentity,
    WriterIdentity,
    begin_work,
    end_work,
    new_writer_id,
    parse_writer,
)
from hudi_py.transaction.recovery.failed_writes import bootstrap_left, recovered
from hudi_py.transaction.recovery.rollback import rollback_instant
from hudi_py.transaction.session import LockedTable, TableSession
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.view import StorageLister
from hudi_py.view.bootstrap import FULL_INSTANT
from hudi_py.write.rows.input import Input
from hudi_py.write.rows.keygen import KeyGenerator
from hudi_py.write.table.evolution import WriteSchema

_log = logging.getLogger(__name__)

_LOCKS = (LOCK_FILE, ".locks")
"""The locations of locks in `.hoodie`."""


@dataclass(frozen=True, slots=True)
class FirstWrite:
    """The creator of a table, and how it locks the table."""

    owner: WriterIdentity
    settings: TransactionSettings
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def of(cls, process: ProcessIdentity | None, options: Options) -> FirstWrite:
        """Returns a write with these options that ends with `process`, if that is known."""
        owner = WriterIdentity(new_writer_id(), process)
        return cls(owner, TransactionSettings.of(options), options.for_storage())

    def mark(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties of the table that it creates, with the mark."""
        begin_work(self.owner.id)
        return {**properties, FIRST_WRITE: self.owner.to_json()}

    def made(self, config: TableConfig) -> bool:
        """Returns whether it created the table, and nothing has been committed according to the properties."""
        maker = parse_writer(config.properties.get(FIRST_WRITE, ""))
        return maker is not None and maker.id == self.owner.id

    def end(self) -> None:
        """Records that the process no longer works on the table."""
        end_work(self.owner.id)

    @contextmanager
    def taken_back(self, storage: Storage, config: TableConfig) -> Iterator[None]:
        """Removes the table again if this write created it and the block fails."""
        made = self.made(config)
        try:
            yield
        except BaseException:  # also after an interrupt
            if made:
                self.take_back(storage, config)
            raise
        finally:
            self.end()

    def take_back(self, storage: Storage, config: TableConfig) -> None:
        """Removes the table that this write created, unless something was added to it since. If that fails, the mark
        stays, and the next first write removes the table."""
        try:
            with self._open_session(storage, config).locked(
                "take back the table that a failed first write made"
            ) as table:
                if self.made(table.config) and _nothing_came(table):
                    _remove_empty(table)
        except (HudiError, OSError) as error:  # the error of the write matters more
            _log.warning("the table that a failed write made at %s stays, empty: %s", storage.uri, first_line(error))

    def remove_if_dead(self, storage: Storage, config: TableConfig, wanted: Mapping[str, str]) -> bool:
        """Removes a table that a first write left when it was killed, if a table with other settings is wanted.

        Returns:
            False if the table stays, because its settings are as wanted, its writer may be alive, or it has commits.

        Raises:
            LockError: the table lock could not be acquired in time.
        """
        maker = parse_writer(config.properties.get(FIRST_WRITE, ""))
        if maker is None or same_settings(config.properties, wanted) or not self._is_dead(storage, maker):
            return False
        try:
            what = "recreate the table that a killed write left"
            with recovered(self._open_session(storage, config), what, beside=True) as table:
                if table.config.properties.get(FIRST_WRITE) != config.properties[FIRST_WRITE]:
                    return False
                if not _nothing_came(table):
                    return False
                _log.warning("removing the empty table that the killed %s left at %s", maker, storage.uri)
                _remove_empty(table)
        except ConflictError:  # a write to it is under way
            return False
        return True

    def remove_bootstrap(self, storage: Storage, config: TableConfig) -> bool:
        """Removes what a killed bootstrap left of a table, or any first write that committed nothing.

        Returns:
            False if the table stays, because it has more content, or was created in another way.

        Raises:
            ConflictError: the bootstrap, or a write, is under way.
            LockError: the table lock could not be acquired in time.
        """
        maker = parse_writer(config.properties.get(FIRST_WRITE, ""))
        if maker is None:
            return False
        if not self._is_dead(storage, maker):
            raise ConflictError(
                f"Cannot bootstrap a table at {storage.uri}: {maker} is creating one; wait until it is done, then "
                "choose another path (if it has died, it counts as failed after "
                f"{self.settings.heartbeat_expiry_ms / 1000:.0f} s)"
            )
        with self._open_session(storage, config).locked("look at what a killed bootstrap left") as table:
            left = bootstrap_left(table)
        with recovered(self._open_session(storage, config), "bootstrap the table again", bootstraps=True) as table:
            if table.config.properties.get(FIRST_WRITE) != config.properties[FIRST_WRITE]:
                return False
            done = [commit for commit in table.timeline.write_completed if commit.time <= FULL_INSTANT]
            if left is not None:
                for instant in reversed(done):
                    rollback_instant(table, instant)
                table = table.reread()
            if not _nothing_came(table):
                return False
            _log.warning("removing what the killed %s left at %s", maker, storage.uri)
            _remove_empty(table)
        return True

    def _is_dead(self, storage: Storage, maker: WriterIdentity) -> bool:
        if maker.provably_dead:
            return True
        info = storage.stat(PROPERTIES)
        return info is not None and now_ms() - info.modified_ms > self.settings.heartbeat_expiry_ms

    def _open_session(self, storage: Storage, config: TableConfig) -> TableSession:
        return TableSession.open(
            storage,
            DropMetadata(drop_indexes=True),  # the lock is removed with the table
            config=config,
            settings=self.settings,
            storage_options=self.storage_options,
        )


def check_rows(source: Input, schema: WriteSchema, keygen: KeyGenerator) -> None:
    """Refuses rows in memory that no table could hold, before a table is created for them: without a key, with values
    that a table's types cannot hold, or with partition values that cannot be a path.

    Args:
        schema: schema of the new table.
    """
    if not source.in_memory:
        return
    keys, partitions = keygen.key_columns(schema.arrow), keygen.partition_columns(schema.arrow)
    with source.open() as reader:
        given = reader.schema
    converted = [field.name for field in source.schema if not field.type.equals(given.field(field.name).type)]
    names = list(dict.fromkeys([*keys, *partitions, *converted]))
    for given_rows in source.columns(names):
        batch = schema.conform_some(given_rows, names)
        if any(_lacks_values(batch[name]) for name in keys if name in batch.schema.names):
            keygen.record_keys(batch)
        keygen.check_partitions(batch)


def _lacks_values(column: pa.Array) -> bool:
    """Returns whether a row may have no key in this column: keys of other columns are not rendered twice."""
    if column.null_count or pa.types.is_nested(column.type):
        return True
    return bool(pa.types.is_string(column.type) and pc.min(pc.binary_length(column)).as_py() == 0)


def remove_metadata_folder(storage: Storage, lock: TableLock) -> None:
    """Deletes `.hoodie`. The properties go last except for the lock: until then this can be repeated, and from then on
    a process that has waited for the lock finds no table."""
    for info in storage.list(META_FOLDER):
        if info.path not in (PROPERTIES, BACKUP) and info.name not in _LOCKS:
            remove(storage, info.path, is_folder=info.is_dir)
    for path in (BACKUP, PROPERTIES):
        storage.delete(path)
    storage.delete_tree(META_FOLDER)
    lock.gone()


def remove(storage: Storage, path: str, *, is_folder: bool) -> None:
    """Deletes a file, or a folder with its content."""
    if is_folder:
        storage.delete_tree(path)
    else:
        storage.delete(path)


def _nothing_came(table: LockedTable) -> bool:
    """Returns whether the table has had only writes that were rolled back."""
    undoing = (Action.ROLLBACK, Action.RESTORE)
    return all(instant.action in undoing and instant.completed for instant in table.timeline.instants)


def _remove_empty(table: LockedTable) -> None:
    """Removes an empty table, and nothing that others have put into its folder."""
    session, storage = table.session, table.session.storage
    for partition in StorageLister(storage, table.config).partitions():
        children = storage.list(partition)
        for info in children:
            if not info.is_dir and info.name.startswith(PARTITION_METAFILE):
                storage.delete(info.path)
        left, folder = [info for info in children if not info.name.startswith(PARTITION_METAFILE)], str(partition)
        while folder and not left:  # stores without folders have nothing to remove
            storage.delete_tree(folder)
            folder = folder.rpartition("/")[0]
            left = storage.list(folder)
    if session.timeline().moved_since(table.timeline):
        return  # another engine, which does not know the lock, has begun to write
    remove_metadata_folder(storage, table.lock)
