"""The mark of a table that its first write has made, which the first commit removes."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hudi_py.errors import ConflictError, HudiError, first_line
from hudi_py.model.properties import CHECKSUM, FIRST_WRITE, METADATA_TO_MAKE, TableConfig
from hudi_py.timeline.properties import update_table_config
from hudi_py.transaction.session import LockedTable, TableSession

_log = logging.getLogger(__name__)

_LATER = frozenset(
    {
        *(CHECKSUM, FIRST_WRITE, METADATA_TO_MAKE, "hoodie.table.index.defs.path"),
        *("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"),
    }
)
"""Properties that say nothing about what a table was created as."""


def same_settings(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two tables were created alike, by their properties."""
    return _settings(one) == _settings(other)


def check_not_made_anew(session: TableSession, known: TableConfig, table: TableConfig) -> None:
    """Refuses to write to a table that was made anew since the write read its properties.

    Args:
        known: the properties that the write goes by.
        table: the properties under the table lock.

    Raises:
        ConflictError: the table was made anew with other settings.
    """
    mark = known.properties.get(FIRST_WRITE)
    if mark is None or table.properties.get(FIRST_WRITE) == mark:
        return
    if not same_settings(known.properties, table.properties):
        raise ConflictError(
            f"Cannot write to {session.storage.uri}: another writer has meanwhile made the table anew, with other "
            "settings; write again with the settings of the table"
        )


def note_first_commit(table: LockedTable) -> None:
    """Removes the mark, after a commit and under its lock: from now on the table stays."""
    if FIRST_WRITE not in table.config.properties:
        return
    try:
        update_table_config(table.session.storage, {FIRST_WRITE: None})
    except HudiError as error:  # it does no harm to a table with commits, and the write is committed
        _log.warning("the mark %s stays in the properties of the table: %s", FIRST_WRITE, first_line(error))


def _settings(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key not in _LATER}
