"""Bootstraps: a table made of Parquet or ORC files that there are, which stay where they are."""

from hudi_py.write.bootstrap.run import bootstrap_options, bootstrap_table

__all__ = ["bootstrap_options", "bootstrap_table"]
