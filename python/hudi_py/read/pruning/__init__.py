"""What a filter or keys leave out: partitions, file slices and row groups that cannot match."""
