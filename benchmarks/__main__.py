"""`python -m benchmarks` runs the TPC-H comparison, `python -m benchmarks reading` planning, logs and ranges,
`python -m benchmarks timeline` long timelines, `python -m benchmarks compaction` compaction,
`python -m benchmarks clean` planning cleans.
"""

import sys

from benchmarks import clean_planning, commits, compaction, reading, timeline, tpch

if sys.argv[1:2] == ["reading"]:
    reading.main(sys.argv[2:])
elif sys.argv[1:2] == ["compaction"]:
    compaction.main(sys.argv[2:])
elif sys.argv[1:2] == ["commits"]:
    commits.main(sys.argv[2:])
elif sys.argv[1:2] == ["clean"]:
    clean_planning.main(sys.argv[2:])
elif sys.argv[1:2] == ["timeline"]:
    timeline.main(sys.argv[2:])
else:
    tpch.main()
