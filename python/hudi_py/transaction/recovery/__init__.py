"""Undoes failed actions: rollback and restore, and finding the writes that need them."""
