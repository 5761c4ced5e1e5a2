"""A table at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline


@dataclass(frozen=True, slots=True)
class TableState:
    """Properties and active timeline. Read under the table lock they are true until it is let go; whoever takes the
    lock again reads them again, for another process may have been there."""

    config: TableConfig
    timeline: Timeline


def load_state(storage: Storage, zone: tzinfo | None = None) -> TableState:
    """The table as it is now. Arguments and errors: `load_timeline`, `load_table_config`."""
    config = load_table_config(storage)
    return TableState(config, load_timeline(storage, config, zone))
