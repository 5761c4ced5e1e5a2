"""Options of the streaming source (`DataSourceReadOptions`, `FlinkOptions`, 1.2.0), and those of hudi-py alone.

Ranges, change formats and hole policies are those of `hudi_py.config.incremental`.
"""

from __future__ import annotations

from hudi_py.config.option import Scope, integer, optional_text

_SINCE = "0.1.0"

START_OFFSET = optional_text(
    "hoodie.datasource.streaming.startOffset",
    "Where a new streaming query begins: `earliest` (the first commit whose files are still there), `latest` (what "
    "is committed after the start), or an instant (exclusive). Without it, the first batch is the table as it is "
    "then, and the commits after it follow. A query that has a checkpoint goes on from there.",
    Scope.READ,
    since=_SINCE,
)
MAX_COMMITS = integer(
    "hoodie.py.read.streaming.max.commits",
    "At most this many commits in one micro-batch; 0: no limit. With 1, each commit's rows come once; with more, the "
    "last version of a key within the batch. The snapshot at the start is one batch.",
    Scope.READ,
    0,
    unit="commits",
    aliases=("read.commits.limit",),
    since=_SINCE,
)
MAX_BYTES = integer(
    "hoodie.py.read.streaming.max.bytes",
    "A micro-batch takes no further commit once its commits wrote this many bytes, but always one; 0: no limit.",
    Scope.READ,
    0,
    unit="bytes",
    since=_SINCE,
)

OPTIONS = (START_OFFSET, MAX_COMMITS, MAX_BYTES)
