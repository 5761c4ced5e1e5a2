"""Settings of the registration, read once from options."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hudi_py.config import Options
from hudi_py.config import interop as config
from hudi_py.config.interop import GLUE, HMS
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig


@dataclass(frozen=True, slots=True)
class TableIdentifier:
    """Name of an entry."""

    database: str
    table: str


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """Which catalogs to register with, and what to register. Can be pickled; contains no credentials."""

    options: Options = field(repr=False)
    catalogs: tuple[str, ...]

    @classmethod
    def of(cls, options: Options, *, enabled: bool | None = None) -> SyncSettings | None:
        """Reads the settings from write options; None if they do not ask for a registration.

        Args:
            enabled: whether to register; None: as the options say.

        Raises:
            ConfigError: a catalog is named without its address.
        """
        if enabled is None:
            enabled = options.get(config.ENABLED) or options.get(config.META_ENABLED)
        if not enabled:
            return None
        settings = cls(options.without_credentials(), _chosen_catalogs(options))
        needed = {
            config.POLARIS: (config.POLARIS_URI, config.POLARIS_CATALOG),
            config.UNITY: (config.UNITY_URI, config.UNITY_CATALOG),
        }
        missing = [
            option.key for name in settings.catalogs for option in needed.get(name, ()) if options.get(option) is None
        ]
        if missing:
            raise ConfigError(
                f"Cannot register a table with {' and '.join(settings.catalogs)}: {' and '.join(missing)} must be set"
            )
        return settings

    def names(self, table: TableConfig, catalog: str) -> TableIdentifier:
        """Returns database and name for a table in a catalog.

        Raises:
            ConfigError: the table has no name.
        """
        get = self.options.get
        database = get(config.DATABASE) or table.database or "default"
        name = get(config.TABLE) or table.name
        if catalog == GLUE:
            database, name = get(config.GLUE_DATABASE) or database, get(config.GLUE_TABLE) or name
        if not name:
            raise ConfigError(f"Cannot register a table without a name: set {config.TABLE.key}")
        return TableIdentifier(database, name)

    def partition_fields(self, table: TableConfig) -> tuple[str, ...]:
        return self.options.get(config.PARTITION_FIELDS) or table.partition_fields

    @property
    def ignores_failures(self) -> bool:
        return self.options.get(config.IGNORE_FAILURES)

    def recreates(self, catalog: str) -> bool:
        """Returns whether an entry that cannot be changed is replaced."""
        return self.options.get(config.GLUE_RECREATE if catalog == GLUE else config.RECREATE)

    @property
    def table_parameters(self) -> dict[str, str]:
        return _parse_lines(self.options.get(config.TABLE_PROPERTIES))

    @property
    def serde_parameters(self) -> dict[str, str]:
        return _parse_lines(self.options.get(config.SERDE_PROPERTIES))


def _chosen_catalogs(options: Options) -> tuple[str, ...]:
    """Returns the catalogs as `HoodieSparkSqlWriter.metaSync` (1.2.0) does: the mode `glue` adds to the named
    classes."""
    chosen = options.get(config.CHOSEN)
    if chosen:
        return chosen
    tools, mode = options.get(config.TOOLS), options.get(config.MODE)
    if not tools:
        return (mode or HMS,)
    return tuple(dict.fromkeys((*tools, *((GLUE,) if mode == GLUE else ()))))


def _parse_lines(text: str | None) -> dict[str, str]:
    """Parses pairs, one on each line (`ConfigUtils.toMap`, 1.2.0)."""
    return dict(_parse_pairs(text.splitlines())) if text else {}


def _parse_pairs(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        key, sign, value = line.partition("=")
        if sign:
            yield key.strip(), value.strip()
        elif line.strip():
            raise ConfigError(f"Cannot register a table with the property '{line.strip()}': expected key=value")
