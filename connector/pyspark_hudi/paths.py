"""Checks the table path that Spark passes."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from hudi_py.errors import ConfigError


def checked_path(path: object, purpose: str) -> str:
    """Returns a table's path, the same in every process; `~` is the home of the user who runs Spark.

    Raises:
        ConfigError: the path is missing or relative.
    """
    text = str(path).strip() if path is not None else ""
    if not text and purpose == "stream":
        raise ConfigError(
            "Cannot stream into a Hudi table without its path: give start(path). Spark does not pass a catalog table's "
            "location to Python data sources, so toTable cannot be used"
        )
    if not text:
        how, statement = ("load(path)", "FROM t") if purpose == "read" else ("save(path)", "INSERT INTO t")
        raise ConfigError(
            f"Cannot {purpose} a Hudi table without its path: give {how}. Spark does not pass a catalog table's "
            f"location to Python data sources, so in SQL write {statement} WITH (path = '...'), or use "
            "pyspark_hudi.register_sql(spark, name, path); after pyspark_hudi.enable(spark), queries find it themselves"
        )
    if not urlsplit(text).scheme and not text.startswith(("/", "~")):
        what = "stream into" if purpose == "stream" else purpose
        raise ConfigError(
            f"Cannot {what} the relative path '{text}': Spark runs the source in another folder; give an absolute "
            "path or a URI"
        )
    return os.path.expanduser(text)
