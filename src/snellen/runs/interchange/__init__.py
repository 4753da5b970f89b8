"""Runs in the file formats of other programs: Inspect logs, Every Eval Ever, Hugging Face results, lm-eval."""
