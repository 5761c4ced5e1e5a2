"""Options of `format("hudi-py")` alone."""

from __future__ import annotations

from hudi_py.config.option import Scope, choice, optional_choice, optional_text

_SINCE = "0.1.0"

VIEW = optional_choice(
    "view",
    "Instead of rows, what a table or a read of it consists of: its newest file slices (`files`), its active timeline "
    "(`timeline`), its partitions (`partitions`), the file slices which this very read would take, and which of them "
    "Spark's own Parquet reader may take (`splits`), one row which explains the read (`plan`), the pending plans "
    "of table services (`plans`), the report of one (`service`), or, without a path, the libraries that Spark's Python "
    "has for hudi-py (`environment`).",
    Scope.READ,
    ("files", "timeline", "partitions", "splits", "plan", "plans", "service", "environment"),
    since=_SINCE,
)
PIN = optional_text(
    "hoodie.py.read.pin",
    "Reads the state, and the file slices, which an earlier plan saw: the column `pin` of the view `plan`. Where Spark "
    "resolves a DataFrame anew for each action, as Spark Connect does, all actions then see the same rows.",
    Scope.READ,
    since=_SINCE,
)
NATIVE = choice(
    "hoodie.py.read.native",
    "Whether `read_table` has Spark's own Parquet reader read files that need nothing else (`auto`), or never "
    "(`never`). With options for the storage among the options of the read it does not, since Spark's reader does not "
    "get them.",
    Scope.READ,
    "auto",
    ("auto", "never"),
    since=_SINCE,
)

SERVICE = optional_text(
    "hoodie.py.service",
    "A table service to be run instead of a write of rows. `run_service` of `pyspark_hudi` sets it, and the four "
    "which follow.",
    Scope.WRITE,
    since=_SINCE,
)
SERVICE_PHASE = choice(
    "hoodie.py.service.phase",
    "What of the service is to be done: all of it in one process (`call`), its plan (`schedule`), its begin (`begin`, "
    "`begin_pending`), or its pieces by the tasks and then its completion (`execute`).",
    Scope.WRITE,
    "call",
    ("call", "schedule", "begin", "begin_pending", "execute"),
    since=_SINCE,
)
SERVICE_INSTANT = optional_text(
    "hoodie.py.service.instant", "The instant which the service is about.", Scope.WRITE, since=_SINCE
)
SERVICE_ARGUMENTS = optional_text(
    "hoodie.py.service.arguments",
    "What else the service is told, as a JSON object: of a savepoint `user` and `comment`, of a rollback `with_newer`.",
    Scope.WRITE,
    since=_SINCE,
)
SERVICE_TOKEN = optional_text(
    "hoodie.py.service.token",
    "Under which the report of the service is left; with the view `service` it is read.",
    Scope.BOTH,
    since=_SINCE,
)

OPTIONS = (VIEW, PIN, NATIVE, SERVICE, SERVICE_PHASE, SERVICE_INSTANT, SERVICE_ARGUMENTS, SERVICE_TOKEN)
