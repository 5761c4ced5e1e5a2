"""`python -m benchmarks` runs the TPC-H comparison; a name from `OTHERS` selects another one."""

import sys

from benchmarks import (
    bootstrap,
    clean_planning,
    commits,
    compaction,
    large,
    many_files,
    operations,
    publication,
    reading,
    small_files,
    stores,
    streaming,
    tending,
    timeline,
    tpch,
)

OTHERS = {
    "bootstrap": bootstrap,
    "reading": reading,
    "compaction": compaction,
    "clean": clean_planning,
    "timeline": timeline,
    "commits": commits,
    "files": many_files,
    "large": large,
    "operations": operations,
    "publication": publication,
    "small": small_files,
    "stores": stores,
    "stream": streaming,
    "tend": tending,
}

chosen = OTHERS.get(sys.argv[1]) if len(sys.argv) > 1 else None
if chosen is None:
    tpch.main()
else:
    chosen.main(sys.argv[2:])
