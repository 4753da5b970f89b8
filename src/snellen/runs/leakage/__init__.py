"""The leakage panel: how much of a model's accuracy needs no picture, and what in a benchmark gives answers away."""
