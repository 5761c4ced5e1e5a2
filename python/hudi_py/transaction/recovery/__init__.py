"""Undoes failed actions: rollbacks and restores, and the search for writes that need them."""
