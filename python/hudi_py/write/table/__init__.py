"""The table that is written to: creating it, and the schema that a write leaves it with."""
