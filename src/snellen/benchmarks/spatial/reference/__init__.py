"""What others published about these benchmarks, and what is known to be wrong in it."""
