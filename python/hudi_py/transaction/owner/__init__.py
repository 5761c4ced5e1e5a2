"""Identifies the owner of a pending instant and whether its process is still alive."""
