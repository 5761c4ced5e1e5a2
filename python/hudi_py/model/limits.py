"""Limits on what is read from a table: sizes, and the nesting of JSON.

Anyone who can put a file into a table can craft one of a few kilobytes that takes gigabytes to read. The limits are far
above what real tables need. Codecs get bytes and no options, so limits are environment variables, which also reach
Spark's workers (`spark.executorEnv.HUDI_PY_...`).
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

from hudi_py.errors import ConfigError

EXTREME: Final = 500
"""Compression ratio of a base file above which it is suspicious; repeated values do not count, since each is stored
once."""
UNPACKED: Final = "HUDI_PY_MAX_UNPACKED_BYTES"
"""Maximum unpacked size in bytes of a compressed timeline file, and of the columns of a row group with a suspicious
compression ratio."""
SCHEMA: Final = "HUDI_PY_MAX_SCHEMA_FIELDS"
"""Maximum number of columns of a schema, counting members of nested columns each time their type is used."""
DEFAULTS: Final = {UNPACKED: 1 << 28, SCHEMA: 100_000}


def limit(name: str) -> int:
    """Returns the value of a limit.

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
    """Parses a JSON text. Raises ValueError, also if it nests too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
