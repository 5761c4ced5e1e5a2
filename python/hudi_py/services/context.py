"""The table and the options of one call of a table service."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from hudi_py.config import Option, Options, Policy
from hudi_py.config import services as services_config
from hudi_py.config.clustering import OPTIONS as CLUSTERING_OPTIONS
from hudi_py.config.compaction import OPTIONS as COMPACTION_OPTIONS
from hudi_py.errors import ConfigError, first_line
from hudi_py.metadata.files import metadata_lister
from hudi_py.model.properties import TableConfig
from hudi_py.progress import Progress
from hudi_py.storage import Storage
from hudi_py.storage.threads import write_threads
from hudi_py.timeline.properties import check_writable
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.recovery.failed_writes import consistent
from hudi_py.transaction.session import LockedTable, TableSession, WriteTarget
from hudi_py.view import FileSystemView, load_view

_log = logging.getLogger(__name__)
_OWN: Final[Mapping[str, Option[Any]]] = {
    key: option
    for option in (
        *services_config.OPTIONS,
        *services_config.CLEAN_OPTIONS,
        *services_config.ARCHIVE_OPTIONS,
        *services_config.TTL_OPTIONS,
        *COMPACTION_OPTIONS,
        *CLUSTERING_OPTIONS,
    )
    if option.policy is Policy.HONOURED and option is not services_config.AUTO_UPGRADE
    for key in (option.key, *option.aliases)
}
"""Options of services that a table may set among its own properties, by each of their keys."""


def own_settings(properties: Mapping[str, str]) -> dict[Option[Any], str]:
    """Reads the options of services among the properties of a table
    (`HoodieSparkSqlWriter.mergeParamsAndGetHoodieConfig`, 1.2.0, takes every property as an option). Invalid values are
    left out with a warning."""
    settings: dict[Option[Any], str] = {}
    for key, text in properties.items():
        option = _OWN.get(key)
        if option is None:
            continue
        try:
            option.read(text, key)
        except ConfigError as error:
            _log.warning("a property of the table is ignored: %s", first_line(error))
        else:
            settings[option] = text
    return settings


def with_own_settings(options: Options, config: TableConfig) -> Options:
    """Returns the options of a call, completed by the table's own properties."""
    own = {option: text for option, text in own_settings(config.properties).items() if not options.given(option)}
    return options.replace(own) if own else options


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """One call of a table service."""

    session: TableSession
    options: Options
    progress: Progress = field(default_factory=Progress.silent)

    @classmethod
    def of(
        cls,
        target: WriteTarget,
        *,
        config: TableConfig | None = None,
        progress: Progress | None = None,
        any_version: bool = False,
    ) -> ServiceContext:
        """Returns the context of a call.

        Args:
            config: see `WriteTarget.session`.
            any_version: whether tables whose version can only be read are taken.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedTableError: the table's version can only be read, unless `any_version` is set.
        """
        session = target.session(config)
        if not any_version:
            check_writable(session.config)
        return cls(session, with_own_settings(target.options, session.config), progress or Progress.silent())

    @property
    def storage(self) -> Storage:
        return self.session.storage

    @property
    def threads(self) -> int:
        """How many files are processed in parallel."""
        return write_threads(self.options)

    def config(self) -> TableConfig:
        """Reads the table's current properties."""
        return self.session.reread().config

    def state(self) -> TableState:
        """Reads the current properties and active timeline."""
        return self.session.reread().state()

    def timeline(self) -> Timeline:
        """Reads the current active timeline."""
        return self.state().timeline

    def view(self, state: TableState) -> FileSystemView:
        """Returns the file slices of a state, listed from the metadata table if it is valid."""
        lister, _ = metadata_lister(state)
        return load_view(state, lister)

    def locked(self, purpose: str) -> AbstractContextManager[LockedTable]:
        """See `consistent`."""
        return consistent(self.session, purpose)
