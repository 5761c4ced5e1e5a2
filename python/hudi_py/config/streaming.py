"""Options of the streaming source (`DataSourceReadOptions`, `FlinkOptions`, 1.2.0), and those of hudi-py alone.

Ranges, change formats and hole policies are those of `hudi_py.config.incremental`.
"""

from __future__ import annotations

from hudi_py.config.option import Scope, declared, integer, optional_text

START_OFFSET = optional_text(
    "hoodie.datasource.streaming.startOffset",
    "Where a new streaming query starts: `earliest` (the first commit whose files still exist), `latest` (commits "
    "after the start), or an instant (exclusive). Without it, the first batch is a snapshot of the table, and later "
    "commits follow. A query with a checkpoint resumes there.",
    Scope.READ,
    example="earliest",
)
MAX_COMMITS = integer(
    "hoodie.py.read.streaming.max.commits",
    "Maximum number of commits in one micro-batch; 0: no limit. With 1, a batch has the rows of one commit; with "
    "more, it has the last version of each key in the batch. The initial snapshot is one batch.",
    Scope.READ,
    0,
    unit="commits",
    aliases=("read.commits.limit",),
    example="10",
)
MAX_BYTES = integer(
    "hoodie.py.read.streaming.max.bytes",
    "A micro-batch takes no further commit once its commits wrote this many bytes, but always at least one; 0: no "
    "limit.",
    Scope.READ,
    0,
    unit="bytes",
    example="1073741824",
)

OPTIONS = declared(globals())
