"""Hash buckets are split and merged: the clusterings of tables with consistent hashing."""
