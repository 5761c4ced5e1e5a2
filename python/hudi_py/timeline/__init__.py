"""The timeline: the actions on a table, their order and their states."""
