"""Reads that an engine carries out: what its driver plans, and which base files its own reader may read."""
