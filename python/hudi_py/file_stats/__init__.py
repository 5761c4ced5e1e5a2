"""Statistics and keys of data files, for the metadata table; collected as the files are written."""
