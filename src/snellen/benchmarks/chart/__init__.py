"""The embedded chart: real scanned digits and drawn creatures, without a download."""
