"""One state of a table, as a DataFrame holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.read import Scan, check_columns, open_snapshot, parse_filter
from hudi_py.read.snapshot import Snapshot
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Pin, Timeline, load_timeline


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a read sees of a table. Pickles; holds no credentials."""

    uri: str
    config: TableConfig
    timeline: Timeline
    """Without what completed after the pin."""
    schema: pa.Schema
    """All columns, meta columns first."""
    pin: Pin
    as_of: InstantTime | None

    def output_schema(self, names: Sequence[str] | None) -> pa.Schema:
        """The columns asked for, in this order; all of them when None.

        Raises:
            SchemaMismatchError: one is not in the table; names the nearest.
        """
        if names is None:
            return self.schema
        return pa.schema([self.schema.field(name) for name in check_columns(names, self.schema, self.uri)])

    def scan(self, options: Options, names: Sequence[str]) -> Scan:
        """A scan of the pinned state, planned with the options of the read."""
        storage = open_storage(self.uri, options.storage or None)
        snapshot = Snapshot(storage, self.config, self.timeline, self.schema, self.pin, self.as_of)
        return Scan(
            snapshot,
            columns=check_columns(names, self.schema, self.uri),
            condition=parse_filter(options.get(read_config.FILTER), self.schema),
            query_type=options.get(read_config.QUERY_TYPE),
            partitions=None,
            limit=None,
            batch_rows=options.get(read_config.BATCH_ROWS),
            options=options.values,
        )


def pin_table(path: str, options: Options) -> Pinned:
    """The table's state as of now, or as of `as.of.instant`.

    Raises:
        TableNotFoundError, UnsupportedTableError, ConfigError, HistoryCleanedError: as the core's `Table.scan`.
    """
    storage = open_storage(path, options.storage or None)
    config = load_table_config(storage)
    snapshot = open_snapshot(storage, config, load_timeline(storage, config), options.get(read_config.AS_OF_INSTANT))
    parse_filter(options.get(read_config.FILTER), snapshot.schema)  # an error in it belongs to the load
    return Pinned(storage.uri, config, snapshot.timeline, snapshot.schema, snapshot.pin, snapshot.as_of)
