"""The timeline: what was done to a table, in which order, and how far each action has come."""
