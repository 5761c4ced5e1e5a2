"""The partitions of the metadata table that hudi-py maintains, each described by a class."""
