"""Apache Hudi tables for Python: Arrow in, Arrow out, no JVM."""
