"""Few-shot examples: answered questions of a pool, shown as earlier turns before each question of a benchmark."""
