"""Options that show a table to other systems: registration with catalogs, and Iceberg metadata.

`HoodieSyncConfig`, `HiveSyncConfig` and `GlueCatalogSyncClientConfig`, 1.2.0; those of Iceberg are hudi-py's own.
"""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import (
    Option,
    Scope,
    choice,
    declared,
    flag,
    integer,
    names,
    optional_choice,
    optional_text,
    text,
)

HMS: Final = "hms"
GLUE: Final = "glue"
POLARIS: Final = "polaris"
UNITY: Final = "unity"
CATALOGS: Final = (HMS, GLUE, POLARIS, UNITY)
_HIVE: Final = "hoodie.datasource.hive_sync."
_GLUE: Final = "hoodie.datasource.meta.sync.glue."
_JDBC: Final = "hudi-py has no JDBC: name the metastore's Thrift service in hoodie.datasource.hive_sync.metastore.uris"
_TOOLS: Final = {
    "org.apache.hudi.hive.HiveSyncTool": HMS,
    "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool": GLUE,
    "org.apache.hudi.aws.sync.AWSGlueCatalogSyncTool": GLUE,
}
EXTRACTORS: Final = tuple(
    f"org.apache.hudi.hive.{name}"
    for name in (
        "MultiPartKeysValueExtractor",
        "SinglePartPartitionValueExtractor",
        "HiveStylePartitionValueExtractor",
        "SlashEncodedDayPartitionValueExtractor",
        "SlashEncodedHourPartitionValueExtractor",
        "NonPartitionedExtractor",
    )
)


def _parse_tools(value: str) -> tuple[str, ...]:
    """Maps Apache Hudi's sync classes to the names of catalogs."""
    given = [part.strip() for part in value.split(",") if part.strip()]
    unknown = [name for name in given if name not in _TOOLS]
    if unknown:
        raise ValueError(f"one of {', '.join(_TOOLS)}, or several, separated by commas; found {unknown[0]}")
    return tuple(dict.fromkeys(_TOOLS[name] for name in given))


def _parse_catalogs(value: str) -> tuple[str, ...]:
    given = [part.strip().lower() for part in value.split(",") if part.strip()]
    unknown = [name for name in given if name not in CATALOGS]
    if unknown:
        raise ValueError(f"one of {', '.join(CATALOGS)}, or several, separated by commas; found {unknown[0]}")
    return tuple(dict.fromkeys(given))


ENABLED = flag(
    f"{_HIVE}enable",
    "Whether the table is registered after each commit: with the Hive metastore, or the catalogs of "
    "`hoodie.py.sync.catalogs`. See [catalogs](catalogs.md).",
    Scope.SERVICE,
    False,
)
META_ENABLED = flag("hoodie.datasource.meta.sync.enable", f"The same as `{_HIVE}enable`.", Scope.SERVICE, False)
CHOSEN: Option[tuple[str, ...]] = Option(
    "hoodie.py.sync.catalogs",
    "comma-separated list",
    _parse_catalogs,
    (),
    "The catalogs to register with: `hms`, `glue`, `polaris` and `unity`. Default: those of "
    f"`hoodie.meta.sync.client.tool.class` and `{_HIVE}mode`, else `hms`.",
    Scope.SERVICE,
    example="hms,polaris",
)
TOOLS: Option[tuple[str, ...]] = Option(
    "hoodie.meta.sync.client.tool.class",
    "comma-separated list",
    _parse_tools,
    (),
    "Apache Hudi's classes for `hms` and `glue`: `org.apache.hudi.hive.HiveSyncTool`, "
    "`org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool`.",
    Scope.SERVICE,
    example="org.apache.hudi.hive.HiveSyncTool",
)
MODE = optional_choice(
    f"{_HIVE}mode",
    "How the Hive metastore is reached: `hms`, by its Thrift service (the default; in Apache Hudi it is `jdbc`). "
    "`glue` registers with AWS Glue instead.",
    Scope.SERVICE,
    (HMS, GLUE),
    not_built={"JDBC": _JDBC, "HIVEQL": _JDBC},
)
IGNORE_FAILURES = flag(
    f"{_HIVE}ignore_exceptions",
    "Whether a registration that fails after a commit is a warning. `false`: an error, although the write is "
    "committed. Apache Hudi's default is `false`.",
    Scope.SERVICE,
    True,
)
METASTORE = names(
    f"{_HIVE}metastore.uris",
    "Thrift services of the Hive metastore, as `thrift://host:port`; the first that answers is used. Default: "
    "`thrift://localhost:9083`.",
    Scope.SERVICE,
    example="thrift://metastore:9083",
)
DATABASE = optional_text(
    f"{_HIVE}database",
    "Database of the registered table, or for Polaris its namespace, or for Unity its schema. Default: that of the "
    "table's properties, else `default`.",
    Scope.SERVICE,
    example="lake",
)
TABLE = optional_text(
    f"{_HIVE}table",
    "Name of the registered table. Default: that of the table's properties.",
    Scope.SERVICE,
    example="trips",
)
PARTITION_FIELDS = names(
    f"{_HIVE}partition_fields",
    "Partition columns of the registered table. Default: those of the table.",
    Scope.SERVICE,
    example="city",
)
EXTRACTOR = optional_choice(
    f"{_HIVE}partition_extractor_class",
    "How the values of the partition columns are taken from the path of a partition. Default: as the table's "
    "partitioning requires: none, one value, one `column=value`, a date `yyyy/MM/dd`, or one value for each folder.",
    Scope.SERVICE,
    EXTRACTORS,
)
CREATE_DATABASE = flag(
    f"{_HIVE}auto_create_database", "Whether a database that does not exist is created.", Scope.SERVICE, True
)
SKIP_RO_SUFFIX = flag(
    f"{_HIVE}skip_ro_suffix",
    "Merge on read: whether the read-optimized table has the table's own name, without `_ro`.",
    Scope.SERVICE,
    False,
)
STRATEGY = choice(
    f"{_HIVE}table.strategy",
    "Merge on read: which tables are registered. `ALL`: `<name>_ro`, `<name>_rt` and `<name>`; `RO`, `RT`: only "
    "`<name>`, read-optimized or as a snapshot.",
    Scope.SERVICE,
    "ALL",
    ("ALL", "RO", "RT"),
)
PLAIN_NAME = flag(
    "hoodie.meta.sync.sync_snapshot_with_table_name",
    "Merge on read, strategy `ALL`: whether `<name>` is registered as well, as a snapshot.",
    Scope.SERVICE,
    True,
)
TIMESTAMPS = flag(
    f"{_HIVE}support_timestamp",
    "Whether timestamps have the type `timestamp` in the columns for Hive, instead of `bigint`. Spark takes its types "
    "from the table's parameters.",
    Scope.SERVICE,
    False,
)
TABLE_PROPERTIES = optional_text(
    f"{_HIVE}table_properties",
    "More parameters of the table, one `key=value` on each line.",
    Scope.SERVICE,
    example="owner=data",
)
SERDE_PROPERTIES = optional_text(
    f"{_HIVE}serde_properties",
    "More parameters of its serde, one `key=value` on each line.",
    Scope.SERVICE,
    example="owner=data",
)
FOR_SPARK = flag(
    f"{_HIVE}sync_as_datasource",
    "Whether the parameters tell Spark the provider `hudi` and the table's path and schema.",
    Scope.SERVICE,
    True,
)
SCHEMA_PART = integer(
    f"{_HIVE}schema_string_length_thresh",
    "Length of the parameters that hold the parts of Spark's schema.",
    Scope.SERVICE,
    4000,
    minimum=1,
    unit="characters",
)
SPARK_VERSION = text(
    "hoodie.meta_sync.spark.version",
    "Stored as `spark.sql.create.version`, if it is set.",
    Scope.SERVICE,
    "",
    example="3.5.1",
)
MANAGED = flag(
    f"{_HIVE}create_managed_table",
    "Whether the table is registered as one whose files the catalog deletes when it is dropped.",
    Scope.SERVICE,
    False,
)
OMIT_META = flag(f"{_HIVE}omit_metadata_fields", "Whether to leave out the columns `_hoodie_*`.", Scope.SERVICE, False)
BATCH = integer(
    f"{_HIVE}batch_num",
    "Number of partitions that one request to the Hive metastore adds.",
    Scope.SERVICE,
    1000,
    minimum=1,
)
COMMENTS = flag(f"{_HIVE}sync_comment", "Whether the comments of columns are registered.", Scope.SERVICE, False)
RECREATE = flag(
    f"{_HIVE}recreate_table_on_error",
    "Whether a table that the Hive metastore refuses to change, because of incompatible types or partitions, is "
    "dropped and registered again. Its files stay.",
    Scope.SERVICE,
    False,
)
INCREMENTAL = flag(
    "hoodie.meta.sync.incremental",
    "Whether only the partitions are registered that were written since the last time. `false`: all are compared.",
    Scope.SERVICE,
    True,
)
NO_PARTITIONS = flag(
    "hoodie.meta.sync.no_partition_metadata", "Whether no partitions are registered.", Scope.SERVICE, False
)
TOUCH = flag(
    "hoodie.meta.sync.touch.partitions.enabled",
    "Whether partitions that were written, and are registered already, are stored again, so that their time shows it.",
    Scope.SERVICE,
    False,
)
CONDITIONAL = flag(
    "hoodie.datasource.meta_sync.condition.sync",
    "Whether the time of the last registration is stored only if columns, parameters or partitions have changed.",
    Scope.SERVICE,
    False,
)

GLUE_DATABASE = optional_text(
    f"{_GLUE}database_name", f"AWS Glue: the database instead of `{_HIVE}database`.", Scope.SERVICE, example="lake"
)
GLUE_TABLE = optional_text(
    f"{_GLUE}table_name", f"AWS Glue: the name instead of `{_HIVE}table`.", Scope.SERVICE, example="trips"
)
GLUE_CATALOG = optional_text(
    f"{_GLUE}catalogId", "AWS Glue: the catalog. Default: that of the account.", Scope.SERVICE, example="123456789012"
)
GLUE_SKIP_ARCHIVE = flag(
    f"{_GLUE}skip_table_archive", "AWS Glue: whether changes keep no older version of the entry.", Scope.SERVICE, True
)
GLUE_LISTING = flag(
    f"{_GLUE}metadata_file_listing",
    "AWS Glue: whether Athena lists files from the metadata table (`hudi.metadata-listing-enabled`).",
    Scope.SERVICE,
    False,
)
GLUE_RECREATE = flag(
    f"{_GLUE}recreate_table_on_error", f"AWS Glue: as `{_HIVE}recreate_table_on_error`.", Scope.SERVICE, False
)
GLUE_REGION = optional_text(
    "hoodie.aws.glue.region",
    "AWS Glue: the region. Default: that of the environment.",
    Scope.SERVICE,
    example="eu-west-1",
)
GLUE_ENDPOINT = optional_text(
    "hoodie.aws.glue.endpoint",
    "AWS Glue: another endpoint.",
    Scope.SERVICE,
    example="https://glue.eu-west-1.amazonaws.com",
)

POLARIS_URI = optional_text(
    "hoodie.py.sync.polaris.uri",
    "Polaris: its address, such as `http://localhost:8181/api/catalog`. Credentials are in the environment: "
    "`HUDI_PY_POLARIS_TOKEN`, or `HUDI_PY_POLARIS_CREDENTIAL` as `id:secret`.",
    Scope.SERVICE,
    example="https://polaris:8181",
)
POLARIS_CATALOG = optional_text(
    "hoodie.py.sync.polaris.catalog", "Polaris: the name of the catalog.", Scope.SERVICE, example="lake"
)
UNITY_URI = optional_text(
    "hoodie.py.sync.unity.uri",
    "Unity Catalog: its address, such as `http://localhost:8080`. A token is in the environment, as "
    "`HUDI_PY_UNITY_TOKEN`.",
    Scope.SERVICE,
    example="https://unity:8080",
)
UNITY_CATALOG = optional_text(
    "hoodie.py.sync.unity.catalog", "Unity Catalog: the name of the catalog.", Scope.SERVICE, example="lake"
)

CATALOG_OPTIONS = declared(globals())


ICEBERG_ENABLED = flag(
    "hoodie.py.iceberg.enable",
    "Whether the table is published as an Iceberg table after each commit and after services that run on demand. If a "
    "publication fails, a warning is logged, and the next one catches up.",
    Scope.SERVICE,
    False,
)
ICEBERG_CATALOG = optional_text(
    "hoodie.py.iceberg.catalog",
    "Name of the pyiceberg catalog to publish to, as in `.pyiceberg.yaml` or `PYICEBERG_CATALOG__<NAME>__...`, which "
    "also have its credentials. Not set: no catalog; the metadata is found by the table's path.",
    Scope.SERVICE,
    example="lake",
)
ICEBERG_CATALOG_PROPERTIES = names(
    "hoodie.py.iceberg.catalog.properties",
    "Further properties of that catalog, `key=value,...`. Not for credentials: options may be logged by others.",
    Scope.SERVICE,
    example="warehouse=s3://lake",
)
ICEBERG_TABLE = optional_text(
    "hoodie.py.iceberg.table",
    "Name of the table in that catalog, `namespace.table`. The namespace must exist.",
    Scope.SERVICE,
    example="travel.trips",
)
ICEBERG_BASE_FILES_ONLY = flag(
    "hoodie.py.iceberg.base.files.only",
    "Whether Iceberg sees only the base files of merge-on-read tables, that is the rows of a read-optimized query. "
    "Otherwise changes in logs are published too, which copies the rows in logs.",
    Scope.SERVICE,
    False,
)
ICEBERG_LOCATION = optional_text(
    "hoodie.py.iceberg.location",
    "The table's path as Iceberg engines know it, if it differs from the path that is used to write it, such as "
    "`abfss://container@account.dfs.core.windows.net/trips`.",
    Scope.SERVICE,
    example="s3://lake/trips",
)
ICEBERG_SNAPSHOTS = integer(
    "hoodie.py.iceberg.snapshots.max",
    "Snapshots that are kept for time travel, if their files have not been cleaned.",
    Scope.SERVICE,
    100,
    minimum=1,
)

ICEBERG_OPTIONS = declared(globals(), CATALOG_OPTIONS)
