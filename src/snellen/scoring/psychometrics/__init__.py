"""Psychometric functions: thresholds with intervals from right and wrong answers, and which level to ask next."""
