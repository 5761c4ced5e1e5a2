"""Hashes, buckets and bloom filters of record keys, bit for bit equal to Java's."""
