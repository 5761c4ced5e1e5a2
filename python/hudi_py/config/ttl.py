"""Options of partition TTL (`HoodieTTLConfig`, 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Option, Scope, choice, declared, flag, integer, names

_PREFIX = "hoodie.partition.ttl."
_PACKAGE = "org.apache.hudi.table.action.ttl.strategy."
KEEP_BY_TIME: Final = "KEEP_BY_TIME"
KEEP_BY_CREATION_TIME: Final = "KEEP_BY_CREATION_TIME"
_CLASSES = {"KeepByTimeStrategy": KEEP_BY_TIME, "KeepByCreationTimeStrategy": KEEP_BY_CREATION_TIME}


def _strategy_class(value: str) -> str | None:
    """Parse the name of a strategy of Apache Hudi's, which is returned as its type, or `module:Class`."""
    name = value.strip().removeprefix(_PACKAGE)
    module, colon, attribute = (part.strip() for part in name.partition(":"))
    if name in _CLASSES:
        return _CLASSES[name]
    if name and not (colon and module and attribute):
        raise ValueError(" or ".join(_CLASSES) + ", or module:Class of a class in Python")
    return name or None


INLINE = flag(
    f"{_PREFIX}inline",
    "Whether a commit is followed by dropping the partitions that have expired.",
    Scope.SERVICE,
    False,
)
STRATEGY_TYPE = choice(
    f"{_PREFIX}management.strategy.type",
    "From which time partitions are kept: from their last write, or from their creation.",
    Scope.SERVICE,
    KEEP_BY_TIME,
    (KEEP_BY_TIME, KEEP_BY_CREATION_TIME),
)
STRATEGY_CLASS: Option[str | None] = Option(
    f"{_PREFIX}strategy.class",
    "class name",
    _strategy_class,
    None,
    "Decides which partitions have expired, whatever the type: a strategy of Apache Hudi's, or `module:Class` of a "
    "class in Python, see `hudi_py.services.ttl.PartitionStrategy`.",
    Scope.SERVICE,
    example="KeepByCreationTimeStrategy",
)
DAYS_RETAINED = integer(
    f"{_PREFIX}strategy.days.retain",
    "Days after which a partition has expired; 0 or less: never.",
    Scope.SERVICE,
    -1,
    minimum=-1,
    unit="days",
    example="90",
)
PARTITIONS = names(
    f"{_PREFIX}strategy.partition.selected",
    "Paths of the partitions that may expire, separated by commas; empty: all.",
    Scope.SERVICE,
    example="2026/01/31,2026/02/01",
)
MAX_PARTITIONS = integer(
    f"{_PREFIX}strategy.max.delete.partitions",
    "The largest number of partitions that are dropped at once, oldest first.",
    Scope.SERVICE,
    1000,
    minimum=1,
    unit="partitions",
)

OPTIONS = declared(globals())
