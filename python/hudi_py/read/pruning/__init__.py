"""Prunes partitions, file slices and row groups that cannot match a filter or keys."""
