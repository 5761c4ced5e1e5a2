"""Places rows: new keys in file groups with room, known keys where an index over all partitions finds them."""
