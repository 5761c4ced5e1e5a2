"""Encodes records of the metadata table as Arrow columns and as Avro bytes."""
