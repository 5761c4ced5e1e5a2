"""Properties and timeline of a table, loaded together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline


@dataclass(frozen=True, slots=True)
class TableState:
    """Properties and active timeline. Loaded under the table lock they are valid until it is released; load them again
    after acquiring it again, since another process may have changed the table."""

    config: TableConfig
    timeline: Timeline


def load_state(storage: Storage, zone: tzinfo | None = None) -> TableState:
    """The current state. For arguments and errors see `load_timeline` and `load_table_config`."""
    config = load_table_config(storage)
    return TableState(config, load_timeline(storage, config, zone))
