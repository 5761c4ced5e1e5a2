"""What is read from a table may grow only so far: limits of this process, and JSON that nests within reason.

Who can put a file into a table can make it one of a few kilobytes that takes gigabytes to read. The limits are far
above what tables have. Codecs get bytes and no options, so the limits are variables of the environment, which also
reach the workers of Spark (`spark.executorEnv.HUDI_PY_...`).
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

from hudi_py.errors import ConfigError

EXTREME: Final = 500
"""Bytes that a byte of a base file unpacks to, from which on it is suspicious: repeated values are stored once each."""
UNPACKED: Final = "HUDI_PY_MAX_UNPACKED_BYTES"
"""Bytes to which a compressed file of the timeline may grow, and columns of a row group that are packed extremely."""
SCHEMA: Final = "HUDI_PY_MAX_SCHEMA_FIELDS"
"""Columns of a schema with all members of nested ones, each as often as its type is used."""
DEFAULTS: Final = {UNPACKED: 1 << 28, SCHEMA: 100_000}


def limit(name: str) -> int:
    """The value of a limit.

    Raises:
        ConfigError: the variable of the environment is no positive number.
    """
    text = os.environ.get(name)
    if text is None:
        return DEFAULTS[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text)):
        raise ConfigError(
            f"Cannot use {name}={text[:40]!r} of the environment: expected a positive number; the default is "
            f"{DEFAULTS[name]}"
        )
    return int(text)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for one that nests too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
