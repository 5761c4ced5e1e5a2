"""One file slice as rows: its base file, its logs, and what an engine that reads base files itself needs."""
