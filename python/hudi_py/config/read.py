"""Options of reads (`DataSourceReadOptions`, `HoodieReaderConfig`, 1.2.0), and those of hudi-py alone."""

from __future__ import annotations

import json

from hudi_py.config.option import Scope, choice, flag, integer, optional_text
from hudi_py.errors import ConfigError

_SINCE = "0.1.0"

QUERY_TYPE = choice(
    "hoodie.datasource.query.type",
    "Which rows a query sees: the newest (`snapshot`), those of the base files alone (`read_optimized`), those which "
    "the commits of a range wrote (`incremental`), or the changes of a range (`cdc`, which is `incremental` with "
    "`hoodie.datasource.query.incremental.format=cdc`).",
    Scope.READ,
    "snapshot",
    ("snapshot", "read_optimized", "incremental", "cdc"),
    aliases=("hoodie.datasource.view.type",),
    not_built={"REALTIME": "it is the old name of snapshot"},
    since=_SINCE,
)
AS_OF_INSTANT = optional_text(
    "as.of.instant",
    "Time travel: the table as of this instant. `yyyyMMddHHmmss[SSS]`, `yyyy-MM-dd` or `yyyy-MM-dd HH:mm:ss[.SSS]`.",
    Scope.READ,
    since=_SINCE,
)
MERGE_TYPE = choice(
    "hoodie.datasource.merge.type",
    "How the logs of a file slice are brought together with its base file: merged by key (`payload_combine`), or not "
    "at all (`skip_merge`): base rows, then log rows, without those of deletes.",
    Scope.READ,
    "payload_combine",
    ("payload_combine", "skip_merge"),
    since=_SINCE,
)
CHANGELOG = flag(
    "changelog.enabled",
    "Whether every version in a file slice is returned, deletes among them, told by `_hoodie_operation`; nothing is "
    "merged.",
    Scope.READ,
    False,
    aliases=("changelog.enable",),
    since=_SINCE,
)
KEYS = optional_text(
    "hoodie.py.read.keys",
    "Only rows with these record keys (`_hoodie_record_key`): a JSON list of texts, or one key as it is.",
    Scope.READ,
    since=_SINCE,
)
COLUMNS = optional_text(
    "columns",
    "Comma-separated columns to read, in this order; a name with a comma is put in backticks. Files are read for these "
    "columns only.",
    Scope.READ,
    since=_SINCE,
)
FILTER = optional_text(
    "filter",
    "A condition in a subset of Spark SQL, which means what it does in Spark 4's ANSI mode. Only rows for which it is "
    "true are returned, exactly; partitions, files and row groups that cannot hold such rows are not read. Times that "
    "name no zone are in UTC where a column with one is compared with them, whatever the session's zone: "
    "`TIMESTAMP '2026-03-08 01:30:00-05:00'` names one.",
    Scope.READ,
    since=_SINCE,
)
BATCH_ROWS = integer(
    "hoodie.py.read.batch.rows",
    "Rows of one Arrow batch which a read yields.",
    Scope.READ,
    131072,
    minimum=1,
    unit="rows",
    since=_SINCE,
)
SPLIT_BYTES = integer(
    "hoodie.py.read.split.bytes",
    "A file slice without logs is read in pieces of about this size; a slice with logs is one piece. Spark reads small "
    "slices together, up to this size, in one task.",
    Scope.READ,
    128 * 1024 * 1024,
    minimum=1024 * 1024,
    unit="bytes",
    since=_SINCE,
)
OPEN_COST_BYTES = integer(
    "hoodie.py.read.open.cost.bytes",
    "What opening a file slice counts for, in bytes, when small ones are put together for one task of Spark: the "
    "larger, the fewer slices a task gets (as `spark.sql.files.openCostInBytes`).",
    Scope.READ,
    4 * 1024 * 1024,
    unit="bytes",
    since=_SINCE,
)
MIN_TASKS = integer(
    "hoodie.py.read.min.tasks",
    "Spark reads with no fewer tasks than these where there is enough to read; slices are divided and put together for "
    "that (as `spark.sql.files.minPartitionNum`). 0: twice the number of processors of the machine that plans, which "
    "is the driver's.",
    Scope.READ,
    0,
    unit="tasks",
    since=_SINCE,
)
RECORD_MERGER = optional_text(
    "hoodie.py.record.merger",
    "Merges the records of a table whose merge mode is CUSTOM: `module:Class` of a class in Python (see "
    "`hudi_py.merge.RecordMerger`), which every process that reads must be able to import. No table names one.",
    Scope.READ,
    since=_SINCE,
)
DELETE_FIELD = optional_text(
    "hoodie.payload.delete.field",
    "Column which marks a row as a delete when its text is `hoodie.payload.delete.marker`; for tables which do not "
    "store it themselves.",
    Scope.BOTH,
    since=_SINCE,
)
DELETE_MARKER = optional_text(
    "hoodie.payload.delete.marker",
    "The text in `hoodie.payload.delete.field` that marks a delete.",
    Scope.BOTH,
    since=_SINCE,
)
DAMAGED = flag(
    "hoodie.py.read.damaged",
    "Whether a read goes on, with a warning, where a log file or base file is not as the completed commit that wrote "
    "it recorded: missing, too short, or with bytes that are no log block. Rows are then missing, or older than they "
    "should be. Otherwise such a read fails with `CorruptFileError`.",
    Scope.READ,
    False,
    since=_SINCE,
)
MERGE_MEMORY = integer(
    "hoodie.memory.merge.max.size",
    "How much memory the logs of one file slice may take while they are merged; what does not fit waits in temporary "
    "files. Each slice read at the same time counts for itself.",
    Scope.READ,
    1024 * 1024 * 1024,
    minimum=1024 * 1024,
    unit="bytes",
    since=_SINCE,
)
FLINK_MERGE_MEMORY = integer(
    "compaction.max_memory",
    "The same in megabytes, by Flink's name; without effect where hoodie.memory.merge.max.size is given.",
    Scope.READ,
    1024,
    minimum=1,
    unit="megabytes",
    since=_SINCE,
)
SPILL_FOLDER = optional_text(
    "hoodie.memory.spillable.map.path",
    "Folder in which a merge makes its temporary files, and removes them again; by default that of the system.",
    Scope.READ,
    since=_SINCE,
)

OPTIONS = (
    QUERY_TYPE,
    AS_OF_INSTANT,
    MERGE_TYPE,
    CHANGELOG,
    COLUMNS,
    FILTER,
    KEYS,
    BATCH_ROWS,
    SPLIT_BYTES,
    OPEN_COST_BYTES,
    MIN_TASKS,
    RECORD_MERGER,
    DELETE_FIELD,
    DELETE_MARKER,
    DAMAGED,
    MERGE_MEMORY,
    FLINK_MERGE_MEMORY,
    SPILL_FOLDER,
)


def column_names(text: str | None) -> list[str] | None:
    """The names in a value of `columns`; those in backticks may hold commas. None when it is not given."""
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


def record_keys(text: str | None) -> list[str] | None:
    """The keys in a value of `hoodie.py.read.keys`; None when it is not given."""
    if text is None:
        return None
    if not text.startswith("["):
        return [text]
    try:
        keys = json.loads(text)
    except (ValueError, RecursionError):
        keys = None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ConfigError(f"Option {KEYS.key} = '{text}' is not valid: expected a JSON list of texts, or one key")
    return keys
