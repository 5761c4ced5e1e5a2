"""`python -m benchmarks` runs the TPC-H comparison."""

from benchmarks.tpch import main

main()
