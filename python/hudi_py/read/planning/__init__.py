"""Plans the splits of a scan: which partitions and file slices hold its rows."""
