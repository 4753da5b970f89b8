"""Labels of incorrect answers: proposed by rules and a judge, settled by annotators.

A label says whose it is (`rule`, `judge`, `person`). What nobody can tell stays `unknown`; nothing is guessed.
"""
