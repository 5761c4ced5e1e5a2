"""The Hive metastore."""
