"""All rows ranked by how near they are to each of some queries, exactly, in blocks, out of core."""
