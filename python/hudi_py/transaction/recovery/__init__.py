"""Undoing what failed: rollback and restore, and finding the writes that need them."""
