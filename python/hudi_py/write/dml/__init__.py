"""UPDATE, DELETE and MERGE: rows that a scan found are changed by expressions, and written to their file groups."""
