"""Takes tables as the functions of this package accept them: opened, or by path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from hudi_py.storage import Storage, StrPath, open_storage


class OpenTable(Protocol):
    """A table that `hudi_py.open_table` returned."""

    _storage: Storage
    _options: Mapping[str, Any]
    _storage_options: Mapping[str, str] | None


def options_of(table: OpenTable | StrPath) -> Mapping[str, Any]:
    """Returns the options with which a table was opened; none for a path."""
    return {} if isinstance(table, (str, os.PathLike)) else table._options


def storage_options_of(table: OpenTable | StrPath) -> Mapping[str, str]:
    """Returns the storage options with which a table was opened; none for a path."""
    return {} if isinstance(table, (str, os.PathLike)) else {**(table._storage_options or {})}


def storage_of(table: OpenTable | StrPath, storage_options: Mapping[str, str] | None) -> Storage:
    """Returns the storage of a table; `storage_options` apply to a path."""
    return open_storage(table, storage_options or None) if isinstance(table, (str, os.PathLike)) else table._storage
