"""Apache Hudi tables for PySpark, without a JAR."""
