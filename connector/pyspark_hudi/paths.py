"""Paths of tables as they come through Spark."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from hudi_py.errors import ConfigError


def checked_path(path: object, purpose: str) -> str:
    """A table's path which means the same in every process; `~` is the home of the user Spark runs as.

    Raises:
        ConfigError: it is missing or relative.
    """
    text = str(path).strip() if path is not None else ""
    if not text:
        how = "load(path)" if purpose == "read" else "save(path)"
        raise ConfigError(
            f"Cannot {purpose} a Hudi table without its path: give {how}, or in SQL the table WITH (path = '...'), "
            "since Spark does not hand a catalog table's location on"
        )
    if not urlsplit(text).scheme and not text.startswith(("/", "~")):
        raise ConfigError(
            f"Cannot {purpose} the relative path '{text}': Spark runs the source in a folder of its own; give an "
            "absolute path or a URI"
        )
    return os.path.expanduser(text)
