"""Reads one file slice: its base file, its logs, and the parts for an engine that reads base files itself."""
