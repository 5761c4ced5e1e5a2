"""Options of rollbacks, savepoints and restores (`HoodieWriteConfig`, 1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Scope, declared, flag

ROLLBACK_BY_MARKERS = flag(
    "hoodie.rollback.using.markers",
    "Whether a rollback finds the files of a failed write by its markers. If false, or if there are no markers, the "
    "table is listed.",
    Scope.SERVICE,
    True,
)

OPTIONS = declared(globals())
