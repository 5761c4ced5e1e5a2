"""Reads a table as a stream: offsets, the commits that are due, and the plan of a batch."""
