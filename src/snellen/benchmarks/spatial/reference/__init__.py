"""Published results of these benchmarks, and known errors in them."""
