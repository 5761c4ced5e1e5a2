"""Base files of a file group in Parquet, ORC and Lance: readers, writers and what they have in common."""
