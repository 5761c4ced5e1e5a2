"""Options of reads, in Python and through Spark (`DataSourceReadOptions` and `HoodieReaderConfig`, 1.2.0, and
hudi-py's own)."""

from __future__ import annotations

import json

from hudi_py.config.option import Scope, choice, declared, flag, integer, optional_choice, optional_text
from hudi_py.errors import ConfigError

QUERY_TYPE = choice(
    "hoodie.datasource.query.type",
    "Which rows a query returns: the newest (`snapshot`), those of the base files only (`read_optimized`), those that "
    "a range of commits wrote (`incremental`), or the changes in a range (`cdc`, the same as `incremental` with "
    "`hoodie.datasource.query.incremental.format=cdc`).",
    Scope.READ,
    "snapshot",
    ("snapshot", "read_optimized", "incremental", "cdc"),
    aliases=("hoodie.datasource.view.type",),
    not_built={"REALTIME": "it is the old name of snapshot"},
)
AS_OF_INSTANT = optional_text(
    "as.of.instant",
    "Time travel: the table as of this instant. `yyyyMMddHHmmss[SSS]`, `yyyy-MM-dd` or `yyyy-MM-dd HH:mm:ss[.SSS]`.",
    Scope.READ,
    example="2026-01-31 10:15:00",
)
MERGE_TYPE = choice(
    "hoodie.datasource.merge.type",
    "How a file slice's logs are combined with its base file: merged by key (`payload_combine`), or not merged "
    "(`skip_merge`), which returns base rows, then log rows, without deletes.",
    Scope.READ,
    "payload_combine",
    ("payload_combine", "skip_merge"),
)
CHANGELOG = flag(
    "changelog.enabled",
    "Whether to return every version in a file slice, including deletes, which `_hoodie_operation` marks; nothing is "
    "merged.",
    Scope.READ,
    False,
    aliases=("changelog.enable",),
)
KEYS = optional_text(
    "hoodie.py.read.keys",
    "Read only rows with these record keys (`_hoodie_record_key`): a JSON list of strings, or a single key.",
    Scope.READ,
    example='["a", "b"]',
)
COLUMNS = optional_text(
    "columns",
    "Comma-separated columns to read, in this order. Put names that contain a comma in backticks. Only these columns "
    "are read from the files.",
    Scope.READ,
    example="id,fare",
)
META_COLUMNS = flag(
    "hoodie.py.read.meta.columns",
    "Whether a read that names no columns returns the `_hoodie_*` columns too.",
    Scope.READ,
    True,
)
FILTER = optional_text(
    "filter",
    "A condition in a subset of Spark SQL, with the meaning of Spark 4's ANSI mode. Exactly the rows for which it is "
    "true are returned; partitions, files and row groups that cannot hold such rows are skipped. Times without a zone "
    "are in UTC when they are compared with a column that has one, regardless of the session's zone; `TIMESTAMP "
    "'2026-03-08 01:30:00-05:00'` names a zone.",
    Scope.READ,
    example="city = 'oslo' AND fare > 10",
)
BATCH_ROWS = integer(
    "hoodie.py.read.batch.rows",
    "Rows per Arrow batch that a read yields.",
    Scope.READ,
    131072,
    minimum=1,
    unit="rows",
)
SPLIT_BYTES = integer(
    "hoodie.py.read.split.bytes",
    "A file slice without logs is read in parts of about this size; a slice with logs is one part. Spark combines "
    "small slices, up to this size, in one task.",
    Scope.READ,
    128 * 1024 * 1024,
    minimum=1024 * 1024,
    unit="bytes",
)
OPEN_COST_BYTES = integer(
    "hoodie.py.read.open.cost.bytes",
    "The cost of opening a file slice, in bytes, when small slices are combined into one Spark task. A larger value "
    "gives fewer slices per task (like `spark.sql.files.openCostInBytes`).",
    Scope.READ,
    4 * 1024 * 1024,
    unit="bytes",
)
MIN_TASKS = integer(
    "hoodie.py.read.min.tasks",
    "Spark reads with at least this many tasks if there is enough to read; slices are divided and combined to achieve "
    "it (like `spark.sql.files.minPartitionNum`). 0: twice the number of processors of the planning machine, which is "
    "the driver.",
    Scope.READ,
    0,
    unit="tasks",
    example="64",
)
RECORD_MERGER = optional_text(
    "hoodie.py.record.merger",
    "Merges the records of a table whose merge mode is CUSTOM: `module:Class` names a Python class (see "
    "`hudi_py.merge.RecordMerger`), which every reading process must be able to import. Tables do not store it.",
    Scope.READ,
    example="mine.mergers:Latest",
)
DELETE_FIELD = optional_text(
    "hoodie.payload.delete.field",
    "Column that marks a row as deleted if its text is `hoodie.payload.delete.marker`; for tables that do not store "
    "this themselves.",
    Scope.BOTH,
    example="op",
)
DELETE_MARKER = optional_text(
    "hoodie.payload.delete.marker",
    "The text in `hoodie.payload.delete.field` that marks a delete.",
    Scope.BOTH,
    example="D",
)
DAMAGED = flag(
    "hoodie.py.read.damaged",
    "Whether a read continues, with a warning, if a log file or base file differs from what the completed commit that "
    "wrote it recorded: missing, too short, or with bytes that are not a log block. Rows may then be missing or "
    "outdated. Otherwise such a read fails with `CorruptFileError`.",
    Scope.READ,
    False,
)
BOOTSTRAP_SOURCES = optional_text(
    "hoodie.py.read.bootstrap.sources",
    "Comma-separated URIs of folders. A bootstrapped table names the files that it was made from; those of another "
    "store, bucket or host than the table's are read, with the table's credentials, only if they are below one of "
    "these. All must be below the table's `hoodie.bootstrap.base.path`.",
    Scope.READ,
    example="s3://raw/events",
)
MERGE_MEMORY = integer(
    "hoodie.memory.merge.max.size",
    "Memory for the logs of one file slice while they are merged; the rest goes to temporary files. The limit applies "
    "to each slice that is read at the same time.",
    Scope.READ,
    1024 * 1024 * 1024,
    minimum=1024 * 1024,
    unit="bytes",
)
FLINK_MERGE_MEMORY = integer(
    "compaction.max_memory",
    "As `hoodie.memory.merge.max.size`, in megabytes, under Flink's name; ignored if that is set.",
    Scope.READ,
    1024,
    minimum=1,
    unit="megabytes",
)
SPILL_FOLDER = optional_text(
    "hoodie.memory.spillable.map.path",
    "Folder for the temporary files of a merge, which removes them again. Default: the system's temporary folder.",
    Scope.READ,
    example="/var/tmp",
)

OPTIONS = declared(globals())


VIEW = optional_choice(
    "view",
    "Return a description of a table, or of a read, instead of rows: the newest file slices (`files`), the active "
    "timeline (`timeline`), completed writes (`commits`), what these wrote to each file (`written`, and "
    "`archived` of the archived timeline), their extra metadata (`extra`), the partitions (`partitions`), the table's "
    "properties "
    "(`properties`), the file slices that this read would take, and which of them Spark's own Parquet reader can take "
    "(`splits`), one row that explains the read (`plan`), the pending plans of table services (`plans`), the "
    "indexes in the metadata table (`indexes`), or, without a path, the libraries that Spark's Python has for hudi-py "
    "(`environment`).",
    Scope.READ,
    (
        "files",
        "timeline",
        "commits",
        "written",
        "archived",
        "extra",
        "partitions",
        "properties",
        "splits",
        "plan",
        "plans",
        "indexes",
        "environment",
    ),
)
PIN = optional_text(
    "hoodie.py.read.pin",
    "Reads the state and the file slices that an earlier plan saw: the column `pin` of the view `plan`. If Spark "
    "resolves a DataFrame again for each action, as Spark Connect does, all actions then see the same rows.",
    Scope.READ,
)
NATIVE = choice(
    "hoodie.py.read.native",
    "Whether `read_table`, and a load after `enable`, lets Spark's own Parquet reader read base files where it reads "
    "the same rows: never (`never`), wherever it can (`always`), or where that is also likely to be faster (`auto`), "
    "so not where the slices with logs are small, or logs several times as large as the base file. If the read has "
    "storage options, it does not, because Spark's reader does not get them.",
    Scope.READ,
    "auto",
    ("auto", "always", "never"),
)
REPLACED = flag(
    "hoodie.py.read.replaced",
    "Returns, instead of rows, which rows of base files the logs replace or delete. Set by `read_table` of "
    "`pyspark_hudi`, with a pin.",
    Scope.READ,
    False,
    internal=True,
)

SPARK_OPTIONS = declared(globals(), OPTIONS)


def column_names(text: str | None) -> list[str] | None:
    """Parses the names in a value of `columns`; names in backticks may contain commas. None if it is not set."""
    if text is None:
        return None
    names, name, quoted = [], "", False
    for char in text + ",":
        if char == "`":
            quoted = not quoted
        elif char == "," and not quoted:
            names.append(name.strip())
            name = ""
        else:
            name += char
    if quoted:
        raise ConfigError(f"Option {COLUMNS.key} = '{text}' is not valid: a backtick is not closed")
    return [name for name in names if name]


def bootstrap_folders(text: str | None) -> tuple[str, ...]:
    """Returns the folders of other stores from which sources of a bootstrapped table may be read."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def record_keys(text: str | None) -> list[str] | None:
    """Parses the keys in a value of `hoodie.py.read.keys`; None if it is not set."""
    if text is None:
        return None
    if not text.startswith("["):
        return [text]
    try:
        keys = json.loads(text)
    except (ValueError, RecursionError):
        keys = None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ConfigError(f"Option {KEYS.key} = '{text}' is not valid: expected a JSON list of strings, or one key")
    return keys
