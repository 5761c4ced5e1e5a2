"""Collects statistics and keys of data files for the metadata table while the files are written."""
