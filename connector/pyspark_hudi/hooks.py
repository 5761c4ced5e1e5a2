"""`enable`: the readers of PySpark itself take the way of `read_table` for the format `hudi-py`.

PySpark hands out its readers by properties of its sessions. `enable` wraps those properties: in an enabled session the
reader becomes one of a subclass, which notes what is asked of it, and at `load()` answers or leaves it to PySpark. Only
public names are used, so that the classic classes and those of Spark Connect are treated alike.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkException

from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError, first_line
from pyspark_hudi.enabled import is_enabled, lock, noted_tables, set_enabled
from pyspark_hudi.sql import is_from
from pyspark_hudi.table import FORMAT, read_if_native

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    _Reader = DataFrameReader
else:
    _Reader = object

_log = logging.getLogger(__name__)
_LEFT_ALONE = frozenset({spark_config.VIEW.key, spark_config.PIN.key})
"""Options of loads that are not of a table's newest rows, among them those of `read_table` itself."""
_QUERY = re.compile(r"\s*(?:(?P<with>WITH(?:\s+RECURSIVE)?)|SELECT)\b", re.IGNORECASE)
_COMMAND = re.compile(r"\bINSERT\b", re.IGNORECASE)


def enable(spark: SparkSession) -> None:
    """Let `spark.read.format("hudi-py").load(path)` read in the way of `read_table`.

    The same holds for what `register_sql` makes: temporary views made after this call; and tables, where this session
    reads them by `spark.table(name)`, by `spark.read.table(name)`, or in a query of `spark.sql` that begins with SELECT
    or WITH and names them without their schema.

    Rows, columns, options and errors stay the same. The plain format reads what the native way cannot plan, loads with
    `.schema(...)`, views and streams. DataFrames show the table as it was at `load()`, on Spark Connect too.

    Nothing changes for other formats, sessions and processes. A second call has no effect. Any thread may call this.

    Raises:
        ConfigError: PySpark's classes are not as expected.
    """
    with lock:
        hooks = [_Hook.of(type(spark), name, wrap) for name, wrap in _WRAPPERS.items()]
        for hook in hooks:
            hook.put()
        set_enabled(spark, True)


def disable(spark: SparkSession) -> None:
    """Undo `enable(spark)`: readers of the session read in the plain way again. DataFrames and views that exist stay as
    they are. PySpark's classes are as they were once no session is enabled."""
    with lock:
        if set_enabled(spark, False) == 0:
            while _hooks:
                _hooks.popitem()[1].remove()


@dataclass(frozen=True)
class _Hook:
    """An attribute of a class of PySpark, wrapped."""

    owner: type
    name: str
    original: Any
    wrapped: Any

    @classmethod
    def of(cls, kind: type, name: str, wrap: Callable[[Any], Any]) -> _Hook:
        owner = next((each for each in kind.__mro__ if name in vars(each)), None)
        original = None if owner is None else vars(owner)[name]
        if owner is None or not (callable(original) or isinstance(original, property)):
            raise ConfigError(
                f"Cannot enable hudi-py in PySpark {pyspark.__version__}: {kind.__module__}.{kind.__name__} has no "
                f"{name} as expected; use read_table of pyspark_hudi instead"
            )
        return cls(owner, name, original, wrap(original))

    def put(self) -> None:
        if _hooks.setdefault((self.owner, self.name), self) is self:
            setattr(self.owner, self.name, self.wrapped)

    def remove(self) -> None:
        # what others have put over it since stays; without enabled sessions it changes nothing
        if vars(self.owner).get(self.name) is self.wrapped:
            setattr(self.owner, self.name, self.original)


_hooks: dict[tuple[type, str], _Hook] = {}


@dataclass
class _Asked:
    """What a reader was asked for."""

    spark: SparkSession
    format: str = ""
    has_schema: bool = False
    options: dict[str, str] = field(default_factory=dict)
    """By keys in lower case, as Spark compares them."""

    def note(self, options: dict[str, Any]) -> None:
        for key, value in options.items():
            if value is not None:
                self.options[key.lower()] = str(value).lower() if isinstance(value, bool) else str(value)


class _NativeReader(_Reader):
    """A reader of PySpark, classic or Connect, that knows what it is asked for."""

    _hudi_py: _Asked

    def format(self, source: str) -> Any:
        self._hudi_py.format = source
        return super().format(source)

    def schema(self, schema: Any) -> Any:
        self._hudi_py.has_schema = True
        return super().schema(schema)

    def option(self, key: str, value: Any) -> Any:
        self._hudi_py.note({key: value})
        return super().option(key, value)

    def options(self, **options: Any) -> Any:
        self._hudi_py.note(options)
        return super().options(**options)

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        frame = _native_load(self._hudi_py, path)
        return super().load(path) if frame is None else frame

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        asked = self._hudi_py
        frame = None if asked.options or asked.has_schema else _native_table(asked.spark, tableName)
        return super().table(tableName) if frame is None else frame


@functools.cache
def _native(kind: type) -> type:
    return type(kind.__name__, (_NativeReader, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def _reading(original: property) -> property:
    def read(self: SparkSession) -> DataFrameReader:
        reader: Any = original.__get__(self)
        if is_enabled(self) and not isinstance(reader, _NativeReader):
            kind: type = type(reader)
            reader.__class__ = _native(kind)
            reader._hudi_py = _Asked(self)
        return reader  # type: ignore[no-any-return]

    return property(read, doc=original.__doc__)


def _tables(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @functools.wraps(original)
    def table(self: SparkSession, tableName: str) -> DataFrame:  # noqa: N803
        frame = _native_table(self, tableName)
        return original(self, tableName) if frame is None else frame

    return table


def _queries(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
        frames = _frames_in(self, sqlQuery) if is_enabled(self) else {}
        if frames:
            given = {f"_hudi_py_{name}": frame for name, frame in frames.items()}
            query = sqlQuery if kwargs else sqlQuery.replace("{", "{{").replace("}", "}}")
            try:
                return original(self, _with_tables(query, list(frames)), args, **kwargs, **given)
            except PySparkException as error:  # also one of the query itself, which Spark then words
                _log.info("reading %s by the plain format: %s", ", ".join(frames), first_line(error))
        return original(self, sqlQuery, args, **kwargs)

    return sql


_WRAPPERS: dict[str, Callable[[Any], Any]] = {"read": _reading, "table": _tables, "sql": _queries}
"""For each attribute of a session."""


def _native_load(asked: _Asked, path: Any) -> DataFrame | None:
    """The DataFrame of `read_table`; None where the plain format is to answer."""
    if asked.format.lower() != FORMAT or asked.has_schema or not is_enabled(asked.spark):
        return None
    options = dict(asked.options)
    inherent = options.pop("path", None)
    if path is None:
        path, inherent = inherent, None
    plain = options.get(spark_config.NATIVE.key) == "never" or not _LEFT_ALONE.isdisjoint(options)
    if plain or inherent is not None or not isinstance(path, str):
        return None
    return read_if_native(asked.spark, path, options)


def _native_table(spark: SparkSession, name: object) -> DataFrame | None:
    if not isinstance(name, str) or not is_enabled(spark):
        return None
    found = noted_tables(spark).get(name.lower())
    if found is None or not is_from(spark, name, found):
        return None
    return read_if_native(spark, found.path, found.options)


def _frames_in(spark: SparkSession, query: object) -> dict[str, DataFrame]:
    """For each table of `register_sql` that the query may name its rows."""
    if not isinstance(query, str) or not _QUERY.match(query) or _COMMAND.search(query):
        return {}
    words = set(re.findall(r"\w+", query.lower()))
    frames = {name: _native_table(spark, name) for name in noted_tables(spark) if name in words}
    return {name: frame for name, frame in frames.items() if frame is not None}


def _with_tables(query: str, names: list[str]) -> str:
    """The query with each table as a common table expression, which hides the one in the catalog."""
    defined = ", ".join(f"`{name}` AS (SELECT * FROM {{_hudi_py_{name}}})" for name in names)
    start = _QUERY.match(query)
    assert start is not None
    begun = start["with"]
    return f"WITH {defined} {query}" if begun is None else f"{begun} {defined}, {query[start.end() :]}"
