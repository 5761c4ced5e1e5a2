"""What is noted of data files as they are written, for the metadata table."""
