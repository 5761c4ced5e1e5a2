"""Options of table services in general."""

from __future__ import annotations

from hudi_py.config.option import Scope, declared, flag

ENABLED = flag(
    "hoodie.table.services.enabled",
    "Whether table services follow a commit. With `false`, writes neither plan nor run any, regardless of the "
    "services' own options; they can still be run on demand.",
    Scope.SERVICE,
    True,
)
FAIL_ON_ERROR = flag(
    "hoodie.fail.writes.on.inline.table.service.exception",
    "Whether a table service that fails after a commit raises an error to the writer, although the write is "
    "committed. `false`: logs a warning.",
    Scope.SERVICE,
    True,
)

OPTIONS = declared(globals())
