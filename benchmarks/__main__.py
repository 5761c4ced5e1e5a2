"""`python -m benchmarks` runs the TPC-H comparison, `python -m benchmarks reading` planning, logs and ranges."""

import sys

from benchmarks import reading, tpch

if sys.argv[1:2] == ["reading"]:
    reading.main(sys.argv[2:])
else:
    tpch.main()
