"""Table services: what keeps a table healthy between writes."""
