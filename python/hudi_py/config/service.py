"""Options of table services in general."""

from __future__ import annotations

from hudi_py.config.option import Scope, flag

_SINCE = "0.1.0"

ENABLED = flag(
    "hoodie.table.services.enabled",
    "Whether table services follow a commit at all. `false`: none is planned or run by writes, whatever their own "
    "options say; they can be run on demand.",
    Scope.SERVICE,
    True,
    since=_SINCE,
)
FAIL_ON_ERROR = flag(
    "hoodie.fail.writes.on.inline.table.service.exception",
    "Whether the failure of a table service after a commit is raised to the writer, although the write is committed. "
    "`false`: a warning is logged.",
    Scope.SERVICE,
    True,
    since=_SINCE,
)

OPTIONS = (ENABLED, FAIL_ON_ERROR)
