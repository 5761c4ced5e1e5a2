"""The metadata table as a table: its creation, its delta commits, and what they are made from."""
