"""Hudi tables in the session's catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from hudi_py.config import read as read_config
from hudi_py.expressions import literal
from hudi_py.schema import backticked
from pyspark_hudi.enabled import statements_are_sparks
from pyspark_hudi.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDERS = ("hudi", FORMAT)
_READ_OPTIMIZED = re.compile(r"hoodie\.query\.as\.ro\.table=true\b", re.IGNORECASE)
"""How Apache Hudi's registrations, and ours, mark a table to be read without its logs."""
_FACT = re.compile(r"^(Provider|Location|Storage Properties): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class CatalogEntry:
    """A Hudi table of the catalog."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict)


def entry_of(spark: SparkSession, name: str) -> CatalogEntry | None:
    """Returns the entry of a Hudi table, by name; None for other tables and views, and unknown names."""
    parts = [part.strip("`") for part in name.split(".")]
    if not 1 <= len(parts) <= 3 or not all(parts) or (len(parts) == 3 and parts[0].lower() != "spark_catalog"):
        return None
    facts = _catalog_facts(spark, parts[-2] if len(parts) > 1 else None, parts[-1])
    path = facts.get("Location", "")
    if facts.get("Provider", "").lower() not in PROVIDERS or not path:
        return None
    only_base = _READ_OPTIMIZED.search(facts.get("Storage Properties", ""))
    return CatalogEntry(path, {read_config.QUERY_TYPE.key: "read_optimized"} if only_base else {})


def _catalog_facts(spark: SparkSession, schema: str | None, table: str) -> dict[str, str]:
    """Returns what the catalog records about a table; nothing for a temporary view or an unknown name.

    Uses SHOW TABLE EXTENDED: DESCRIBE and `spark.catalog` look for the provider, fail if it is not installed, and show
    neither provider nor location of a Python source (Spark 4.3).
    """
    where = "" if schema is None else f" IN {backticked(schema)}"
    try:
        with statements_are_sparks():
            rows = spark.sql(f"SHOW TABLE EXTENDED{where} LIKE {literal(table)}").collect()
    except PySparkException:  # there is no such schema
        return {}
    tables = [row for row in rows if str(row["tableName"]).lower() == table.lower()]
    if len(tables) != 1 or tables[0]["isTemporary"]:  # a temporary view hides a table
        return {}
    return dict(_FACT.findall(str(tables[0]["information"])))
