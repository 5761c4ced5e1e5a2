"""The public entry points: `open_table`, `create_table`, `write` and `Table`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options, Scope
from hudi_py.config.write import PARTIAL_UPSERT
from hudi_py.erasure.run import ErasureMethods
from hudi_py.health.doctor import HealthMethods
from hudi_py.inspect.reports import file_report, history_report, instant_report, partition_report
from hudi_py.interop.export import ExportMethods
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.read import Scan, make_scan, table_schema
from hudi_py.read.ranges import time_of
from hudi_py.read.request import Moment, ScanArguments, ScanRequest
from hudi_py.read.snapshot import open_snapshot
from hudi_py.report.methods import ReportMethods
from hudi_py.services.context import ServiceContext
from hudi_py.services.methods import ServiceMethods
from hudi_py.storage import Storage, StrPath, open_for_write, open_storage
from hudi_py.timeline.archived import ArchivedInstant, archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import BootstrapIndexes, TableState, load_state
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.transaction.locks import TableLocks
from hudi_py.transaction.session import WriteTarget
from hudi_py.wiring import (
    Alterable,
    Indexable,
    MetadataPartitions,
    serving,
    write_configuration,
    write_target,
)
from hudi_py.write.api import ColumnNames as _Names
from hudi_py.write.api import (
    TableArguments,
    create_empty_table,
    existing_table,
    naming_partitions,
    write_options,
    write_rows,
)
from hudi_py.write.dml.merge import Merge, MergeBuilder
from hudi_py.write.dml.merge_plan import MergePlan
from hudi_py.write.dml.run import Statement, run_statement
from hudi_py.write.dml.statements import Delete, Update
from hudi_py.write.result import WriteResult
from hudi_py.write.rows.input import read_input
from hudi_py.write.table.support import read_only_reason


def open_table(
    path: StrPath, options: Mapping[str, Any] | None = None, *, storage_options: Mapping[str, str] | None = None
) -> Table:
    """Opens a Hudi table.

    Args:
        path: the table's base path: a local path (text or `pathlib`, with `~`) or a URI (`file:`, `memory:`,
            `s3:`, `gs:`, `az:`).
        options: options of reads, writes and table services, by the keys of Apache Hudi; defaults for all methods.
        storage_options: credentials and settings of the storage.

    Raises:
        TableNotFoundError: there is no table at the path.
        UnsupportedTableError: its version, or a feature it uses, is not supported.
        ConfigError: an option is unknown, refused or not valid.
    """
    resolved = Options.resolve(options, Scope.READ)
    storage = open_storage(path, resolved.for_storage(storage_options))
    return Table(storage, load_table_config(storage), dict(options or {}), storage_options)


def create_table(
    path: StrPath,
    schema: pa.Schema,
    options: Mapping[str, Any] | None = None,
    *,
    record_key: _Names | None = None,
    partition_by: _Names | None = None,
    ordering_by: _Names | None = None,
    table_type: str | None = None,
    table_version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Creates a table without rows.

    Args:
        path: the base path of the new table; see `open_table`.
        schema: its columns, without meta columns. The entry `hudi_type` of a field's metadata, such as `VECTOR(3)`,
            makes a VECTOR, VARIANT or BLOB of it.
        options: options of writes, by the keys of Apache Hudi. The keyword arguments set some of them.
        record_key: columns of the record key; required, here or among the options. A key is unique within its
            partition, and with a global index (`hoodie.index.type`) in the table.
        partition_by: columns of the partition path; none: not partitioned.
        ordering_by: columns whose greatest value decides which row of a key is the newest; none: the last one written.
        table_type: `cow` (default) or `mor`, or Apache Hudi's names for them.
        table_version: 6, 8 or 9 (default).

    Raises:
        TableExistsError: there is a table at the path.
        ConfigError, SchemaMismatchError, UnsupportedTableError: columns and options contradict each other.
    """
    resolved = write_options(options, TableArguments(record_key, partition_by, ordering_by, table_type, table_version))
    storage = open_for_write(path, resolved, storage_options)
    config = create_empty_table(storage, schema, resolved)
    return Table(storage, config, {}, storage_options)


def write(
    path: StrPath,
    data: Any,
    operation: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    record_key: _Names | None = None,
    partition_by: _Names | None = None,
    ordering_by: _Names | None = None,
    table_type: str | None = None,
    table_version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteResult:
    """Writes rows to a table as one commit; creates the table if there is none.

    Args:
        path: the table's base path; see `open_table`.
        data: rows: a PyArrow table, batch, reader or dataset, a Polars or pandas data frame, a list of dicts, a dict
            of lists, an iterator over dicts or batches, or any object with the Arrow C stream interface.
        operation: `upsert` (default), `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table`
            or `delete_partition`.
        options: options of writes, by the keys of Apache Hudi. For the other arguments see `create_table`; they must
            agree with an existing table.

    Raises:
        ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was written.
        ConflictError: another write is pending, or completed meanwhile.
        LockError: the table lock could not be acquired in time.
    """
    resolved = write_configuration(
        options, TableArguments(record_key, partition_by, ordering_by, table_type, table_version)
    )
    target = write_target(path, resolved, storage_options)
    return write_rows(target, _rows(target.storage, data), operation)


def _rows(storage: Storage, data: Any) -> Any:
    """Returns the data. An empty list becomes a batch without rows in the schema of the table, if there is one."""
    config = existing_table(storage) if isinstance(data, list) and not data else None
    if config is None:
        return data
    return table_schema(load_state(storage)).empty_table()


class Table(Indexable, ServiceMethods, ErasureMethods, HealthMethods, ReportMethods, ExportMethods, Alterable):
    """A Hudi table. Each scan and property sees its current state; a `Scan` is pinned when it is created."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        options: Mapping[str, Any],
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._storage = storage
        self._config = config
        self._bootstrap: BootstrapIndexes = {}
        self._options = options
        self._storage_options = storage_options

    @property
    def uri(self) -> str:
        """The table's base path, without credentials."""
        return self._storage.uri

    @property
    def properties(self) -> Mapping[str, str]:
        """Returns the keys and values of `hoodie.properties`."""
        return MappingProxyType(dict(self._reload().properties))

    @property
    def version(self) -> int:
        """Table version: 2 to 6, 8 or 9; versions 2 to 5 can only be read, and upgraded."""
        return self._reload().version

    @property
    def read_only(self) -> str | None:
        """Returns why this release cannot write to the table according to its properties; None if they do not prevent
        it. Its schema or an index may still do so."""
        return read_only_reason(self._reload())

    @property
    def table_type(self) -> str:
        """`COPY_ON_WRITE` or `MERGE_ON_READ`."""
        return self._reload().table_type

    @property
    def timeline(self) -> Timeline:
        """Returns the active timeline."""
        return self._state().timeline

    @property
    def schema(self) -> pa.Schema:
        """Returns the Arrow schema of the newest rows, meta columns first."""
        return table_schema(self._state())

    def scan(
        self,
        columns: str | Iterable[str] | None = None,
        filter: str | pc.Expression | None = None,
        *,
        as_of: Moment | None = None,
        query_type: str | None = None,
        begin: Moment | None = None,
        end: Moment | None = None,
        keys: str | Iterable[object] | None = None,
        partitions: str | Iterable[str] | None = None,
        merge: str = "merge",
        emit_deletes: bool = False,
        limit: int | None = None,
        meta: bool | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Scan:
        """Plans a scan: rows of the table as of now, of an earlier time, or of a range of commits.

        Args:
            columns: columns to read, in the order of the result; one as text; None: all.
            filter: condition in a subset of Spark SQL, or a pyarrow expression. Compared with a column that has a time
                zone, times without one are in UTC.
            as_of: time travel to a Hudi instant (`yyyyMMddHHmmss[SSS]`), ISO text, date or datetime, without a zone in
                that of the table; or to a `WriteResult`.
            query_type: `snapshot` (default); `read_optimized`: base files only; `incremental`: rows that the commits of
                a range wrote, as of its end; `cdc`: the changes of a range (`op`, `ts_ms`, `before`, `after`).
            begin: start of the range, exclusive: a completion time since table version 8, a requested time before, or
                a `WriteResult`. `000`: the start of the table; `earliest`: the first instant that can be read; None:
                only the last commit of the range.
            end: end of the range, inclusive; may be a `WriteResult`; None: the newest commit.
            keys: record keys (`_hoodie_record_key`) of the rows, as text, whole numbers, booleans or dates; or one key.
            partitions: relative paths of the partitions to read, or one path; None: all. They must exist.
            merge: `merge`; `skip`: base rows, then log rows, not merged; `unmerged`: every version.
            emit_deletes: also return deletes in logs, marked in the column `_hoodie_operation`.
            limit: no more rows than this.
            meta: whether all columns include the `_hoodie_*` columns (default: yes).
            options: further read options, which override those of `open_table`.

        Raises:
            ConfigError, SchemaMismatchError: an argument or option is not valid, or contradicts an option.
            UnsupportedTableError: the table has a feature that cannot be read.
            HistoryCleanedError: file versions that the result needs have been cleaned.
        """
        given = {**self._options, **(options or {})}
        arguments = ScanArguments(
            columns=columns,
            filter=filter,
            as_of=as_of,
            query_type=query_type,
            begin=begin,
            end=end,
            keys=keys,
            partitions=partitions,
            merge=merge,
            emit_deletes=emit_deletes,
            limit=limit,
            meta=meta,
        )
        state = self._state()
        return make_scan(state, ScanRequest.of(Options.resolve(given, Scope.READ), arguments))

    def upsert(self, data: Any, *, partial: bool = False, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Merges rows with a known key into the stored ones, by the table's merge mode, and inserts the others. Rows
        whose `_hoodie_is_deleted` is true delete their key. For `data` and errors see `write`.

        Args:
            partial: whether the data may lack columns (`hoodie.py.write.partial.updates`): known rows keep their
                values, new rows get nulls. Merge-on-read tables of version 8 and 9 log only the columns of the data;
                there, a row with a lower ordering value still sets columns that no other update in the logs sets, as
                in Apache Hudi.
        """
        given = {**(options or {}), PARTIAL_UPSERT.key: "true"} if partial else options
        return self._write(data, "upsert", given)

    def insert(self, data: Any, *, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Adds rows without looking up their keys; small files are filled first."""
        return self._write(data, "insert", options)

    def bulk_insert(self, data: Any, *, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Adds rows without looking up their keys, streaming them into new files."""
        return self._write(data, "bulk_insert", options)

    def delete(self, data: Any, *, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Deletes the rows with the keys and partitions of `data`; other columns are ignored. Text or a pyarrow
        expression is a filter, as in `delete_where`."""
        if isinstance(data, (str, pc.Expression)):
            return self.delete_where(data, options=options)
        return self._write(data, "delete", options)

    def delete_where(self, filter: str | pc.Expression, *, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Deletes the rows for which a filter is true, whatever their ordering value. For `filter` see `scan`, for
        errors `write`."""
        return self._run(Delete(filter), options)

    def update(
        self,
        set: Mapping[str, object],
        where: str | pc.Expression | None = None,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> WriteResult:
        """Sets columns of rows.

        A changed row is merged with the stored one as in an upsert: if it sets an ordering field to a lower value, the
        stored row stays, as with Apache Hudi's `UPDATE`.

        Args:
            set: a value for each column, in terms of the old row: text is an expression in a subset of Spark SQL (so a
                constant text is in quotes, `"'new'"`), anything else a constant. Key and partition columns cannot be
                set.
            where: only rows for which this filter is true; None: all. See `scan`.

        Raises:
            ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was written.
            ConflictError: another write is pending, or completed meanwhile.
            LockError: the table lock could not be acquired in time.
        """
        return self._run(Update(set, where), options)

    def merge(
        self,
        source: Any,
        on: str | Iterable[str],
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        options: Mapping[str, Any] | None = None,
    ) -> MergeBuilder:
        """Merges a source into the table: updates, deletes and inserts in one commit.

            table.merge(changes, on="id").when_matched_update_all().when_not_matched_insert_all().execute()

        Args:
            source: rows, as for `write`; held in memory.
            on: what makes rows match: a condition such as `t.id = s.id`, or columns that both have. It should compare
                every record key column with an expression of the source, or `t._hoodie_record_key`; of key columns that
                it leaves out, those of the source with their names count. Where keys are generated, it is any
                condition. Compare the partition columns too, where the source has them, and
                other partitions are not read.
            source_alias: the name of the source in expressions.
            target_alias: the name of the table in expressions.

        Returns:
            A builder, to which clauses are added; its `execute` writes.
        """
        named = (on,) if isinstance(on, str) else tuple(on)
        given = read_input(_rows(self._storage, source))
        rows = pa.Table.from_batches(list(given.batches()), given.schema)

        def run(plan: MergePlan) -> WriteResult:
            return self._run(Merge(plan, rows.schema), options, rows)

        return MergeBuilder(MergePlan(named, (), source_alias, target_alias), run)

    def insert_overwrite(self, data: Any, *, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Replaces the partitions for which `data` has rows; the old rows stay readable by time travel."""
        return self._write(data, "insert_overwrite", options)

    def insert_overwrite_table(self, data: Any, *, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Replaces all rows of the table; the old ones stay readable by time travel. `data` may come from the table."""
        return self._write(data, "insert_overwrite_table", options)

    def delete_partition(self, paths: str | Iterable[str], *, options: Mapping[str, Any] | None = None) -> WriteResult:
        """Deletes partitions by their paths, in which `*` stands for any text; their rows stay readable by time travel
        until they are cleaned. Absent partitions are skipped with a warning."""
        given = {**(options or {}), **naming_partitions(paths)}
        return self._write(self.schema.empty_table(), "delete_partition", given)

    @property
    def metadata(self) -> MetadataPartitions:
        """Returns the partitions of the metadata table."""
        return MetadataPartitions(self._serving)

    @property
    def locks(self) -> TableLocks:
        """The table lock: who holds it, and how to release it."""
        return TableLocks(self._storage, self._options, self._storage_options)

    # -- reports

    def history(self, archived: bool = False) -> pa.Table:
        """Lists completed writes, oldest first: instant, completion_time, action, operation (string), num_inserts,
        num_updates, num_deletes, num_writes (rows in the files written, unchanged ones included), num_files, num_bytes
        (int64)."""
        return history_report(self._storage, self.timeline, self._archived(metadata=True) if archived else ())

    def instants(self, archived: bool = False) -> pa.Table:
        """Lists the timeline, oldest first: instant, action, state, completion_time (string). `archived` adds completed
        instants of the archived timeline."""
        return instant_report(self.timeline, self._archived() if archived else ())

    def files(self, *, as_of: Moment | None = None) -> pa.Table:
        """Lists file slices, now or as of an earlier time (see `scan`): partition, file_id, base_instant, base_file
        (string), base_bytes (int64), log_files (list of string), log_bytes (int64)."""
        return file_report(*self._state_as_of(as_of))

    def partitions(self, *, as_of: Moment | None = None) -> pa.Table:
        """Lists partitions with the sizes of their newest slices, or of those as of an earlier time (see `scan`):
        partition (string), num_slices, num_files, num_bytes (int64)."""
        return partition_report(*self._state_as_of(as_of))

    def __repr__(self) -> str:
        more = "" if read_only_reason(self._config) is None else ", read only"
        return f"Table({self.uri!r}, version={self._config.version}, type={self._config.table_type}{more})"

    def _state(self) -> TableState:
        config = self._reload()
        timeline = load_timeline(self._storage, config)
        return TableState(self._storage, config, timeline, bootstrap=self._bootstrap)

    def _state_as_of(self, as_of: Moment | None) -> tuple[TableState, InstantTime | None]:
        state = self._state()
        if as_of is None:
            return state, None
        return state, open_snapshot(state, time_of(as_of, state, by_completion=False)).as_of

    def _archived(self, *, metadata: bool = False) -> list[ArchivedInstant]:
        return archived_instants(self._storage, self._reload(), ArchiveQuery(metadata=metadata))

    def _write(self, data: Any, operation: str, options: Mapping[str, Any] | None) -> WriteResult:
        return write_rows(self._target(options), _rows(self._storage, data), operation)

    def _run(
        self, statement: Statement, options: Mapping[str, Any] | None, source: pa.Table | None = None
    ) -> WriteResult:
        return run_statement(self._target(options), statement, source=source)

    def _target(self, options: Mapping[str, Any] | None) -> WriteTarget:
        resolved = write_configuration({**self._options, **(options or {})})
        return write_target(self._storage, resolved, self._storage_options)

    def _serving(
        self, title: str, options: Mapping[str, Any] | None = None, *, any_version: bool = False
    ) -> AbstractContextManager[ServiceContext]:
        given = {**self._options, **(options or {})}
        return serving(
            self._storage,
            given,
            f"{title} {self._config.name}",
            storage_options=self._storage_options,
            any_version=any_version,
        )

    def _reload(self) -> TableConfig:
        self._config = load_table_config(self._storage)
        return self._config
