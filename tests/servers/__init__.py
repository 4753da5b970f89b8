"""Servers to test against, on loopback and with a bounded life: `fast` for figures, `hostile` for faults, `hub` for data."""
