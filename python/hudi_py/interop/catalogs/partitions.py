"""Values of partition columns from the paths of partitions, and which partitions a catalog lacks, has with another
location, or has too many (`PartitionValueExtractor` and its classes, `HoodieSyncClient.getPartitionEvents`, 1.2.0)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from hudi_py.errors import ConfigError
from hudi_py.interop.catalogs.entry import Values
from hudi_py.model.properties import TableConfig

Extractor = Callable[[str], Values]
"""From the path of a partition, relative to the table, to the values of its columns; none: it is not registered."""
_PACKAGE = "org.apache.hudi.hive."


def extractor_name(config: TableConfig, fields: tuple[str, ...]) -> str:
    """The class that the partitioning of a table asks for (`HoodieTableConfigUtils.inferPartitionValueExtractorClass`,
    1.2.0)."""
    if not fields:
        return f"{_PACKAGE}NonPartitionedExtractor"
    if len(fields) > 1:
        return f"{_PACKAGE}MultiPartKeysValueExtractor"
    if config.hive_style:
        return f"{_PACKAGE}HiveStylePartitionValueExtractor"
    if config.slashed_dates:
        return f"{_PACKAGE}SlashEncodedDayPartitionValueExtractor"
    return f"{_PACKAGE}SinglePartPartitionValueExtractor"


def extractor(name: str, fields: tuple[str, ...]) -> Extractor:
    """The function that a class of Apache Hudi stands for. It raises ConfigError for a path that it does not fit, or
    that has another number of values than there are columns."""
    short = name.removeprefix(_PACKAGE)
    extract = _EXTRACTORS[short]

    def values(path: str) -> Values:
        try:
            found = extract(path)
        except ValueError:
            raise ConfigError(
                f"Cannot register the partition '{path}': {short} takes values from paths of another form; set "
                "hoodie.datasource.hive_sync.partition_extractor_class"
            ) from None
        if found and len(found) != len(fields):
            raise ConfigError(
                f"Cannot register the partition '{path}': {short} finds {len(found)} values in it for the columns "
                f"{', '.join(fields)}; set hoodie.datasource.hive_sync.partition_extractor_class or "
                "hoodie.datasource.hive_sync.partition_fields"
            )
        return found

    return values


def _multi_part(path: str) -> Values:
    return tuple(_value(part) for part in path.split("/")) if path else ()


def _value(part: str) -> str:
    if "=" not in part:
        return part
    pieces = part.rstrip("=").split("=")  # Java's split leaves out empty ones at the end
    if len(pieces) != 2:
        raise ValueError
    return pieces[1]


def _hive_style(path: str) -> Values:
    pieces = path.rstrip("=").split("=")
    if len(pieces) != 2:
        raise ValueError
    return (pieces[1],)


def _date(path: str, parts: int, shown: str) -> Values:
    numbers = [int(_value(part)) for part in path.split("/")]
    if len(numbers) != parts:
        raise ValueError
    return (datetime.datetime(*numbers).strftime(shown),)  # type: ignore[arg-type]


_EXTRACTORS: Mapping[str, Extractor] = {
    "MultiPartKeysValueExtractor": _multi_part,
    "SinglePartPartitionValueExtractor": lambda path: (path.replace("/", "-"),),
    "HiveStylePartitionValueExtractor": _hive_style,
    "SlashEncodedDayPartitionValueExtractor": lambda path: _date(path, 3, "%Y-%m-%d"),
    "SlashEncodedHourPartitionValueExtractor": lambda path: _date(path, 4, "%Y-%m-%d-%H"),
    "NonPartitionedExtractor": lambda path: (),
}


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """What a catalog is to do: locations by values."""

    added: Mapping[Values, str]
    moved: Mapping[Values, str]
    """Those with another location."""
    touched: Mapping[Values, str]
    """Those that were written, and are registered as they are."""
    dropped: tuple[Values, ...]


def all_changes(known: Mapping[Values, str], stored: Mapping[Values, str]) -> PartitionChanges:
    """What makes the partitions that a catalog knows those of the table.

    Args:
        known: locations in the catalog.
        stored: locations of the table.
    """
    found = changes_of(stored, (), known)
    return PartitionChanges(found.added, found.moved, {}, tuple(sorted(known.keys() - stored.keys())))


def changes_of(
    written: Mapping[Values, str], dropped: Iterable[Values], known: Mapping[Values, str]
) -> PartitionChanges:
    """What the partitions that were written, some of them dropped, mean for those that a catalog knows."""
    gone = set(dropped)
    there = {values: location for values, location in written.items() if values not in gone}
    return PartitionChanges(
        {values: location for values, location in there.items() if values not in known},
        {values: place for values, place in there.items() if values in known and not _same(place, known[values])},
        {values: place for values, place in there.items() if values in known and _same(place, known[values])},
        tuple(sorted(gone & known.keys())),
    )


def same_place(first: str, second: str) -> bool:
    """Whether two locations have the same path. As in Apache Hudi, scheme and host do not count (`s3`, `s3a`)."""
    return _same(first.rstrip("/"), second.rstrip("/"))


def _same(first: str, second: str) -> bool:
    return first == second or urlsplit(first).path == urlsplit(second).path
