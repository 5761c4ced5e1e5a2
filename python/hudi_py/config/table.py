"""Options that become table properties when the table is created, and are compared with them afterwards
(`DataSourceWriteOptions`, `HoodieTableConfig`, 1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Option, Scope, choice, declared, flag, names, optional_choice, optional_text, text
from hudi_py.model import properties

_MODEL = "org.apache.hudi.common.model."
_KEYGEN = "org.apache.hudi.keygen."
_NO_KEYGEN = "this key generator is not implemented yet"
_DATES = "hoodie.keygen.timebased."
_OLD_DATES = "hoodie.deltastreamer.keygen.timebased."
_NO_MODE = "custom mergers and payloads are not implemented yet"


def _parse_version(value: str) -> int:
    if value.strip() not in ("6", "8", "9"):
        raise ValueError("one of 6, 8, 9")
    return int(value)


TABLE_NAME = optional_text(
    "hoodie.table.name",
    "Name of a new table. Default: the last part of its path.",
    Scope.TABLE,
    aliases=("hoodie.datasource.write.table.name",),
    example="trips",
)
DATABASE_NAME = optional_text("hoodie.database.name", "Database of a new table.", Scope.TABLE, example="lake")
TABLE_TYPE = choice(
    "hoodie.datasource.write.table.type",
    "Whether an update rewrites base files or appends to logs.",
    Scope.TABLE,
    "COPY_ON_WRITE",
    ("COPY_ON_WRITE", "MERGE_ON_READ"),
    aliases=("hoodie.datasource.write.storage.type", "hoodie.table.type"),
)
TABLE_VERSION: Option[int] = Option(
    "hoodie.write.table.version",
    "choice",
    _parse_version,
    9,
    "Version of a new table. An existing table keeps its version.",
    Scope.TABLE,
    aliases=("hoodie.table.version",),
    choices=("6", "8", "9"),
)
RECORD_KEY = names(
    "hoodie.datasource.write.recordkey.field",
    "Columns, or fields of structs as `a.b`, that make up the record key. Without any, each row that is inserted gets "
    "a key of its own.",
    Scope.TABLE,
    aliases=("hoodie.table.recordkey.fields",),
    example="id",
)
PARTITION_PATH = names(
    "hoodie.datasource.write.partitionpath.field",
    "Columns, or fields of structs as `a.b`, that make up the partition path; empty for a table without partitions. "
    "With the key generator CUSTOM, each with its type, `city:SIMPLE,ts:TIMESTAMP`.",
    Scope.TABLE,
    aliases=("hoodie.table.partition.fields",),
    example="city",
)
ORDERING = names(
    "hoodie.table.ordering.fields",
    "Columns that decide which row of a key is the newest, with event-time ordering.",
    Scope.TABLE,
    aliases=("hoodie.datasource.write.precombine.field", "hoodie.table.precombine.field"),
    example="ts",
)
KEYGEN_CLASS = optional_choice(
    "hoodie.datasource.write.keygenerator.class",
    "How record key and partition path are formed. Default: by the number of columns.",
    Scope.TABLE,
    tuple(
        f"{_KEYGEN}{stem}{infix}KeyGenerator"
        for stem in ("Simple", "Complex", "Nonpartitioned", "TimestampBased", "Custom")
        for infix in ("", "Avro")
    ),
    aliases=("hoodie.table.keygenerator.class",),
    not_built={
        f"{_KEYGEN}{stem}{infix}KeyGenerator".upper(): _NO_KEYGEN
        for stem in ("GlobalDelete", "AutoRecordGen")
        for infix in ("", "Avro")
    },
)
KEYGEN_TYPE = optional_choice(
    "hoodie.datasource.write.keygenerator.type",
    "How record key and partition path are formed, by a short name instead of the class.",
    Scope.TABLE,
    tuple(
        f"{stem}{suffix}"
        for suffix in ("", "_AVRO")
        for stem in ("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM")
    ),
    aliases=("hoodie.table.keygenerator.type",),
    not_built=dict.fromkeys(
        (
            "GLOBAL_DELETE",
            "GLOBAL_DELETE_AVRO",
            "USER_PROVIDED",
            "SPARK_SQL",
            "AUTO_RECORD",
        ),
        _NO_KEYGEN,
    ),
)
HIVE_STYLE = flag(
    "hoodie.datasource.write.hive_style_partitioning",
    "Whether partition folders are named `column=value`.",
    Scope.TABLE,
    False,
)
URL_ENCODE = flag(
    "hoodie.datasource.write.partitionpath.urlencode",
    "Whether partition values are URL-encoded in folder names.",
    Scope.TABLE,
    False,
)
SLASHED_DATES = flag(
    properties.SLASHED_DATES,
    "Whether partitions `yyyy-MM-dd` of a single string column have the paths `yyyy/MM/dd`.",
    Scope.TABLE,
    False,
)
DATE_TYPE = optional_text(
    _DATES + "timestamp.type",
    "Key generators TIMESTAMP and CUSTOM: the kind of values in the partition column. UNIX_TIMESTAMP (seconds), "
    "EPOCHMILLISECONDS, EPOCHMICROSECONDS, SCALAR (numbers of another unit), DATE_STRING or MIXED (texts).",
    Scope.TABLE,
    aliases=(_OLD_DATES + "timestamp.type",),
    example="EPOCHMILLISECONDS",
)
DATE_UNIT = optional_text(
    _DATES + "timestamp.scalar.time.unit",
    "With SCALAR: NANOSECONDS, MICROSECONDS, MILLISECONDS, SECONDS (the default), MINUTES, HOURS or DAYS.",
    Scope.TABLE,
    aliases=(_OLD_DATES + "timestamp.scalar.time.unit",),
    example="HOURS",
)
DATE_INPUT_FORMAT = optional_text(
    _DATES + "input.dateformat",
    "With DATE_STRING and MIXED: patterns of the texts, in Joda-Time's letters. The first one that fits a text counts.",
    Scope.TABLE,
    aliases=(_OLD_DATES + "input.dateformat",),
    example="yyyy-MM-dd,yyyyMMdd",
)
DATE_INPUT_DELIMITER = optional_text(
    _DATES + "input.dateformat.list.delimiter.regex",
    "What separates the patterns of texts, as a regular expression. Default: a comma.",
    Scope.TABLE,
    aliases=(_OLD_DATES + "input.dateformat.list.delimiter.regex",),
    example=";",
)
DATE_INPUT_ZONE = optional_text(
    _DATES + "input.timezone",
    "Time zone of texts without one of their own. Default: that of the process that plans the write.",
    Scope.TABLE,
    aliases=(_OLD_DATES + "input.timezone",),
    example="Europe/Oslo",
)
DATE_OUTPUT_FORMAT = optional_text(
    _DATES + "output.dateformat",
    "Pattern of partition paths, in Joda-Time's letters, such as `yyyy/MM/dd`.",
    Scope.TABLE,
    aliases=(_OLD_DATES + "output.dateformat",),
    example="yyyy/MM/dd",
)
DATE_OUTPUT_ZONE = optional_text(
    _DATES + "output.timezone",
    "Time zone of partition paths. Default: that of the text; of numbers, that of the process that plans the write.",
    Scope.TABLE,
    aliases=(_OLD_DATES + "output.timezone",),
    example="UTC",
)
DATE_ZONE = optional_text(
    _DATES + "timezone",
    "Time zone of both texts and partition paths; takes precedence over the other two.",
    Scope.TABLE,
    aliases=(_OLD_DATES + "timezone",),
    example="UTC",
)
TIMESTAMPS_AS_TEXT = flag(
    properties.CONSISTENT_TIMESTAMPS,
    "Whether timestamps in record keys are texts such as `2024-02-29 12:00:00.5`, in milliseconds and the time zone of "
    "the process that plans the write, instead of numbers of microseconds. Tables do not store it: needed with each "
    "write.",
    Scope.TABLE,
    False,
)
COMPLEX_NEW_ENCODING = flag(
    "hoodie.write.complex.keygen.new.encoding",
    "Complex key generator with one key column, tables before version 9: whether the key is only the value instead of "
    "`column:value`.",
    Scope.WRITE,
    False,
)
MERGE_MODE = optional_choice(
    "hoodie.write.record.merge.mode",
    "Which of two rows with the same key wins: the one written later, or the one with the greater ordering value. "
    "Default: event time if there is an ordering column.",
    Scope.TABLE,
    ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"),
    aliases=("hoodie.record.merge.mode",),
    not_built={"CUSTOM": _NO_MODE},
)
MERGE_STRATEGY_ID = optional_choice(
    "hoodie.write.record.merge.strategy.id",
    "How two rows with the same key are merged, by the id of the merger instead of the mode.",
    Scope.TABLE,
    ("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"),
    aliases=(
        "hoodie.datasource.write.record.merger.strategy",
        "hoodie.record.merge.strategy.id",
        "hoodie.compaction.record.merger.strategy",
    ),
    not_built=dict.fromkeys(("00000000-0000-0000-0000-000000000000", "1897EF5F-18BC-4557-939C-9D6A8AFD1519"), _NO_MODE),
)
PAYLOAD_CLASS = optional_choice(
    "hoodie.datasource.write.payload.class",
    "How two rows with the same key are merged, by an old payload class instead of the mode. Some fold two rows into "
    "one: `PartialUpdateAvroPayload` and `OverwriteNonDefaultsWithLatestAvroPayload` keep old values where new ones "
    "are null, `PostgresDebeziumAvroPayload` where the source has not sent them; `AWSDmsAvroPayload` and those of "
    "Debezium recognise deletes by a column. Tables of version 9 store the merge mode that corresponds to the class.",
    Scope.TABLE,
    tuple(
        _MODEL + name
        for name in (
            "OverwriteWithLatestAvroPayload",
            "DefaultHoodieRecordPayload",
            "EventTimeAvroPayload",
            "PartialUpdateAvroPayload",
            "OverwriteNonDefaultsWithLatestAvroPayload",
            "AWSDmsAvroPayload",
            "debezium.PostgresDebeziumAvroPayload",
            "debezium.MySqlDebeziumAvroPayload",
        )
    ),
    aliases=("hoodie.compaction.payload.class",),
    not_built={(_MODEL + "ExpressionPayload").upper(): "Apache Hudi uses it within its MERGE only"},
)
PARTIAL_UPDATE_MODE = optional_choice(
    "hoodie.table.partial.update.mode",
    "Tables of version 9: which values of the row that wins are taken from the other one. IGNORE_DEFAULTS: nulls. "
    "FILL_UNAVAILABLE: texts equal to `hoodie.write.partial.update.unavailable.value`.",
    Scope.TABLE,
    ("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
)
UNAVAILABLE_VALUE = text(
    "hoodie.write.partial.update.unavailable.value",
    "The text that replaces a value that the source did not send; needs the mode FILL_UNAVAILABLE.",
    Scope.TABLE,
    "__debezium_unavailable_value",
    aliases=("hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value",),
    example="__missing__",
)
BASE_FILE_FORMAT = choice(
    "hoodie.table.base.file.format",
    "Format of base files.",
    Scope.TABLE,
    "PARQUET",
    ("PARQUET", "ORC", "LANCE"),
    aliases=("hoodie.base.file.format", "hoodie.table.ro.file.format"),
    not_built={"HFILE": "only Parquet, ORC and Lance base files are written"},
)
META_FIELDS = flag(
    "hoodie.populate.meta.fields",
    "Whether files have the columns `_hoodie_*`. Without them, files are smaller and rows are found by the columns of "
    "the record key; incremental queries, record indexes and bloom filters need them. Fixed when the table is "
    "created.",
    Scope.TABLE,
    True,
)
DROP_PARTITION_COLUMNS = flag(
    "hoodie.datasource.write.drop.partition.columns",
    "Whether files lack the partition columns, whose values are then the texts in partition paths. Fixed when the "
    "table is created.",
    Scope.TABLE,
    False,
)
METAFILES_IN_BASE_FORMAT = flag(
    "hoodie.partition.metafile.use.base.format",
    "Whether the file that marks the folder of a partition is a Parquet file instead of a text file. Fixed when the "
    "table is created.",
    Scope.TABLE,
    False,
)
CDC_ENABLED = flag(
    "hoodie.table.cdc.enabled",
    "Change data capture: whether writes log the rows they change, for queries of changes.",
    Scope.TABLE,
    False,
)
CDC_MODE = choice(
    "hoodie.table.cdc.supplemental.logging.mode",
    "What is logged about a changed row besides its key: nothing, the row before the change, or the rows before and "
    "after it. Queries look up the rest.",
    Scope.TABLE,
    "DATA_BEFORE_AFTER",
    ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"),
)
TIMEZONE = choice(
    "hoodie.table.timeline.timezone",
    "Time zone of a new table's instants: the zone of the writing process, or UTC.",
    Scope.TABLE,
    "LOCAL",
    ("LOCAL", "UTC"),
)

OPTIONS = declared(globals())
DATE_OPTIONS = tuple(option for option in OPTIONS if option.key.startswith(_DATES))
"""Options of key generators that format dates."""
