"""Snellen, the eye chart for vision-language models."""

__version__ = "0.1.0"
