"""Entries of the session's catalog that are Hudi tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from hudi_py.config import read as read_config
from pyspark_hudi.dialect.text import quoted
from pyspark_hudi.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDERS = ("hudi", FORMAT)
_READ_OPTIMIZED = re.compile(r"hoodie\.query\.as\.ro\.table=true\b", re.IGNORECASE)
"""How Apache Hudi's registrations, and ours, say that a table is to be read without its logs."""
_FACT = re.compile(r"^(Provider|Location|Storage Properties): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A Hudi table of the catalog."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict)


def entry_of(spark: SparkSession, name: str) -> Entry | None:
    """The entry of a Hudi table, by its name; None for other tables and views, and for names of nothing."""
    parts = [part.strip("`") for part in name.split(".")]
    if not 1 <= len(parts) <= 3 or not all(parts):
        return None
    facts = _described(spark, parts)
    path = facts.get("Location", "")
    if facts.get("Provider", "").lower() not in PROVIDERS or not path:
        return None
    only_base = _READ_OPTIMIZED.search(facts.get("Storage Properties", ""))
    return Entry(path, {read_config.QUERY_TYPE.key: "read_optimized"} if only_base else {})


def _described(spark: SparkSession, parts: list[str]) -> dict[str, str]:
    """Facts about a table, none for a name of nothing. DESCRIBE fails where the provider is not installed, which
    SHOW TABLE EXTENDED does not look for."""
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {'.'.join(map(quoted, parts))}").collect()
        return {str(row["col_name"]): str(row["data_type"]) for row in rows}
    except PySparkException:
        pass
    schema, table = parts[-2:] if len(parts) > 1 else ("", parts[-1])
    where = f" IN {quoted(schema)}" if schema else ""
    pattern = table.replace("'", "\\'")
    try:
        rows = spark.sql(f"SHOW TABLE EXTENDED{where} LIKE '{pattern}'").collect()
    except PySparkException:
        return {}
    texts = [str(row["information"]) for row in rows if str(row["tableName"]).lower() == table.lower()]
    return dict(_FACT.findall(texts[0])) if texts else {}
