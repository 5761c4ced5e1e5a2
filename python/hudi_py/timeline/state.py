"""A table as it was read: its storage, properties and timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from hudi_py.model.files import SourceFile
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline

BootstrapSources = Mapping[tuple[str, str], SourceFile]
"""Maps (partition path, file id) to the source file."""
BootstrapIndexes = dict[FileInfo, BootstrapSources]
"""The files of a bootstrap index that were read. They are written once."""


@dataclass(frozen=True, slots=True)
class TableState:
    """The storage of a table, its properties and its active timeline. A state loaded under the table lock is valid
    until the lock is released; load it again after acquiring it again, since another process may have changed the
    table."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    bootstrap: BootstrapIndexes = field(default_factory=dict, kw_only=True, repr=False, compare=False)
    """Filled when it is first needed; states of a session or an open table share it."""

    def at(self, timeline: Timeline) -> TableState:
        """Returns the same table with another timeline, such as an earlier one."""
        return TableState(self.storage, self.config, timeline, bootstrap=self.bootstrap)


def load_state(storage: Storage, zone: tzinfo | None = None) -> TableState:
    """Loads the current state. For arguments and errors see `load_timeline` and `load_table_config`."""
    config = load_table_config(storage)
    return TableState(storage, config, load_timeline(storage, config, zone))
