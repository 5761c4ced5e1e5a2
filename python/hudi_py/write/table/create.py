"""Creating a table: its properties, and the folders that Apache Hudi expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.model.layout import PROPERTIES
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.properties import create_table_config, load_table_config, make_table_folders
from hudi_py.transaction.locks import NO_ACCESS
from hudi_py.write.table.properties import check_options, table_properties


def create_table(
    storage: Storage, options: Options, adding: Callable[[dict[str, str]], dict[str, str]] = dict
) -> tuple[TableConfig, bool]:
    """Create the table at the storage's root, or open an existing one.

    Of several callers at once one creates; the others open its table.

    Args:
        options: those of a write, with the table's name.
        adding: adds properties that no option sets.

    Returns:
        The table's properties, and whether this call created it.

    Raises:
        ConfigError, UnsupportedTableError: as `table_properties`; an existing table contradicts the options; the path
            cannot be written.
    """
    properties = adding(table_properties(options))
    try:
        created = _create(storage, properties)
    except OSError as error:
        if error.errno not in NO_ACCESS:
            raise
        raise ConfigError(
            f"Cannot create a table at {storage.uri}: its folder cannot be written ({error.strerror}); give this user "
            "write access to it, or another path"
        ) from error
    config = load_table_config(storage)
    if not created:
        check_options(config, options)
    return config, created


def _create(storage: Storage, properties: Mapping[str, str]) -> bool:
    """Whether there was no table."""
    if storage.stat(PROPERTIES) is None:
        make_table_folders(storage, properties)
    return create_table_config(storage, properties)
