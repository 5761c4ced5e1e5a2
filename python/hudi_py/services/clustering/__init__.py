"""Clustering: rows move to fewer, larger or sorted files."""
