"""Publishes a table to Iceberg after each commit, and after services that run on demand."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hudi_py.config import Options
from hudi_py.config import interop as config
from hudi_py.errors import ConfigError, first_line
from hudi_py.interop.iceberg.api import target_of
from hudi_py.interop.iceberg.metadata import current_snapshot
from hudi_py.interop.iceberg.publication import VIEW, Settings, publish_table
from hudi_py.interop.iceberg.target import HINT, BesideTable, CatalogName, IcebergTarget
from hudi_py.model.instant import Action, Instant
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession

_log = logging.getLogger(__name__)
_UNDOING = (Action.ROLLBACK, Action.RESTORE)


@dataclass(frozen=True, slots=True)
class IcebergPublication:
    """The publication that the options of a write ask for. Implements `AfterCommit`.

    Raises:
        ConfigError: its options contradict each other.
    """

    options: Options

    def __post_init__(self) -> None:
        catalog, table = (
            self.options.get(config.ICEBERG_CATALOG),
            self.options.get(config.ICEBERG_TABLE),
        )
        if catalog is not None and (table is None or "." not in table):
            raise ConfigError(
                f"Cannot publish to the Iceberg catalog {catalog!r} with {config.ICEBERG_TABLE.key} = {table!r}: "
                "expected namespace.table"
            )
        if catalog is None and table is not None:
            raise ConfigError(
                f"Cannot publish to Iceberg with {config.ICEBERG_TABLE.key} = {table!r} and no catalog: set "
                f"{config.ICEBERG_CATALOG.key}, or leave the table out"
            )
        wrong = [each for each in self.options.get(config.ICEBERG_CATALOG_PROPERTIES) if "=" not in each]
        if wrong:
            raise ConfigError(
                f"Cannot take {wrong[0]!r} as one of {config.ICEBERG_CATALOG_PROPERTIES.key}: expected key=value,..."
            )

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. A publication that fails does not fail the write, so no table is refused."""

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Publishes the table's newest state. Failures are logged."""
        return ("iceberg",) if self.publish(session.storage, f"commit {committed.instant}") else ()

    def publish(self, storage: Storage, what: str) -> bool:
        """Publishes the table after `what`, a phrase for the warning if that fails; whether anything was to do."""
        settings = Settings(
            self.options.get(config.ICEBERG_BASE_FILES_ONLY),
            self.options.get(config.ICEBERG_LOCATION),
            self.options.get(config.ICEBERG_SNAPSHOTS),
        )
        try:
            return publish_table(storage, self.target(storage), settings, self.options.values).changed
        except Exception as error:  # whatever failed, the commit stands
            _warn(storage, what, error)
            return False

    def target(self, storage: Storage) -> IcebergTarget:
        """Where the table is published. Raises as `target_of`."""
        location = self.options.get(config.ICEBERG_LOCATION)
        return target_of(storage, self._catalog(), self.options.get(config.ICEBERG_TABLE), location)

    def _catalog(self) -> CatalogName | None:
        name = self.options.get(config.ICEBERG_CATALOG)
        pairs = (each.partition("=") for each in self.options.get(config.ICEBERG_CATALOG_PROPERTIES))
        return None if name is None else CatalogName(name, {key.strip(): value.strip() for key, _, value in pairs})


@dataclass(frozen=True, slots=True)
class Republication:
    """Publishes a table after a service, or another action that writes no rows.

    What was published beside a table is also brought up to date, whatever the options, after a rollback or restore:
    otherwise Iceberg would go on to show rows that were undone. If that fails, it is no longer found.
    """

    storage: Storage
    options: Options
    step: IcebergPublication | None

    @classmethod
    def of(cls, storage: Storage, options: Options) -> Republication | None:
        """None if options do not ask for it, and nothing was published beside the table."""
        step = IcebergPublication(options) if options.get(config.ICEBERG_ENABLED) else None
        return None if step is None and storage.stat(HINT) is None else cls(storage, options, step)

    def run(self, done: Sequence[Instant]) -> None:
        """Publishes after the completion of these instants. Failures are logged."""
        newest = max(instant.time for instant in done)
        if self.step is not None:
            self.step.publish(self.storage, f"{done[0].action.value} {newest}")
        elif any(instant.action in _UNDOING for instant in done):
            _undone(self.storage, self.options, newest)


def _undone(storage: Storage, options: Options, instant: str) -> None:
    try:
        published = BesideTable(storage, storage.uri).load()
        snapshot = None if published is None else current_snapshot(published.metadata)
        if published is None or snapshot is None:
            return
        settings = Settings(
            snapshot["summary"].get(VIEW) == "read_optimized",
            published.metadata["location"],
            options.get(config.ICEBERG_SNAPSHOTS),
        )
        publish_table(storage, BesideTable(storage, published.metadata["location"]), settings, options.values)
    except Exception as error:  # whatever failed, the action stands
        storage.delete(HINT)
        _warn(storage, f"the rollback {instant}", error)


def _warn(storage: Storage, what: str, error: Exception) -> None:
    _log.warning(
        "the Iceberg metadata of %s does not show %s: %s; the next commit publishes it, and so does "
        "hudi_py.interop.iceberg.publish (hudi-py iceberg publish)",
        storage.uri,
        what,
        first_line(error),
    )
