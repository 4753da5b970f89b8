"""How a benchmark of hard, unleaked, evidenced questions is made of candidates: five stages in one working folder."""

STAGES = ("hard", "leaks", "evidence", "review", "pack")
"""In their order. The first four decide on candidates; `pack` writes what all of them kept."""
DECIDING = STAGES[:-1]
