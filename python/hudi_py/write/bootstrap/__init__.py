"""Bootstraps: create a table from existing Parquet or ORC files, which stay where they are."""

from hudi_py.write.bootstrap.run import bootstrap_options, bootstrap_table

__all__ = ["bootstrap_options", "bootstrap_table"]
