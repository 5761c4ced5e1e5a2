"""Table services: compaction, cleaning, archiving, savepoints and recovery."""
