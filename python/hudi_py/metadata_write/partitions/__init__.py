"""The partitions of the metadata table that are kept up to date, each described by a class of its own."""
