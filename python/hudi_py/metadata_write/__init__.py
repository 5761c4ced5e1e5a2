"""Writes the metadata table as part of every action of its table."""
