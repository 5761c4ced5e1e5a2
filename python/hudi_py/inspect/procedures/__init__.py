"""Runs Apache Hudi's SQL procedures that only show something of a table: the view `procedure`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.inspect.procedures import actions, contents, index, logs, slices
from hudi_py.inspect.procedures.shown import Opened, Shown, table_of

__all__ = ["SHOWN", "Shown", "procedure_report"]

SHOWN: Final[Mapping[str, Shown]] = MappingProxyType(
    {
        **actions.PROCEDURES,
        **slices.PROCEDURES,
        **logs.PROCEDURES,
        **index.PROCEDURES,
        **contents.PROCEDURES,
    }
)
"""The procedures by name."""


def procedure_report(path: str, options: Options, name: str, given: Mapping[str, Any]) -> pa.Table:
    """Returns the rows of a procedure, in its order.

    Args:
        given: values of parameters; the others have their defaults.

    Raises:
        ConfigError: there is no such procedure, or a parameter is wrong.
        HudiError: the table cannot be read.
    """
    shown = SHOWN.get(name)
    if shown is None:
        raise ConfigError(f"Cannot show the procedure '{name}'; supported: {', '.join(SHOWN)}")
    return table_of(shown.columns, shown.rows(Opened(path, options), {**shown.parameters, **given}))
