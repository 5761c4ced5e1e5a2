"""The entry of a table in a catalog, and what a catalog can do with entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hudi_py.errors import HudiError

Values = tuple[str, ...]
"""Values of the partition columns, as text."""


class CatalogError(HudiError):
    """A catalog could not be reached, or refused a request."""


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column with its type in Hive's notation, in lower case."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """Classes of Hadoop and Hive that read and write the files."""

    input_format: str
    output_format: str
    serde: str


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table as a catalog in the manner of Hive holds it."""

    name: str
    columns: tuple[CatalogColumn, ...]
    """Without the partition columns."""
    partition_columns: tuple[CatalogColumn, ...]
    location: str
    format: Format
    parameters: Mapping[str, str]
    serde_parameters: Mapping[str, str]
    external: bool = True


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry that the catalog holds."""

    entry: TableEntry
    raw: Any = field(repr=False, compare=False)
    """As the catalog gave it, with what hudi-py does not know; `alter` keeps that."""


class IncompatibleError(CatalogError):
    """The catalog refuses a change of columns."""


class Catalog(Protocol):
    """A catalog that holds tables and their partitions, as Hive's. All methods raise `CatalogError`."""

    name: str
    """As in the option `hoodie.py.sync.catalogs`."""

    def has_database(self) -> bool: ...

    def create_database(self) -> None: ...

    def table(self, name: str) -> StoredEntry | None:
        """None if there is none."""
        ...

    def create(self, entry: TableEntry) -> None: ...

    def alter(self, stored: StoredEntry, entry: TableEntry, *, cascade: bool) -> None:
        """Stores a changed entry. `cascade`: its columns are those of its partitions as well.

        Raises:
            IncompatibleError: the catalog does not let columns change so.
        """
        ...

    def drop(self, name: str) -> None:
        """Drops a table. Its files stay."""
        ...

    def partitions(self, name: str) -> dict[Values, str]:
        """The locations of all partitions."""
        ...

    def add_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        """Partitions that are there already stay as they are."""
        ...

    def change_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None: ...

    def drop_partitions(self, name: str, values: Sequence[Values]) -> None:
        """Drops partitions; those that are not there are ignored. Their files stay."""
        ...

    def close(self) -> None: ...
