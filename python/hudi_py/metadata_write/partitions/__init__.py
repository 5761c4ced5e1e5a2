"""The partitions of the metadata table that hudi-py maintains, one class each."""
