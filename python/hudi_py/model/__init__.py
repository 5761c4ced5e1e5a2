"""Frozen values shared by every layer: instants, names, files, commit metadata, table properties."""
