"""`CALL run_bootstrap` (`RunBootstrapProcedure`, Apache Hudi 1.2.0).

On any failure Apache Hudi deletes what is at `base_path`, whatever it was. Here, a table that is there is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hudi_py.config import bootstrap as bootstrap_config
from hudi_py.config import table as table_config
from hudi_py.errors import ConfigError
from pyspark_hudi import calls
from pyspark_hudi.dialect.maintenance import options_of
from pyspark_hudi.dialect.procedure import Given, Procedure, Rows, needed
from pyspark_hudi.dialect.tables import StatementTarget

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
        creates=True,
    ),
}
