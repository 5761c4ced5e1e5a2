"""Readers and writers of PySpark that record their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hudi_py.errors import ConfigError
from pyspark_hudi.enabled import is_enabled
from pyspark_hudi.preflight import lacks_source
from pyspark_hudi.table import FORMAT, option_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    _Base: Any = object
else:
    _Base = object

APACHE_HUDI = "hudi"
"""The format of Apache Hudi's JAR."""


@dataclass
class SourceRequest:
    """The settings of a reader or writer."""

    owner: Any
    """The session that reads, or the DataFrame that is written."""
    format: str = ""
    mode: str = ""
    plain: bool = False
    """Whether a setting requires the plain format."""
    options: dict[str, str] = field(default_factory=dict)
    """Options by keys in lower case, as Spark compares them."""
    partitions: list[Any] = field(default_factory=list)
    """The columns of `partitionBy`."""
    table: str = ""
    """The name given to `writeTo`."""

    def note(self, options: Mapping[str, Any]) -> None:
        self.options.update(option_texts(options))

    def path(self, given: Any) -> str | None:
        """Returns the path if there is exactly one."""
        paths = [path for path in (given, self.options.get("path")) if path is not None]
        return paths[0] if len(paths) == 1 and isinstance(paths[0], str) else None

    def own_options(self) -> dict[str, str]:
        return {key: value for key, value in self.options.items() if key != "path"}


class Noting(_Base):  # type: ignore[misc]
    """A reader or writer of PySpark, classic or Connect, that records its settings."""

    _hudi_py: SourceRequest

    def format(self, source: str) -> Any:
        self._hudi_py.format = source
        return super().format(source)

    def option(self, key: str, value: Any) -> Any:
        self._hudi_py.note({key: value})
        return super().option(key, value)

    def options(self, **options: Any) -> Any:
        self._hudi_py.note(options)
        return super().options(**options)


@contextmanager
def hinted(asked: SourceRequest, spark: SparkSession) -> Iterator[None]:
    """Adds advice to the error if Spark does not find the format of Apache Hudi's JAR."""
    try:
        yield
    except Exception as error:  # of py4j, too
        if asked.format.lower() != APACHE_HUDI or not is_enabled(spark) or not lacks_source(error):
            raise
        raise ConfigError(
            f"Cannot find the format '{asked.format}': Apache Hudi's JAR is not on the class path. hudi-py's own is "
            f"'{FORMAT}'; pyspark_hudi.enable(spark, name='{APACHE_HUDI}') lets '{APACHE_HUDI}' mean the same"
        ) from None
