"""Exact ranking of all rows by their similarity to queries, in blocks, out of core."""
