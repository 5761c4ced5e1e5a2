"""Which partitions and file slices hold the rows of a scan, as splits."""
