"""Statements of Spark SQL on Hudi tables, as Apache Hudi's SQL has them."""
