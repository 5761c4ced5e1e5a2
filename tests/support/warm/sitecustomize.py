# ruff: noqa: F401
"""Imported by every Python process that has this folder on its path, before anything else.

Spark forks each worker from a daemon that has imported nothing of ours, and each call of a data source has a worker of
its own. A daemon that has the modules already saves the tests a second for each of hundreds of calls.
"""

import gc
import sys

if "pyspark.daemon" in sys.orig_argv:
    import pandas
    import pyspark.sql.worker.plan_data_source_read
    import pyspark.worker

    import pyspark_hudi.reader
    import pyspark_hudi.source
    import pyspark_hudi.writer

    gc.freeze()  # the collector of garbage in workers need not look at what they share
