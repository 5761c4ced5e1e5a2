"""The table to write to: creates it, and determines its schema after a write."""
