"""Attacks on encoders and classifiers: PGD, and accuracy as a function of the attack's strength."""
