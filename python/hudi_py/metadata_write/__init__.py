"""The metadata table, written: kept up within every action of its table (format reference 10)."""
