"""Rollbacks, savepoints and restores on demand."""
