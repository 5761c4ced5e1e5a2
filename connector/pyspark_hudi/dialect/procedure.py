"""What a procedure is that CALL runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hudi_py.errors import ConfigError
from pyspark_hudi.dialect.tables import StatementTarget

Rows = Iterable[tuple[Any, ...]]
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure that a CALL names."""

    parameters: Mapping[str, Any]
    """With their default values, in order."""
    columns: str
    """Of the result, as DDL."""
    run: Callable[[StatementTarget, Given], Rows]

    @property
    def accepted(self) -> dict[str, Any]:
        """The parameters, and `path`, by name alone, where there is `table`: Apache Hudi 1.2.0 has it for some only."""
        return {**({"path": None} if "table" in self.parameters else {}), **self.parameters}


def needed(given: Given, name: str) -> str:
    """A parameter without which a procedure cannot be called."""
    if not given[name]:
        raise ConfigError(f"Cannot call the procedure without {name}; give {name} => '...'")
    return str(given[name])
