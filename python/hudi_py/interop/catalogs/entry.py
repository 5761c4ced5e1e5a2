"""Catalog entries of a table, the interface of a catalog, and the report of a registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from hudi_py.errors import HudiError

Values = tuple[str, ...]
"""Values of the partition columns, as text."""


class CatalogError(HudiError):
    """A catalog could not be reached, or it refused a request."""


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
    """A table as a catalog like Hive's stores it."""

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
    """An entry in the catalog."""

    entry: TableEntry
    raw: Any = field(repr=False, compare=False)
    """The catalog's own form, including what hudi-py does not know; `alter` preserves that."""


class IncompatibleError(CatalogError):
    """The catalog refuses a change of columns."""


class ListedCatalog(Protocol):
    """A catalog whose databases and tables can be listed. All methods raise `CatalogError`."""

    def all_databases(self) -> list[str]:
        """Names of all databases, sorted."""
        ...

    def tables(self) -> Iterator[StoredEntry]:
        """Lists the tables of its database, of any format."""
        ...

    def close(self) -> None: ...


class Catalog(Protocol):
    """A catalog of tables and their partitions, like Hive's. All methods raise `CatalogError`."""

    name: str
    """Its name in the option `hoodie.py.sync.catalogs`."""

    def has_database(self) -> bool: ...

    def create_database(self) -> None: ...

    def table(self, name: str) -> StoredEntry | None:
        """Looks up a table; None if there is none."""
        ...

    def create(self, entry: TableEntry) -> None: ...

    def alter(self, stored: StoredEntry, entry: TableEntry, *, cascade: bool) -> None:
        """Stores a changed entry. `cascade`: its partitions get the same columns.

        Raises:
            IncompatibleError: the catalog does not let columns change so.
        """
        ...

    def drop(self, name: str) -> None:
        """Drops a table. Its files stay."""
        ...

    def partitions(self, name: str) -> dict[Values, str]:
        """Returns the locations of all partitions."""
        ...

    def add_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        """Adds partitions. Existing ones stay as they are."""
        ...

    def change_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None: ...

    def drop_partitions(self, name: str, values: Sequence[Values]) -> None:
        """Drops partitions; missing ones are ignored. Their files stay."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Registered:
    """The result for one entry."""

    catalog: str
    name: str
    """Name in the catalog."""
    instant: str | None
    """The last write that the entry shows; None for a table without writes."""
    done: str = "unchanged"
    """`created`; `changed`: columns, parameters or partitions; `noted`: only the last write; or `unchanged`."""
    columns_changed: bool = False
    partitions_added: int = 0
    partitions_changed: int = 0
    partitions_dropped: int = 0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The report of `sync`."""

    entries: tuple[Registered, ...]

    def to_dict(self) -> dict[str, Any]:
        """Converts the report to JSON types."""
        return asdict(self)
