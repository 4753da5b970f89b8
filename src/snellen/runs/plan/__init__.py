"""Sweeps: a plan file of models, benchmarks and settings, run as one thing.

`document` reads the file, `cells` makes a run of each combination, `execute` runs them side by side within the limits, and
`outcome` has the table at the end.
"""
