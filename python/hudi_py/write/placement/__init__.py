"""Where rows go: new keys to file groups with room, known keys to where an index over all partitions finds them."""
