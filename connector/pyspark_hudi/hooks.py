"""`enable`: patches PySpark's readers and writers to use `read_table` and `write_table`.

PySpark hands out readers and writers through attributes of its sessions and DataFrames. `enable` wraps those
attributes: in an enabled session, the object becomes an instance of a subclass, which records its settings, and at
`load()` or `save()` either handles them or leaves them to PySpark. Only public names are used, so that classic Spark
and Spark Connect work alike.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkException

from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, HudiError, first_line
from hudi_py.schema import backticked
from pyspark_hudi.catalog import entry_of, is_from, qualified, tables_behind
from pyspark_hudi.dialect.queries import Reference, references
from pyspark_hudi.dialect.run import run_if_hudi
from pyspark_hudi.dialect.text import Cursor, tokens_of
from pyspark_hudi.enabled import (
    SqlTable,
    is_enabled,
    is_own_format,
    lock,
    noted_tables,
    runs_statements,
    set_disabled,
    set_enabled,
)
from pyspark_hudi.noting import APACHE_HUDI, Noting, SourceRequest, hinted
from pyspark_hudi.preflight import check_pandas, check_session
from pyspark_hudi.session import register_as
from pyspark_hudi.table import FORMAT, read_or, read_plain, session_options
from pyspark_hudi.tasks import is_classic
from pyspark_hudi.writers import NativeStreamWriter, NativeWriter, NativeWriterV2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
_PLAIN_READS = frozenset({read_config.VIEW.key, read_config.PIN.key})
"""Options that select the plain format, among them those that `read_table` sets itself."""
_QUERY = re.compile(r"\s*(?:(?P<with>WITH(?:\s+RECURSIVE)?)|SELECT)\b", re.IGNORECASE)
_COMMAND = re.compile(r"\bINSERT\b", re.IGNORECASE)


def enable(spark: SparkSession, name: str = FORMAT) -> None:
    """Makes `spark.read.format("hudi-py").load(path)` read as `read_table` does, and
    `df.write.format("hudi-py").mode("append").save(path)` write as `write_table` does.

    The same holds for what `register_sql` makes: temporary views made after this call; and tables, where this session
    reads them by `spark.table(name)`, by `spark.read.table(name)`, or in a query of `spark.sql` that begins with SELECT
    or WITH. And it holds for tables that the session's catalog has with the provider `hudi` or `hudi-py`, as those that
    were registered with a Hive metastore: Spark alone does not give the format their path.

    `df.write.insertInto(name)` and `df.writeTo(name).append()` write to such a table; `saveAsTable`, and `toTable` of
    streams, also make one, if they name the format. `spark.sql` runs what `pyspark_hudi.sql` runs: statements that
    change Hudi tables, and queries that name them by path or with a time. It and `spark.catalog.listTables()` list a
    table once.

    Reads take the options that the session was given, `hoodie...` and `spark.hoodie...`, as in Apache Hudi; `df.write`
    takes none of them, as there.

    Rows, columns, other options and errors stay the same. The plain format reads what the native way cannot plan, which
    is logged as a warning, loads with `.schema(...)`, views and streams; and writes with mode `overwrite`, streams and
    batches of streams. Modes that only make tables are those of Apache Hudi, and so is `partitionBy`. DataFrames show
    the table as it was at `load()`, on Spark Connect too.

    Nothing changes for other formats, sessions and processes. A second call only adds its `name`. Any
    thread may call this.

    Args:
        name: a second name for the format, besides `hudi-py`. With `hudi`, code written for Apache Hudi's JAR runs
            without the JAR.

    Raises:
        ConfigError: PySpark's classes are not as expected, settings of Apache Hudi's JAR are left without the JAR, or
            Spark has another data source with this name.
        ImportError: Spark's Python cannot load hudi-py, or pandas is missing here.
    """
    check_session(spark)
    check_pandas()
    if name.lower() != FORMAT:
        register_as(spark, name)
    with lock:
        hooks = [_Hook.of(type(spark), name, wrap) for name, wrap in _OF_SESSIONS.items()]
        hooks += [_Hook.of(type(spark.range(0)), name, wrap) for name, wrap in _OF_FRAMES.items()]
        for hook in hooks:
            hook.put()
        set_enabled(spark, FORMAT, name)


def disable(spark: SparkSession) -> None:
    """Undoes `enable(spark)`: readers of the session use the plain format again. Existing DataFrames and views stay as
    they are. PySpark's classes are restored once no session is enabled."""
    with lock:
        if set_disabled(spark) == 0:
            while _hooks:
                _hooks.popitem()[1].remove()


@dataclass(frozen=True)
class _Hook:
    """A wrapped attribute of a PySpark class."""

    owner: type
    name: str
    original: Any
    wrapped: Any

    @classmethod
    def of(cls, kind: type, name: str, wrap: Callable[[Any], Any]) -> _Hook:
        owner = next((item for item in kind.__mro__ if name in vars(item)), None)
        original = None if owner is None else vars(owner)[name]
        if owner is None or not (callable(original) or isinstance(original, (property, functools.cached_property))):
            raise ConfigError(
                f"Cannot enable hudi-py in PySpark {pyspark.__version__}: {kind.__module__}.{kind.__name__} has no "
                f"{name} as expected; use read_table of pyspark_hudi instead"
            )
        return cls(owner, name, original, wrap(original))

    def put(self) -> None:
        if _hooks.setdefault((self.owner, self.name), self) is self:
            setattr(self.owner, self.name, self.wrapped)

    def remove(self) -> None:
        # if others have wrapped it since, that stays; without enabled sessions it changes nothing
        if vars(self.owner).get(self.name) is self.wrapped:
            setattr(self.owner, self.name, self.original)


_hooks: dict[tuple[type, str], _Hook] = {}


class _NativeReader(Noting):
    """A `spark.read` that reads our format as `read_table` does."""

    def schema(self, schema: Any) -> Any:
        self._hudi_py.plain = True
        return super().schema(schema)

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        asked = self._hudi_py
        if is_own_format(asked.owner, asked.format):
            self.options(
                **{key: item for key, item in session_options(asked.owner).items() if key not in asked.options}
            )
        plain: Callable[[], DataFrame] = functools.partial(super().load, path)
        if not _is_native(asked, path):
            with hinted(asked, asked.owner):
                frame = plain()
                if asked.format.lower() == APACHE_HUDI and not is_classic(asked.owner):
                    frame.schema  # noqa: B018 - Spark Connect looks for the source only now
                return frame
        return read_or(asked.owner, str(asked.path(path)), asked.own_options(), plain)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        asked = self._hudi_py
        frame = None if asked.options or asked.plain else _native_table(asked.owner, tableName)
        return super().table(tableName) if frame is None else frame


class _OneEach(Noting):
    """A `spark.catalog` that lists each table of `register_sql` once, without its parts."""

    def listTables(self, dbName: str | None = None, pattern: str | None = None) -> Any:  # noqa: N802, N803
        tables = super().listTables(dbName, pattern)
        spark = self._hudi_py.owner
        if not is_enabled(spark):
            return tables
        behind = tables_behind(spark, [(".".join(item.namespace or ()), item.name) for item in tables])
        return [
            item for item in tables if item.isTemporary or (".".join(item.namespace or ()), item.name) not in behind
        ]


@functools.cache
def _noting_class(noting: Any, kind: Any) -> type:
    return type(kind.__name__, (noting, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def _as_noting(made: Any, noting: type[Noting], asked: SourceRequest) -> Any:
    """Converts the reader or writer that PySpark has made to one that records its settings."""
    spark = asked.owner if noting in (_NativeReader, _OneEach) else asked.owner.sparkSession
    if is_enabled(spark) and not isinstance(made, Noting):
        kinds: Any = noting, type(made)
        made.__class__ = _noting_class(*kinds)
        made._hudi_py = asked
    return made


def _wrap_reader(original: property) -> property:
    return property(
        lambda self: _as_noting(original.__get__(self), _NativeReader, SourceRequest(self)), doc=original.__doc__
    )


def _wrap_writer(original: property) -> property:
    return property(
        lambda self: _as_noting(original.__get__(self), NativeWriter, SourceRequest(self)), doc=original.__doc__
    )


def _wrap_stream_writer(original: property) -> property:
    return property(
        lambda self: _as_noting(original.__get__(self), NativeStreamWriter, SourceRequest(self)), doc=original.__doc__
    )


def _wrap_catalog(original: property) -> property:
    return property(
        lambda self: _as_noting(original.__get__(self), _OneEach, SourceRequest(self)), doc=original.__doc__
    )


def _writing_to(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def write_to(self: DataFrame, table: str) -> Any:
        return _as_noting(original(self, table), NativeWriterV2, SourceRequest(self, table=table))

    return write_to


def _wrap_table(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @functools.wraps(original)
    def table(self: SparkSession, tableName: str) -> DataFrame:  # noqa: N803
        frame = _native_table(self, tableName)
        return original(self, tableName) if frame is None else frame

    return table


def _wrap_sql(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
        if runs_statements(self) and isinstance(sqlQuery, str):
            done = run_if_hudi(self, sqlQuery, args, kwargs)
            if done is not None:
                return done
        frames = _frames_in(self, sqlQuery) if is_enabled(self) else {}
        entries = _entries_in(self, sqlQuery, frames) if is_enabled(self) else []
        if frames or entries:
            given = {f"_hudi_py_{name}": frame for name, frame in frames.items()}
            given |= {f"_hudi_py_{index}": frame for index, (_, frame) in enumerate(entries)}
            query = _with_entries(sqlQuery, [item for item, _ in entries], escaped=not kwargs)
            try:
                return original(self, _with_tables(query, list(frames)), args, **kwargs, **given)
            except PySparkException as error:  # also an error of the query itself, which Spark then words
                # Spark alone cannot read entries, and shows views with the columns of their registration
                if entries or any(_columns_of(self, name) != frame.columns for name, frame in frames.items()):
                    raise
                _log.warning("%s is read by the plain format: %s", ", ".join(frames), first_line(error))
        return original(self, sqlQuery, args, **kwargs)

    return sql


_OF_SESSIONS: dict[str, Callable[[Any], Any]] = {
    "read": _wrap_reader,
    "table": _wrap_table,
    "sql": _wrap_sql,
    "catalog": _wrap_catalog,
}
_OF_FRAMES: dict[str, Callable[[Any], Any]] = {
    "write": _wrap_writer,
    "writeTo": _writing_to,
    "writeStream": _wrap_stream_writer,
}
"""Wrappers by attribute of PySpark's classes."""


def _is_native(asked: SourceRequest, path: Any) -> bool:
    """Returns whether `read_table` should answer, and not the plain format."""
    options = asked.own_options()
    if asked.plain or asked.path(path) is None or not is_own_format(asked.owner, asked.format):
        return False
    return options.get(read_config.NATIVE.key) != "never" and _PLAIN_READS.isdisjoint(options)


def _native_table(spark: SparkSession, name: object) -> DataFrame | None:
    """Returns the rows of a table of `register_sql`, or of a Hudi table in the catalog; None for others."""
    if not isinstance(name, str) or not is_enabled(spark):
        return None
    table = _current_table(spark, name)
    if table is not None:
        return _fresh_rows(spark, table)
    entry = entry_of(spark, name)
    if entry is None:
        return None
    options = {**session_options(spark), **entry.options}
    # the catalog does not pass the plain format what it needs
    return read_or(spark, entry.path, options, lambda: read_plain(spark, entry.path, options))


def _fresh_rows(spark: SparkSession, table: SqlTable) -> DataFrame | None:
    """Returns the rows of a table of `register_sql` with its current columns, if the catalog may have older ones; None
    if it cannot be read, so that Spark reports the error of the view."""
    options = {**session_options(spark), **table.options}
    try:
        return read_or(spark, table.path, options, lambda: read_plain(spark, table.path, options))
    except (HudiError, PySparkException, OSError):
        return None


def _current_table(spark: SparkSession, name: str) -> SqlTable | None:
    """Returns the table of `register_sql` that the name currently means."""
    known = noted_tables(spark) if is_enabled(spark) else {}
    value = known.get(qualified(spark, name)) if known else None
    return value if value is not None and is_from(spark, name, value) else None


def _frames_in(spark: SparkSession, query: object) -> dict[str, DataFrame]:
    """Returns the rows of each table of `register_sql` that the query may name."""
    if not isinstance(query, str) or not _QUERY.match(query) or _COMMAND.search(query):
        return {}
    words = set(re.findall(r"\w+", query.lower()))
    short = {name.rpartition(".")[2] for name in noted_tables(spark)} & words
    tables = {name: table for name in sorted(short) if (table := _current_table(spark, name)) is not None}
    frames = {name: _fresh_rows(spark, table) for name, table in tables.items()}
    return {name: frame for name, frame in frames.items() if frame is not None}


def _columns_of(spark: SparkSession, name: str) -> list[str]:
    """Returns the columns of a view in the catalog."""
    return [column.name for column in spark.catalog.listColumns(name)]


def _entries_in(spark: SparkSession, query: object, known: Mapping[str, Any]) -> list[tuple[Reference, DataFrame]]:
    """Returns the other Hudi tables of the catalog that the query names, with their rows."""
    if not isinstance(query, str) or not _QUERY.match(query) or _COMMAND.search(query):
        return []
    tokens = tokens_of(query)
    try:
        named = references(Cursor(query, tokens)) if tokens else []
    except ConfigError:  # a time that the plain query refuses with its own message
        return []
    frames: dict[str, DataFrame | None] = {}
    for item in named:
        name = ".".join(item.names)
        if name.lower() not in known and name not in frames and item.as_of is None:
            frames[name] = _native_table(spark, name)
    return [(item, frame) for item in named if (frame := frames.get(".".join(item.names))) is not None]


def _with_entries(query: str, entries: list[Reference], *, escaped: bool) -> str:
    """Replaces the references in a query by numbered frames. `escaped`: its own braces are text."""

    def own(text: str) -> str:
        return text.replace("{", "{{").replace("}", "}}") if escaped else text

    pieces: list[str] = []
    done = 0
    for index, entry in enumerate(entries):
        alias = "" if entry.has_alias else f" AS {backticked(entry.names[-1])}"
        pieces += [own(query[done : entry.start]), f"{{_hudi_py_{index}}}{alias}"]
        done = entry.end
    return "".join([*pieces, own(query[done:])])


def _with_tables(query: str, names: list[str]) -> str:
    """Adds each table to the query as a common table expression, which hides the one in the catalog."""
    if not names:
        return query
    defined = ", ".join(f"`{name}` AS (SELECT * FROM {{_hudi_py_{name}}})" for name in names)
    start = _QUERY.match(query)
    assert start is not None
    begun = start["with"]
    return f"WITH {defined} {query}" if begun is None else f"{begun} {defined}, {query[start.end() :]}"
