"""Change data capture: what tables log about their changes (`HoodieCDCUtils`, 1.2.0)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from hudi_py.errors import UnsupportedTableError
from hudi_py.model.properties import TableConfig

OP: Final = "op"
TS_MS: Final = "ts_ms"
KEY: Final = "record_key"
BEFORE: Final = "before"
AFTER: Final = "after"

INSERT: Final = "i"
UPDATE: Final = "u"
DELETE: Final = "d"

ENABLED: Final = "hoodie.table.cdc.enabled"
MODE: Final = "hoodie.table.cdc.supplemental.logging.mode"


class LoggingMode(Enum):
    """`hoodie.table.cdc.supplemental.logging.mode`: what a change log holds besides the kind of change."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"

    @property
    def columns(self) -> tuple[str, ...]:
        """Returns the columns of a change log."""
        return _COLUMNS[self]


_COLUMNS: Final = {
    LoggingMode.OP_KEY_ONLY: (OP, KEY),
    LoggingMode.DATA_BEFORE: (OP, KEY, BEFORE),
    LoggingMode.DATA_BEFORE_AFTER: (OP, TS_MS, BEFORE, AFTER),
}


def logging_mode(config: TableConfig, purpose: str) -> LoggingMode:
    """Returns how a table with change data capture logs changes. `purpose` completes "Cannot" in the error.

    Raises:
        UnsupportedTableError: the mode is unknown.
    """
    stored = config.properties.get(MODE, "").strip() or LoggingMode.DATA_BEFORE_AFTER.value
    try:
        return LoggingMode(stored.upper())
    except ValueError:
        known = ", ".join(mode.value.lower() for mode in LoggingMode)
        raise UnsupportedTableError(f"Cannot {purpose}: it has {MODE}={stored}; supported: {known}") from None
