"""Sweeps: a plan file of models, benchmarks and settings, run as one thing.

`document` reads the file; `cells` makes a run of each combination, and runs them side by side within the limits.
"""
