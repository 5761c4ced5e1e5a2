"""The metadata table as a table: its creation, its delta commits and their input."""
