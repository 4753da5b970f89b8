"""The report of an encoder's features."""
