"""Writes the metadata table, within every action of its table (format reference 10)."""
