"""Runs statements of Spark SQL on Hudi tables, as Apache Hudi's SQL does."""
