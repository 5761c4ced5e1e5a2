"""Change data capture queries: the rows each commit inserted, updated or deleted, before and after the change."""
