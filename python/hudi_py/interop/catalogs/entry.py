"""The entry of a table in a catalog, what a catalog can do with entries, and what registering a table did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
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


@dataclass(frozen=True, slots=True)
class Registered:
    """What was done with one entry."""

    catalog: str
    name: str
    """As the catalog names it."""
    instant: str | None
    """The last write that the entry shows; None for a table without one."""
    done: str = "unchanged"
    """`created`; `changed`: columns, parameters or partitions; `noted`: only the last write; or `unchanged`."""
    columns_changed: bool = False
    partitions_added: int = 0
    partitions_changed: int = 0
    partitions_dropped: int = 0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `sync` did."""

    entries: tuple[Registered, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report in JSON's types."""
        return asdict(self)
