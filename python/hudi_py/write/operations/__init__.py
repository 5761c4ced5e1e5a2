"""The operations, each in its module, over one pipeline: keyed rows are tagged, placed and written."""
