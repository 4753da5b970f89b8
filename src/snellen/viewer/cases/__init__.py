"""One sample of a benchmark with the replies of all runs: what the case page shows."""
