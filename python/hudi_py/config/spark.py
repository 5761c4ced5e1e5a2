"""Options of `spark.read.format("hudi-py")` alone."""

from __future__ import annotations

from hudi_py.config.option import Scope, choice, optional_choice, optional_text

_SINCE = "0.1.0"

VIEW = optional_choice(
    "view",
    "Instead of rows, what a table or a read of it consists of: its newest file slices (`files`), its active timeline "
    "(`timeline`), its partitions (`partitions`), the file slices which this very read would take, and which of them "
    "Spark's own Parquet reader may take (`splits`), or one row which explains the read (`plan`).",
    Scope.READ,
    ("files", "timeline", "partitions", "splits", "plan"),
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

OPTIONS = (VIEW, PIN, NATIVE)
