"""What a DataFrame holds of a table: the files of one state, found when its schema was resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.read import Scan, check_columns, open_snapshot, parse_filter
from hudi_py.read.split import ReadSpec
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from pyspark_hudi.partitions import AnySplit, HudiPartition, TaskSize, tasks_of, with_spec, without_spec


@dataclass(frozen=True, slots=True)
class Pinned:
    """A planned read. Pickles; holds no credentials.

    It names the files themselves, not only an instant: a plan made anew later, as Spark before 4.1 does for each
    query, could not tell a file that was cleaned meanwhile from one that never was.
    """

    spec: ReadSpec
    splits: tuple[AnySplit, ...]
    """Without their spec."""

    @property
    def schema(self) -> pa.Schema:
        """The rows' columns, in order."""
        return self.spec.output_schema

    def tasks(self, options: Options) -> list[HudiPartition]:
        """What each task of Spark is to read.

        Raises:
            HistoryCleanedError: a large file, which was to be divided, was cleaned since.
        """
        storage = open_storage(self.spec.uri, options.storage or None)
        return tasks_of(storage, [with_spec(split, self.spec) for split in self.splits], TaskSize.of(options))


def pin_table(path: str, options: Options, names: Sequence[str] | None) -> Pinned:
    """Plan a read of the table as of now, or as of `as.of.instant`.

    Args:
        names: the columns, in order; None: all.

    Raises:
        TableNotFoundError, UnsupportedTableError, ConfigError, SchemaMismatchError, HistoryCleanedError: as the core's
            `Table.scan`.
    """
    storage = open_storage(path, options.storage or None)
    config = load_table_config(storage)
    snapshot = open_snapshot(storage, config, load_timeline(storage, config), options.get(read_config.AS_OF_INSTANT))
    scan = Scan(
        snapshot,
        columns=check_columns(snapshot.schema.names if names is None else names, snapshot.schema, storage.uri),
        condition=parse_filter(options.get(read_config.FILTER), snapshot.schema),
        query_type=options.get(read_config.QUERY_TYPE),
        partitions=None,
        limit=None,
        batch_rows=options.get(read_config.BATCH_ROWS),
        options=options.values,
    )
    plan = scan.plan()
    return Pinned(plan.spec, tuple(without_spec(split) for split in plan.splits))
