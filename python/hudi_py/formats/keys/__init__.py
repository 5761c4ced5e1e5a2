"""What is computed of record keys: hashes, buckets and bloom filters, all bit for bit those of Java."""
