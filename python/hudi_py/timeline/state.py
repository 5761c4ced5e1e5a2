"""A table as it was read: its storage, properties and timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline


@dataclass(frozen=True, slots=True)
class TableState:
    """The storage of a table, its properties and its active timeline. A state loaded under the table lock is valid
    until the lock is released; load it again after acquiring it again, since another process may have changed the
    table."""

    storage: Storage
    config: TableConfig
    timeline: Timeline

    def at(self, timeline: Timeline) -> TableState:
        """Returns the same table with another timeline, such as an earlier one."""
        return TableState(self.storage, self.config, timeline)


def load_state(storage: Storage, zone: tzinfo | None = None) -> TableState:
    """Loads the current state. For arguments and errors see `load_timeline` and `load_table_config`."""
    config = load_table_config(storage)
    return TableState(storage, config, load_timeline(storage, config, zone))
