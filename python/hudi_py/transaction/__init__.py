"""Implements the life cycle of an action on a table: begun, checked against other writers, completed or undone. Knows
nothing about rows."""
