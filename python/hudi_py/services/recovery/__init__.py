"""Rollback, savepoints and restore on demand."""
