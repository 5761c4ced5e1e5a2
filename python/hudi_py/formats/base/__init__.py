"""Base files of a file group in Parquet, ORC and Lance: readers, writers and their shared parts."""
