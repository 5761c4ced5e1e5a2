"""The procedures that change the metadata table, or write files of the caller (`CreateMetadataTableProcedure`,
`InitMetadataTableProcedure`, `DeleteMetadataTableProcedure`, `ExportInstantsProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import os
import time
from typing import Final

from hudi_py.errors import ConfigError
from hudi_py.wiring import IndexChange
from pyspark_hudi import calls
from pyspark_hudi.dialect.procedure import EXPORT, EXPORTED, Given, Procedure, Rows, needed, rows_of
from pyspark_hudi.dialect.tables import StatementTarget


def _change_seconds(target: StatementTarget, action: str) -> float:
    """Returns how many seconds an action took."""
    begun = time.monotonic()
    target.call(calls.change_index, IndexChange(action))
    return round(time.monotonic() - begun, 3)


def _metadata_place(target: StatementTarget) -> str:
    path = target.path if ":" in target.path else f"file:{target.path}"
    return f"{path.rstrip('/')}/.hoodie/metadata"


def _create_metadata(target: StatementTarget, given: Given) -> Rows:
    taken = _change_seconds(target, "make")
    yield (f"Created Metadata Table in {_metadata_place(target)} (duration={taken}secs)",)


def _init_metadata(target: StatementTarget, given: Given) -> Rows:
    if given["read_only"]:
        names = target.config.properties.get("hoodie.table.metadata.partitions")
        if not names:
            raise ConfigError(
                f"Cannot open the metadata table of {target.shown}: there is none; CALL create_metadata_table makes one"
            )
    taken = 0.0 if given["read_only"] else _change_seconds(target, "complete")
    action = "Opened" if given["read_only"] else "Initialized"
    yield (f"{action} Metadata Table in {_metadata_place(target)} (duration={taken}sec)",)


def _delete_metadata(target: StatementTarget, given: Given) -> Rows:
    _change_seconds(target, "remove")
    yield (f"Deleted Metadata Table at '{_metadata_place(target)}'",)


def _export_instants(target: StatementTarget, given: Given) -> Rows:
    """Exports instants to a folder of the process that runs CALL, one file each."""
    folder = needed(given, "local_folder")
    if not os.path.isdir(folder):
        raise ConfigError(
            f"Cannot export instants of {target.shown} to {folder}: it is not a folder of this machine; create it, or "
            "name another"
        )
    rows = rows_of(target, EXPORT, given)
    for name, content in rows:
        with open(os.path.join(folder, os.path.basename(name)), "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
    yield (f"Exported {len(rows)} Instants to {folder}",)


_RESULT: Final = "result STRING"
REPAIR_PROCEDURES: Final = {
    "create_metadata_table": Procedure({"table": None}, _RESULT, _create_metadata),
    "init_metadata_table": Procedure({"table": None, "read_only": False}, _RESULT, _init_metadata),
    "delete_metadata_table": Procedure({"table": None}, _RESULT, _delete_metadata),
    EXPORT: Procedure(EXPORTED, "export_detail STRING", _export_instants),
}
