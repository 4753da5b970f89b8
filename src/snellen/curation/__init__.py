"""Benchmark curation: from candidates to a hard, leak-free, evidenced set, in five stages over one folder."""

STAGES = ("hard", "leaks", "evidence", "review", "pack")
"""In their order. The first four decide on candidates; `pack` writes what all of them kept."""
DECIDING = STAGES[:-1]
