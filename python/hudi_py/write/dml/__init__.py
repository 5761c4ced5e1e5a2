"""UPDATE, DELETE and MERGE: rows found by a scan, changed by expressions, and written where they were found."""
