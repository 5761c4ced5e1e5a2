"""The procedures that make a table of files: `run_bootstrap` and `hdfs_parquet_import` (`RunBootstrapProcedure`,
`HdfsParquetImportProcedure`, Apache Hudi 1.2.0).

On any failure Apache Hudi deletes what is at `base_path`, whatever it was. Here, a table that is there is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import NumericType

from hudi_py.config import bootstrap as bootstrap_config
from hudi_py.config import table as table_config
from hudi_py.errors import ConfigError, SchemaMismatchError, first_line
from pyspark_hudi import calls
from pyspark_hudi.dialect.descriptors import Given, Procedure, Rows, needed
from pyspark_hudi.dialect.maintenance import options_of
from pyspark_hudi.dialect.tables import StatementTarget
from pyspark_hudi.failure import raised_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTIONS: Final = {
    "table": table_config.TABLE_NAME,
    "table_type": table_config.TABLE_TYPE,
    "bootstrap_path": bootstrap_config.BASE_PATH,
    "rowKey_field": table_config.RECORD_KEY,
    "base_file_format": table_config.BASE_FILE_FORMAT,
    "partition_path_field": table_config.PARTITION_PATH,
    "selector_class": bootstrap_config.SELECTOR,
    "key_generator_class": table_config.KEYGEN_CLASS,
    "payload_class": table_config.PAYLOAD_CLASS,
}
"""Parameters that are options."""
_REFUSED: Final = {
    "props_file_path": "give what is in it as options => 'key=value,...'",
    "enable_hive_sync": "set hoodie.datasource.hive_sync.enable and its options",
    "bootstrap_overwrite": "remove the table first",
    "schema_provider_class": "the schema is that of the files",
}


def _run_bootstrap(target: StatementTarget, given: Given) -> Rows:
    for name, instead in _REFUSED.items():
        if given[name]:
            raise ConfigError(
                f"Cannot call run_bootstrap with {name} => {given[name]!r}: this is not supported; {instead}"
            )
    index = str(given["bootstrap_index_class"] or "")
    if index and not index.endswith(".HFileBootstrapIndex"):
        raise ConfigError(
            f"Cannot call run_bootstrap with bootstrap_index_class => '{index}': supported is HFileBootstrapIndex"
        )
    for name in ("table", "table_type", "bootstrap_path", "rowKey_field"):
        needed(given, name)
    chosen = {option.key: str(given[name]) for name, option in _OPTIONS.items() if given[name]}
    target.call(calls.bootstrap, {**chosen, **options_of(given)})
    yield (0,)


def _import_files(target: StatementTarget, given: Given) -> Rows:
    """Writes the rows of Parquet files to a table, by default a new one, with the columns of an Avro schema.

    Numbers in the partition column are seconds, which make paths `yyyy/MM/dd`, as in Apache Hudi
    (`HDFSParquetImporterUtils`).
    """
    for name in _IMPORT_NEEDS:
        needed(given, name)
    if given["props_file_path"]:
        raise ConfigError(
            f"Cannot call hdfs_parquet_import with props_file_path => {given['props_file_path']!r}: this is not "
            "supported; set what is in it by SET key=value"
        )
    command = str(given["command"]).lower()
    if command not in _IMPORTS:
        raise ConfigError(
            f"Cannot call hdfs_parquet_import with command => {given['command']!r}; supported: {', '.join(_IMPORTS)}"
        )
    if command != "upsert" and target.exists():
        raise ConfigError(
            f"Cannot import files as a table at {target.path}: there is a table already; give another target_path, or "
            "command => 'upsert'"
        )
    rows, partition = _file_rows(target, given), str(given["partition_key"])
    options = {option.key: str(given[name]) for name, option in _IMPORT_OPTIONS.items()}
    if isinstance(rows.schema[partition].dataType, NumericType):
        options |= {option.key: value for option, value in _SECONDS.items()}
    target.write(rows, _IMPORTS[command], **options)
    yield (0,)


def _file_rows(target: StatementTarget, given: Given) -> DataFrame:
    path = str(given["schema_file_path"])
    with raised_here():
        text = target.spark.read.text(path, wholetext=True).first()
    try:
        columns = from_arrow_schema(calls.columns_of(text[0] if text else ""))
    except (ValueError, SchemaMismatchError) as error:
        raise ConfigError(
            f"Cannot import files as a table at {target.path}: {path} is no Avro schema of a record: "
            f"{first_line(error)}"
        ) from None
    for name in ("row_key", "partition_key"):
        if given[name] not in columns.names:
            raise ConfigError(
                f"Cannot import files as a table at {target.path}: {name} => {given[name]!r} is no column of {path}; "
                f"columns are {', '.join(columns.names)}"
            )
    reader = target.spark.read.schema(columns).option("recursiveFileLookup", "true")
    return reader.parquet(str(given["src_path"]))


_IMPORT_OPTIONS: Final = {
    "table": table_config.TABLE_NAME,
    "table_type": table_config.TABLE_TYPE,
    "row_key": table_config.RECORD_KEY,
    "partition_key": table_config.PARTITION_PATH,
}
_IMPORT_NEEDS: Final = (
    *("table", "table_type", "src_path", "target_path", "row_key", "partition_key", "schema_file_path"),
)
_IMPORTS: Final = {"insert": "insert", "upsert": "upsert", "bulkinsert": "bulk_insert"}
"""Operations by their names in this procedure."""
_SECONDS: Final = {
    table_config.KEYGEN_TYPE: "TIMESTAMP",
    table_config.DATE_TYPE: "UNIX_TIMESTAMP",
    table_config.DATE_OUTPUT_FORMAT: "yyyy/MM/dd",
}
BOOTSTRAP_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "run_bootstrap": Procedure(
        dict[str, Any](
            {
                **dict.fromkeys(("table", "table_type", "bootstrap_path", "base_path", "rowKey_field")),
                "base_file_format": None,
                "partition_path_field": "",
                **dict.fromkeys(("bootstrap_index_class", "selector_class", "key_generator_class")),
                **dict.fromkeys(("full_bootstrap_input_provider", "schema_provider_class", "payload_class")),
                "parallelism": 1500,
                "enable_hive_sync": False,
                "props_file_path": None,
                "bootstrap_overwrite": False,
                "options": None,
            }
        ),
        "status INT",
        _run_bootstrap,
        creates="base_path",
    ),
    "hdfs_parquet_import": Procedure(
        dict[str, Any](
            {
                **dict.fromkeys(_IMPORT_NEEDS),
                "command": "insert",
                "retry": 0,
                "parallelism": 2,
                "props_file_path": "",
            }
        ),
        "import_result INT",
        _import_files,
        creates="target_path",
    ),
}
